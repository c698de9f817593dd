"""Sentences of SECURITY.md that no other test holds; sentences.toml has them all."""

import ast
import io
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import storage
from regard.data.pictures.picture_files import load_picture
from regard.data.reading import records
from regard.data.reading.readers import ReadSettings, find_sources, read
from regard.data.tokens.library import check_parts
from regard.errors import DataError, RegardError, SettingError
from regard.manifest import MANIFEST
from regard.run_folder import RunFolder, checkpoint_digests, is_plain_name, verified
from tests.fixtures.runs import HERE

PACKAGE = Path(regard.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}


@pytest.fixture
def run(tmp_path):
    return shutil.copytree(HERE / "runs" / "lm-transformer", tmp_path / "run")


# ------------------------------------------------------------------------------------------------ run folders

OPENED = """
import sys
folder, seen = sys.argv[1], []
sys.addaudithook(lambda event, given: seen.append(str(given[0])) if event == "open" else None)
import regard
model = regard.load(folder, "cpu")
model.generate("a cat", new_tokens=2, seed=0)
print(*sorted({name for name in seen if name.startswith(folder)}), sep="\\n")
"""


def test_a_run_is_read_from_three_formats_alone(run):
    for name in ("model.pt", "model.pkl", "code.py", "config.yaml", "weights.npz"):
        (run / name).write_bytes(b"\x80\x04.")
    told = subprocess.run([sys.executable, "-c", OPENED, str(run)], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
    opened = [Path(line) for line in told.stdout.split("\n") if line and Path(line) != run]
    assert {"run.toml", "tokenizer.json"} <= {each.name for each in opened}
    assert {each.suffix for each in opened} <= {".safetensors", ".json", ".toml", ".jsonl"}
    (run / "model.safetensors").unlink()                     # opened by its library, which the interpreter does not see
    with pytest.raises(RegardError, match=r"model\.safetensors"):
        regard.load(run, "cpu")


@pytest.mark.parametrize("name", ["../model.safetensors", "..", "a/b", "..\\x", "C:x", "/etc/passwd", "", "a\0b"])
def test_a_manifest_cannot_name_what_lies_outside_its_checkpoint(run, name):
    assert not is_plain_name(name) and is_plain_name("optimizer.safetensors")
    folder = run / "checkpoints" / "step-000001"
    folder.mkdir(parents=True)
    (folder / "x").write_text("x")
    for named, whole in (("x", True), (name, False)):
        (folder / MANIFEST).write_text(json.dumps({"files": {named: storage.digest(b"x")}}))
        assert (verified(folder) is not None) == whole
    with pytest.raises(ValueError):
        checkpoint_digests(folder)


def test_a_manifest_is_at_most_a_megabyte(run):
    (run / MANIFEST).write_text('{"format": 1, "files": {}, "x": "' + "x" * 1_100_000 + '"}')
    with pytest.raises(RegardError) as refused:
        regard.load(run, "cpu")
    assert "\n" not in str(refused.value)


def test_a_manifest_keeps_damage_out_and_no_forger(run):
    """Weights that were changed are refused; with the hashes changed too, they are taken: the page says so."""
    folder = RunFolder(run)
    from regard.manifest import write_manifest

    write_manifest(run, folder.adopted())
    raw = bytearray((run / "model.safetensors").read_bytes())
    raw[-3] ^= 1                                             # a bit of the last weight
    (run / "model.safetensors").write_bytes(raw)
    with pytest.raises(RegardError, match=r"SHA-256|manifest|damaged"):
        regard.load(run, "cpu")
    (run / MANIFEST).unlink()
    write_manifest(run, RunFolder(run).adopted())
    assert regard.load(run, "cpu").generate("a cat", new_tokens=2, seed=0) is not None


# ------------------------------------------------------------------------------------------------ texts and pictures


@pytest.mark.parametrize("count, refused", [(64, False), (65, True)])
def test_what_rewrites_a_text_makes_it_at_most_64_times_as_long(count, refused):
    part = {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * count}
    if refused:
        with pytest.raises(ValueError, match="many times as long"):
            check_parts(part)
    else:
        check_parts(part)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|b)*", "(a){2,}", r"(a)\1", r"(?<n>a)\k<n>"])
def test_a_pattern_that_repeats_groups_is_refused(pattern):
    with pytest.raises(ValueError, match="may take for ever"):
        check_parts({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"})
    check_parts({"type": "Split", "pattern": {"Regex": r"\s+|\p{L}+"}, "behavior": "Isolated"})


def test_a_record_is_at_most_64_megabytes(tmp_path, monkeypatch):
    assert records.LONGEST_RECORD == 64 * 2**20
    monkeypatch.setattr(records, "LONGEST_RECORD", 1000)
    (tmp_path / "a.jsonl").write_text('{"text": "' + "x" * 2000 + '"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl.*is longer than"):
        list(read(find_sources([str(tmp_path / "a.jsonl")]), ReadSettings("line")))


@pytest.mark.parametrize("kind", ["TIFF", "EPS", "PDF", "PPM", "ICO", "TGA", "SVG"])
def test_other_formats_of_pictures_are_refused(kind, tmp_path):
    from PIL import Image

    held = io.BytesIO()
    if kind == "SVG":
        held.write(b'<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>')
    else:
        Image.new("RGB", (16, 16), "red").save(held, kind)
    path = tmp_path / "a.png"                                # it is told by its bytes, and not by its name
    path.write_bytes(held.getvalue())
    with pytest.raises(DataError, match=r"a\.png"):
        load_picture(path, 8)


def test_pictures_are_decoded_in_this_process():
    source = SOURCES["data/pictures/picture_files.py"]
    assert "from PIL import" in source and "subprocess" not in source


def test_an_address_within_an_address_is_refused():
    with pytest.raises(SettingError, match="addresses within addresses are not opened"):
        find_sources(["zip://a.txt::https://127.0.0.1:9/b.zip"])


def test_bytes_from_an_address_are_checked_as_those_of_a_file(tmp_path):
    pytest.importorskip("fsspec")
    for name, raw in {"a.txt": b"a\xff", "b.txt.gz": b"\x1f\x8b\x08broken", "c.jsonl": b"[1]\n"}.items():
        (tmp_path / name).write_bytes(raw)
        said = []
        for place in (str(tmp_path / name), f"file://{tmp_path / name}"):
            with pytest.raises(DataError) as refused:
                list(read(find_sources([place]), ReadSettings("line")))
            said.append(str(refused.value).replace("file://", ""))
        assert said[0] == said[1]


# ------------------------------------------------------------------------------------------------ what code does not do


def calls_in(source):
    """Names that a source calls, as they are written: `torch.jit.script`."""
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}


def test_torch_jit_script_is_never_called():
    named = {path: source for path, source in SOURCES.items() if "script" in source and "jit" in source}
    assert not [path for path, source in named.items() if any("jit.script" in call for call in calls_in(source))]


def test_nothing_of_ours_reads_a_token_of_the_hub():
    for path, source in SOURCES.items():
        if "TOKEN" not in source and "get_token" not in source:
            continue
        named = {str(node.value) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)
                 and isinstance(node.value, str) and len(node.value) < 40}
        assert not named & {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}, path
        asked = [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare | ast.Call)
                 and "get_token()" in ast.unparse(node)]
        assert set(asked) <= {"get_token() is not None", "get_token()"} and len(asked) in (0, 2), path


def test_the_folder_of_triton_is_left_to_triton():
    assert not [path for path, source in SOURCES.items() if "TRITON_CACHE_DIR" in source or "TRITON_HOME" in source]


# ------------------------------------------------------------------------------------------------ the server


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("fastapi", reason="serving needs the extra `web`")
    from starlette.testclient import TestClient

    from regard.serve.app import make_app
    from regard.serve.registry import Registry

    app = make_app(Registry([HERE / "runs" / "lm-transformer"], device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def test_a_token_is_compared_in_constant_time():
    source = SOURCES["serve/security.py"]
    assert "hmac.compare_digest" in calls_in(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            assert "token" not in ast.unparse(node), ast.unparse(node)


def test_no_route_uploads_trains_or_fetches(client):
    """Fields of all requests: none is a path, an address or a file, but the picture to look at."""
    described = client.get("/openapi.json").json()
    names = set()
    for schema in described["components"]["schemas"].values():
        names |= set(schema.get("properties", {}))
    assert "image" in names
    assert not names & {"path", "url", "file", "folder", "address", "resume", "train", "out"}
    assert not [path for path in described["paths"] if "train" in path or "upload" in path]
    methods = {method for own in described["paths"].values() for method in own}
    assert methods == {"get", "post"}


def test_what_was_sent_is_not_logged(client, caplog, capfd):
    secret = "my-secret-words"
    with caplog.at_level(logging.DEBUG, logger="regard"), caplog.at_level(logging.DEBUG, logger="uvicorn"):
        for path, body in (("/v1/completions", {"model": "lm-transformer", "prompt": secret, "max_tokens": 2}),
                           ("/api/look", {"model": "lm-transformer", "text": secret}),
                           ("/v1/completions", {"model": "lm-transformer", "prompt": secret, "nonsense": secret}),
                           ("/translate", {"q": secret, "source": "fr", "target": "en"})):
            assert client.post(path, json=body).status_code < 500
    ours = [record.getMessage() for record in caplog.records if record.name.partition(".")[0] in ("regard", "uvicorn")]
    assert not [line for line in ours if secret in line]
    out, err = capfd.readouterr()
    assert secret not in out + err
