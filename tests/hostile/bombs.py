"""Small files that ask for much, or for what is not theirs: XML, gzip, pictures, tables, and paths that lead elsewhere.

Each is made by `make(folder, chance)`, which gives what is to be read; sizes and places are drawn.
"""

import gzip
import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.kinds import read_all_pairs, read_all_text, use_arpa, use_picture

SECRET = "the contents of another file"


@dataclass(frozen=True)
class Bomb:
    """`use` must refuse what `make` gives, in one line; `harmless` ones may be read, within the same bounds."""

    name: str
    make: Callable
    use: Callable
    harmless: bool = False


def put(folder, name, raw):
    (folder / name).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return folder / name


# ------------------------------------------------------------------------------------------------ XML

UNIT = '<tu><tuv xml:lang="fr"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>a cat</seg></tuv></tu>'
MEMORY = '<?xml version="1.0" encoding="{}"?>\n{}<tmx version="1.4"><header/><body>{}</body></tmx>'


def memory(body=None, doctype="", encoding="UTF-8"):
    def make(folder, chance):
        n = chance.randrange(1, 9)
        filled = (body(chance) if callable(body) else body) if body is not None else UNIT.format("&x9;")
        return put(folder, "a.tmx", MEMORY.format(encoding, doctype.replace("N", str(n)), filled).encode(
            "utf-16" if encoding == "UTF-16" else "utf-8"))

    return make


LAUGHS = "<!DOCTYPE tmx [<!ENTITY x0 'ha'>" + "".join(
    f"<!ENTITY x{at} '{f'&x{at - 1};' * 10}'>" for at in range(1, 10)) + "]>\n"
QUADRATIC = f"<!DOCTYPE tmx [<!ENTITY x9 '{'a' * 100_000}'>]>\n"
OUTSIDE = "<!DOCTYPE tmx [<!ENTITY x9 SYSTEM 'file:///etc/passwdN'>]>\n"
ADDRESS = "<!DOCTYPE tmx SYSTEM 'http://127.0.0.1:N/x.dtd'>\n"
PARAMETER = "<!DOCTYPE tmx [<!ENTITY % p SYSTEM 'http://127.0.0.1:N/x'> %p;]>\n"
ATTLIST = "<!DOCTYPE tmx [<!ATTLIST tu a CDATA 'xN'>]>\n"

XML = [
    Bomb("a billion laughs", memory(doctype=LAUGHS), read_all_pairs),
    Bomb("a billion laughs in UTF-16", memory(doctype=LAUGHS, encoding="UTF-16"), read_all_pairs),
    Bomb("an entity used often", memory(lambda chance: UNIT.format("&x9;" * 5000), QUADRATIC), read_all_pairs),
    Bomb("an entity from a file", memory(doctype=OUTSIDE), read_all_pairs),
    Bomb("a parameter entity from an address", memory(doctype=PARAMETER), read_all_pairs),
    Bomb("a DTD from an address", memory(doctype=ADDRESS), read_all_pairs),
    Bomb("a DTD of its own", memory(doctype=ATTLIST), read_all_pairs),
    Bomb("an entity that nobody declares", memory(), read_all_pairs),
    Bomb("deep elements", memory(lambda chance: "<x>" * chance.randrange(1000, 200_000)), read_all_pairs),
    Bomb("an endless segment", memory(lambda chance: UNIT.format("a " * 5_000_000)), read_all_pairs, harmless=True),
    Bomb("many attributes", memory(lambda chance: "<tu " + " ".join(
        f"a{at}='x'" for at in range(chance.randrange(10_000, 100_000))) + "/>"), read_all_pairs),
    Bomb("an endless comment", memory(lambda chance: "<!--" + "x" * 10_000_000 + "-->"), read_all_pairs),
    Bomb("many languages", memory(lambda chance: "<tu>" + "".join(
        f'<tuv xml:lang="x{at}"><seg>a</seg></tuv>' for at in range(50_000)) + "</tu>"), read_all_pairs),
    Bomb("an inclusion", memory(lambda chance: '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" '
                                'href="file:///etc/passwd" parse="text"/>'), read_all_pairs),
]

# ------------------------------------------------------------------------------------------------ gzip

HEADS = {
    "a.txt.gz": (b"", b"the cat sat on the mat\n"), "b.txt.gz": (b"", b"a" * 64),
    "a.jsonl.gz": (b"", b'{"text": "a cat"}\n'), "b.jsonl.gz": (b'{"text": "', b"a cat "),
    "a.tsv.gz": (b"", b"un chat\ta cat\n"),
    "a.tmx.gz": (MEMORY.format("UTF-8", "", "").partition("</body>")[0].encode(), UNIT.format("chat").encode()),
    "b.tmx.gz": (MEMORY.format("UTF-8", "", "").partition("</body>")[0].encode(), b"<!-- x -->"),
    "a.po.gz": (b'msgid ""\nmsgstr ""\n\n', b'msgid "a"\nmsgstr "b"\n\n'),
    "a.arpa.gz": (b"\\data\\\nngram 1=1000000\n\n\\1-grams:\n", b"-1.0\tcat\n"), "b.arpa.gz": (b"", b"\n"),
    "a.parquet.gz": (b"PAR1", bytes(64)), "a.mo.gz": (b"\xde\x12\x04\x95", bytes(64)),
}


def packed(name):
    """Gigabytes in a few megabytes: one member of a gzip file, again and again."""
    def make(folder, chance):
        head, body = HEADS[name]
        member = gzip.compress(body * (10_000_000 // len(body)), 9, mtime=0)
        return put(folder, name, gzip.compress(head, mtime=0) + member * chance.randrange(50, 200))

    return make


def endless_name(folder, chance):
    """A gzip header whose name has no end."""
    return put(folder, "a.txt.gz", b"\x1f\x8b\x08\x08\0\0\0\0\0\3" + b"x" * chance.randrange(10**6, 10**7))


def use_packed(path):
    {"arpa": use_arpa, "tsv": read_all_pairs, "tmx": read_all_pairs, "po": read_all_pairs, "mo": read_all_pairs,
     "parquet": read_all_text}.get(path.name.split(".")[1], read_all_text)(path)


GZIP = [*(Bomb(f"gigabytes in {name}", packed(name), use_packed) for name in HEADS),
        Bomb("a gzip header without an end", endless_name, use_packed)]

# ------------------------------------------------------------------------------------------------ pictures


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth=8, colour=2, extra=b"", rows=None):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(bytes(10_000_000), 9) if rows is None else rows
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def flat(kind, mode, width=2600, height=2600):
    """Millions of pixels, all of one colour."""
    def make(folder, chance):
        from PIL import Image

        held = io.BytesIO()
        Image.new(mode, (width, height)).save(held, kind, **({"lossless": True, "method": 0} if kind == "WEBP" else {}))
        return put(folder, f"a.{kind.lower()}", held.getvalue())

    return make


def frames(folder, chance):
    from PIL import Image

    held = io.BytesIO()
    some = [Image.new("P", (500, 500), at % 2) for at in range(300)]
    some[0].save(held, "GIF", save_all=True, append_images=some[1:], optimize=False)
    return put(folder, "a.gif", held.getvalue())


def text_chunk(kind):
    def make(folder, chance):
        return put(folder, "a.png", png(4, 4, extra=chunk(kind, b"a\0\0" + zlib.compress(bytes(100_000_000), 9))))

    return make


def huge(folder, chance):
    width, height = chance.choice(((2**31 - 1, 2**31 - 1), (100_000, 100_000), (50_000_001, 1), (1, 60_000_000)))
    return put(folder, "a.png", png(width, height))


def bmp(folder, chance):
    side = chance.choice((2**31 - 1, 40_000, -40_000))
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0)
    return put(folder, "a.bmp", b"BM" + struct.pack("<IHHI", 14 + len(head), 0, 0, 14 + len(head)) + head)


def other_kind(folder, chance):
    """What Pillow would hand to another program, or what fetches."""
    raw = chance.choice((b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n",
                         b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
                         b"II*\0\x08\0\0\0\0\0", b"%PDF-1.4\n", b"8BPS\0\1", b"\0\0\x01\0\1\0"))
    return put(folder, "a.png", raw)


PICTURES = [
    Bomb("a picture beyond all measure", huge, use_picture), Bomb("a bitmap beyond all measure", bmp, use_picture),
    Bomb("a text of 100 MB in a picture", text_chunk(b"zTXt"), use_picture),
    Bomb("a colour profile of 100 MB", text_chunk(b"iCCP"), use_picture),
    Bomb("thousands of frames", frames, use_picture), Bomb("a picture of another kind", other_kind, use_picture),
    *(Bomb(f"a flat {kind} in {mode}", flat(kind, mode), use_picture)
      for kind, mode in (("PNG", "RGBA"), ("PNG", "I;16"), ("PNG", "P"), ("GIF", "P"), ("WEBP", "RGBA"))),
]

# ------------------------------------------------------------------------------------------------ records and folders


def records(body):
    return lambda folder, chance: put(folder, "a.jsonl", body(chance))


def table(folder, chance):
    """Very many rows that are all alike: a few bytes of Parquet each million."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    column = arrow.DictionaryArray.from_arrays(arrow.array([0] * 5_000_000, arrow.int32()), ["a cat"])
    parquet.write_table(arrow.table({"text": column}), folder / "a.parquet", row_group_size=5_000_000)
    return folder / "a.parquet"


def captions(folder, chance):
    """A captions file that names a picture elsewhere."""
    from PIL import Image

    inside = folder / "pictures"
    inside.mkdir()
    Image.new("RGB", (4, 4)).save(folder / "secret.png")
    os.symlink(folder / "secret.png", inside / "link.png")
    os.symlink(folder, inside / "up")
    secret = folder / "secret.png"
    name = chance.choice((
        "../secret.png", str(secret), "link.png", "up/secret.png", "x/../../secret.png", "..\\secret.png",
        f"file://{secret}", "./../secret.png", "\0", "~/secret.png", "pictures/../../secret.png", "%2e%2e/secret.png",
        "/dev/zero", "/proc/self/environ"))
    (inside / "captions.tsv").write_text(f"{name}\ta cat\n" * chance.randrange(1, 4))
    return inside


def read_captions(folder):
    from regard.data.pictures.pictures import PictureDataSettings, read_captioned

    for found in read_captioned(folder, PictureDataSettings((str(folder),))):
        use_picture(found[0])


def foreign(folder, chance):
    """A folder of another program whose index leads elsewhere, or whose settings ask for much."""
    out = folder / "model"
    out.mkdir()
    settings = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 8, "n_head": 2,
                "vocab_size": 300, "n_positions": 16}
    odd = (10**12, -1, "x" * 10**6, [1] * 10**5, None, {"a": {}})
    settings[chance.choice(sorted(settings))] = chance.choice(odd)
    put(out, "config.json", json.dumps(settings))
    place = chance.choice(("../secret.safetensors", "/dev/zero", "/etc/passwd", "a/../../secret.safetensors", "\0",
                           ""))
    put(folder, "secret.safetensors", SECRET)
    put(out, "model.safetensors.index.json", json.dumps({"weight_map": {"transformer.wte.weight": place}}))
    put(out, "tokenizer.json", chance.choice(("{" * 10**6, "[]", '{"model": ' + "[" * 10**5, "{}")))
    return out


def import_it(path):
    from regard.interop.importing import import_run

    import_run(str(path), str(path.parent / "run"))


RECORDS = [
    Bomb("deep records", records(lambda chance: '{"text": ' + "[" * chance.randrange(10**5, 10**6)), read_all_text),
    Bomb("a number without an end", records(lambda chance: '{"text": ' + "9" * chance.randrange(10**5, 10**6) + "}"),
         read_all_text),
    Bomb("an endless record", records(lambda chance: '{"text": "' + "a cat " * 12_000_000), read_all_text),
    Bomb("an endless key", records(lambda chance: '{"' + "k" * 10_000_000 + '": 1}\n'), read_all_text),
    Bomb("many keys", records(lambda chance: json.dumps({str(at): at for at in range(100_000)}) + "\n"), read_all_text),
    Bomb("millions of rows that are alike", table, read_all_text),
    Bomb("captions that lead elsewhere", captions, read_captions),
    Bomb("a hostile folder to import", foreign, import_it),
]

# ------------------------------------------------------------------------------------------------ paths of a server

PATHS = ("/{up}{file}", "/static/{up}{file}", "/page/{up}{file}", "/api/runs/{up}{file}", "/api/lab/{up}{file}",
         "/v1/models/{up}{file}", "/{up}run/run.toml", "/lab/{up}{file}")
UPS = ("../" * 8, "..%2f" * 8, "%2e%2e/" * 8, "..\\" * 8, "%2e%2e%2f" * 8, "....//" * 8, "/", "//",
       "..%252f" * 8, "%00/")


def walk(folder, chance):
    put(folder, "secret.txt", SECRET)
    file = str(folder / "secret.txt").lstrip("/")
    return chance.choice(PATHS).format(up=chance.choice(UPS), file=file)


def ask(path):
    """Ask an application for a path as it stands; what is not found is refused."""
    import asyncio

    from regard.errors import RegardError
    from regard.serve.app import make_app
    from regard.serve.registry import Registry
    from tests.fixtures.runs import HERE

    got = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        got.append(message)

    from urllib.parse import unquote

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
             "path": unquote(path), "raw_path": path.encode(), "query_string": b"", "root_path": "",
             "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    asyncio.run(make_app(Registry([HERE / "runs" / "lm-transformer"], device="cpu"))(scope, receive, send))
    status, body = got[0]["status"], b"".join(each.get("body", b"") for each in got[1:])
    if SECRET.encode() in body or b"[training]" in body:
        raise AssertionError(f"{path} tells what lies elsewhere")
    if status in (400, 403, 404, 405, 422):
        raise RegardError(f"{path}: {status}")
    raise AssertionError(f"{path} is answered with {status}")


SERVED = [Bomb("a path that leads out of the page", walk, ask)]
BOMBS = [*XML, *GZIP, *PICTURES, *RECORDS, *SERVED]
