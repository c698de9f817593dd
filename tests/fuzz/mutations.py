"""Mutations of a good file, each a pure function of its bytes, a seed and a number: any case can be made again."""

import json
import random
import re

ODD_VALUES = (None, True, -1, 0, 1, 2**31, 2**63, 10**40, 1e308, float("nan"), float("inf"), "", "x" * 5000, "\ud800",
              "\x1b[31m\n", [], {}, [[]], {"a": {"b": [1]}}, "/dev/zero", "../../x", [0] * 50)
ODD_TOML = ("-1", "0", "1048576", "9223372036854775807", "9" * 5000, "nan", "inf", "1e400", '""', '"\\u001b[31m"', "[]",
            "[[[1]]]", "{a = 1}", "true", "1979-05-27", "0x" + "f" * 5000, '"' + "x" * 5000 + '"', "[1, 'a']",
            '"../../x"', "'a:b'")
ODD_BYTES = (b"\x00", b"\xff", b"\xff\xfe", b"\r", b"\n\n", b"\x1b[31m", b"<", b"&", b'"', b"9" * 400, b"-",
             b"\xed\xa0\x80", b"\xe2\x80\xae", b"nan", b"1e999", b"[" * 3000, b"\t")

ODD_NUMBERS = (b"0", b"-1", b"1", b"65536", b"2147483648", b"99999999999999999999", b"1e999", b"nan", b"9" * 4000)


def mutate(raw, number, seed, structure=None):
    """The bytes of mutation `number`: one to three changes. `structure` is json, jsonl, toml or safetensors, if any."""
    chance = random.Random(f"{seed} {number}")
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice((*PLAIN, *([STRUCTURES[structure]] * len(PLAIN) if structure else ())))
        raw = change(raw, chance)
    return raw


def flip(raw, chance):
    at = chance.randrange(max(1, len(raw)))
    return raw[:at] + bytes([raw[at] ^ (1 << chance.randrange(8))]) + raw[at + 1:] if raw else b"\x01"


def overwrite(raw, chance):
    at = chance.randrange(max(1, len(raw)))
    return raw[:at] + chance.randbytes(chance.choice((1, 2, 4, 8))) + raw[at + 8:]


def truncate(raw, chance):
    return raw[:chance.randrange(max(1, len(raw)))]


def insert(raw, chance):
    at = chance.randrange(len(raw) + 1)
    return raw[:at] + chance.choice(ODD_BYTES) + raw[at:]


def delete(raw, chance):
    at = chance.randrange(max(1, len(raw)))
    return raw[:at] + raw[at + chance.choice((1, 2, 16, 200)):]


def repeat(raw, chance):
    at = chance.randrange(max(1, len(raw)))
    piece = raw[at:at + chance.choice((1, 8, 100, 1000))]
    return raw[:at] + piece * chance.choice((2, 3, 20)) + raw[at:]


def change_number(raw, chance):
    """Another number in the place of one that is written in digits."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", raw[:200_000]))
    if not found:
        return flip(raw, chance)
    hit = chance.choice(found)
    return raw[:hit.start()] + chance.choice(ODD_NUMBERS) + raw[hit.end():]


PLAIN = (flip, flip, overwrite, truncate, insert, delete, repeat, change_number)


def change_json(raw, chance):
    """An odd value in the place of some part of the value; or a part gone, or there twice."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):                     # a change before made it something else
        return flip(raw, chance)
    places = list(parts_of(value))
    if not places:
        return json.dumps(chance.choice(ODD_VALUES)).encode()
    inside, key = chance.choice(places[:40] if chance.random() < 0.5 else places)
    what = chance.randrange(5)
    if what == 0:
        del inside[key]
    elif what == 1 and isinstance(inside, dict):
        inside[chance.choice(("", "x", "__class__", "\x1b", str(key) * 2))] = inside[key]
    elif what == 2 and isinstance(inside, list):
        inside += [inside[key]] * chance.choice((1, 3, 50))
    else:
        inside[key] = chance.choice(ODD_VALUES)
    return json.dumps(value).encode()


def parts_of(value):
    """Each place of a value: the object or list it is in, and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from parts_of(value[key])


def change_line(raw, chance):
    lines = raw.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at] = change_json(lines[at], chance)
    return b"\n".join(lines)


def change_toml(raw, chance):
    """An odd value of a setting; or a setting or table that is gone, or there twice, or has another name."""
    lines = raw.split(b"\n")
    at = chance.randrange(len(lines))
    name, equals, _ = lines[at].partition(b" = ")
    what = chance.randrange(8)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, chance.choice((lines[at], b"[x]", b"[[run]]", b"a.b.c = 1", b"[" + b"a." * 100 + b"a]")))
    elif what == 2:
        lines[at] = chance.choice((b"\x1b" + lines[at], lines[at].upper(), lines[at][:-1]))
    elif equals:
        lines[at] = name + equals + chance.choice(ODD_TOML).encode()
    return b"\n".join(lines)


def change_header(raw, chance):
    """The header of a safetensors file, with its length set right."""
    size = int.from_bytes(raw[:8], "little")
    if size > len(raw) - 8:
        return flip(raw, chance)
    header = change_json(raw[8:8 + size], chance)
    return len(header).to_bytes(8, "little") + header + raw[8 + size:]


STRUCTURES = {"json": change_json, "jsonl": change_line, "toml": change_toml, "safetensors": change_header}
