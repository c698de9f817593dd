"""Folders of other programs, damaged at random: one clear line each, or a model; nothing else, and nothing written."""

import json
import random
import shutil

import pytest

from regard.errors import RegardError
from regard.interop.importing import import_run

from .foreign_models import build, build_marian

pytest.importorskip("transformers", reason="transformers is not installed, whose classes are needed")

NASTY = [None, True, False, 0, 1, -1, 2, 3, 7, 2**15, 2**24, 2**31, 2**63, 2**70, -5, 0.5, 1e-300, 1e308, float("nan"),
         float("inf"), "", "a", "llama", "\ud800", "x" * 1000, [], {}, [1], ["a"], {"a": 1}, [[]], "<s>", "../x", "/"]
FOLDERS = {"llama": None, "gpt2": None, "mamba2": None, "eurobert": None, "marian": build_marian}
TRIES = 100


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def find(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / name
            if name == "marian":
                pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
                build_marian(made[name])
            else:
                build(name, made[name])
        return made[name]

    return find


def places(value, path=()):
    """Yield the path of everything inside a JSON value, but of long lists a few entries only."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for n, (key, part) in enumerate(items):
        if n < 30 or n % 97 == 0:
            yield (*path, key)
            yield from places(part, (*path, key))


def damage_json(path, draw):
    """Change, remove or repeat one entry of the file."""
    value = json.loads(path.read_text())
    *way, last = draw.choice(list(places(value)))
    inner = value
    for key in way:
        inner = inner[key]
    act = draw.choice(("set", "set", "set", "remove", "swap"))
    if act == "remove":
        del inner[last]
    elif act == "swap":
        inner[last] = value
    else:
        inner[last] = draw.choice(NASTY)
    try:
        path.write_text(json.dumps(value), errors="surrogatepass")
    except ValueError:                                       # it holds itself
        inner[last] = {"a": {}}
        path.write_text(json.dumps(value))


def damage_bytes(path, draw):
    """Flip, cut, insert or double some bytes, often near the beginning."""
    raw = bytearray(path.read_bytes())
    place = draw.randrange(min(len(raw), draw.choice((8, 200, len(raw)))))
    act = draw.choice(("flip", "cut", "insert", "double", "number"))
    if act == "flip":
        raw[place] ^= 1 << draw.randrange(8)
    elif act == "cut":
        del raw[place:]
    elif act == "insert":
        raw[place:place] = bytes(draw.choices(range(256), k=3))
    elif act == "double":
        raw[place:place] = raw[place:place + 50]
    else:
        raw[place:place + 8] = draw.choice((2**63 - 1, 2**40, 0)).to_bytes(8, "little")
    path.write_bytes(bytes(raw))


def damage_header(path, draw):
    """Lie in the header of a safetensors file: of shapes, sizes, types and names."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    path.with_name("header.json").write_text(json.dumps(header))
    damage_json(path.with_name("header.json"), draw)
    written = path.with_name("header.json").read_bytes()
    path.with_name("header.json").unlink()
    path.write_bytes(len(written).to_bytes(8, "little") + written + raw[8 + length:])


@pytest.mark.parametrize("name", FOLDERS)
def test_a_damaged_folder_is_one_line_or_a_model(name, folders, tmp_path):
    whole, draw, refused = folders(name), random.Random(f"{name} 1"), 0
    for number in range(TRIES):
        folder = tmp_path / "folder"
        shutil.copytree(whole, folder)
        file = draw.choice([path for path in sorted(folder.iterdir()) if path.name != "text.txt"])
        how = damage_bytes
        if file.suffix == ".json":
            how = draw.choice((damage_json, damage_json, damage_bytes))
        elif file.suffix == ".safetensors":
            how = draw.choice((damage_header, damage_header, damage_bytes))
        how(file, draw)
        try:
            import_run(folder, tmp_path / "out" / "run")
        except RegardError as error:
            refused += 1
            assert str(error) and "\n" not in str(error), (number, str(error))
            assert not list((tmp_path / "out").glob("**/*")), number
        except BaseException as error:
            raise AssertionError(f"try {number}: {how.__name__} of {file.name}") from error
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert refused > TRIES // 4
