"""A damaged run is told as damaged, in one line without a path; every route goes on for the others."""

import json
import math
import re
import shutil
import struct

import pytest

from regard.serve.damage import Damaged, in_one_line, plain, reading, without_paths
from regard.serve.registry import Registry
from tests.fixtures.runs import HERE

from .conftest import client_of

KINDS = {"lm": "lm-transformer", "translate": "translate-transformer", "caption": "caption-rnn-attention"}
DEEP = "[" * 100_000


def text(name, value):
    return lambda folder: (folder / name).write_text(value)


def data(name, value):
    return lambda folder: (folder / name).write_bytes(value)


def lines(name, *rows):
    return text(name, "".join(f"{row}\n" for row in rows))


def gone(name):
    return lambda folder: (folder / name).unlink()


def cut(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def instead(name):
    """A folder in the place of the file."""
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()
    return change


def settings(old, new):
    def change(folder):
        changed, count = re.subn(old, new, (folder / "run.toml").read_text(), flags=re.M)
        assert count, old
        (folder / "run.toml").write_text(changed)
    return change


def header(value):
    """A safetensors file with this header and no tensors."""
    told = json.dumps(value).encode()
    return data("model.safetensors", struct.pack("<Q", len(told)) + told)


def not_a_number(folder):
    """Every weight is nan: the file is whole, and its numbers are not."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = {name: torch.full_like(each, math.nan) if each.is_floating_point() else each
               for name, each in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")


# What can be seen by looking at the folder: /api/models says so. The others hurt when the model is loaded or followed.
SEEN = {
    "no weights": gone("model.safetensors"), "empty weights": cut("model.safetensors", 0),
    "cut weights": cut("model.safetensors", 100), "a list for a header": header([1]),
    "no shapes": header({"x": 3}), "a shape of text": header({"x": {"shape": ["a"]}}),
    "a header too long": data("model.safetensors", b"\xff" * 64), "a folder for weights": instead("model.safetensors"),
    "no tokenizer": gone("tokenizer.json"), "cut tokenizer": cut("tokenizer.json", 50),
    "tokenizer is a list": text("tokenizer.json", "[]"), "tokenizer is not text": data("tokenizer.json", b"\xff\xfe"),
    "deep tokenizer": text("tokenizer.json", DEEP),
}
UNSEEN = {
    "weights cut at the end": cut("model.safetensors", -100), "nan weights": not_a_number,
    "no settings": gone("run.toml"), "garbled settings": text("run.toml", "[run\nx"),
    "settings are not text": data("run.toml", b"\xff\xfe"), "settings outside a table": text("run.toml", "run = 3"),
    "a folder for settings": instead("run.toml"), "empty settings": text("run.toml", ""),
    "another family": settings("^family = .*", 'family = "nobody"'),
    "a family that is a number": settings("^family = .*", "family = 3"),
    "a context of text": settings("^context = .*", 'context = "wide"'),
    "steps of text": settings("^steps = .*", 'steps = "many"'), "endless steps": settings("^steps = .*", "steps = inf"),
    "steps that are a day": settings("^steps = .*", "steps = 1979-05-27"),
    "another width": settings("^width = .*", "width = 18"),
    "metrics are not text": data("metrics.jsonl", b"\xff\x00\n" * 50), "deep metrics": lines("metrics.jsonl", DEEP),
    "odd metrics": lines(
        "metrics.jsonl", "null", "[]", '"text"', '{"step": null}', '{"step": "1"}', '{"step": NaN}', '{"step": 1e999}',
        '{"step": true, "valid_loss": 1.0}', '{"step": 1' + "0" * 400 + "}", '{"step": -5, "seconds": Infinity}',
        '{"step": 2, "seconds": "x", "valid_loss": [1], "\\ud800": 1, "train_loss": 1' + "0" * 400 + "}"),
    "a folder for metrics": instead("metrics.jsonl"),
    "odd samples": lines("samples.jsonl", "null",
                         '{"step": 1, "text": "\\ud800", "p": NaN, "q": [1e999], "\\udfff": 1}'),
    "deep samples": lines("samples.jsonl", DEEP, '{"step": 1, "x": ' + "[" * 500 + "]" * 500 + "}"),
    "samples are not text": data("samples.jsonl", b"\xff\x00\n" * 9), "a folder for samples": instead("samples.jsonl"),
}
AT_THE_START = ("garbled settings", "settings are not text", "settings outside a table", "another family",
                "a context of text", "endless steps")


@pytest.fixture
def folders(tmp_path):
    """A good run of each kind, and a copy of one of them to be damaged."""
    for name, run in KINDS.items():
        shutil.copytree(HERE / "runs" / run, tmp_path / f"good-{name}")

    def copied(kind):
        shutil.copytree(HERE / "runs" / KINDS[kind], tmp_path / "bad")
        return sorted(path for path in tmp_path.iterdir() if path.is_dir())

    return copied


def asked(client, id):
    """Each route that can be asked about a model or a run, by what it answered."""
    def body(**own):
        return {"model": id, **own}

    source = {"text": "un chat", "image": "shapes-1"}
    posts = {"/v1/completions": body(prompt="a cat", max_tokens=2, logprobs=2),
             "/api/next": body(text="a cat", source="un chat", image="shapes-1", steps=1),
             "/api/beam": body(**source, width=2, new_tokens=3),
             "/api/side-by-side": {"models": [id, *other(id)], **source},
             "/translate": {"q": "un chat", "source": "auto", "target": "target"}}
    looks = {"lm": {"text": "a cat"}, "translate": {"source": "un chat"}, "caption": {"image": "shapes-1"}}
    found = {path: client.post(path, json=each) for path, each in posts.items()}
    for kind, own in looks.items():
        found[f"look {kind}"] = made = client.post("/api/look", json=body(**own))
        if made.status_code == 200:
            look = made.json()
            for track in look["tracks"][:1]:
                for what in ("atlas", "map", "cells", "row?row=0"):
                    found[f"{track['name']} {what}"] = client.get(f"/api/look/{look['id']}/{track['name']}/{what}")
            found["page"] = client.get(f"/api/look/{look['id']}/page.html")
    for path in ("/health", "/api/models", "/api/lab", "/v1/models", f"/v1/models/{id}", "/languages", "/api/runs",
                 f"/api/models/{id}/vocabulary", f"/api/runs/{id}/metrics", f"/api/runs/{id}/samples"):
        found[path] = client.get(path)
    return found


def other(id):
    return [f"good-{kind}" for kind in KINDS if f"good-{kind}" != id][:1]


def assert_good(client, folder):
    """The other runs answer, and are listed as ever."""
    listed = {each["id"]: each for each in client.get("/api/models").json()["models"]}
    followed = {each["id"]: each for each in client.get("/api/runs").json()["runs"]}
    for kind in KINDS:
        assert listed[f"good-{kind}"]["problem"] is None and listed[f"good-{kind}"]["parameters"] > 0
        assert followed[f"good-{kind}"]["state"] == "finished"
    answer = client.post("/v1/completions", json={"model": "good-lm", "prompt": "a cat", "max_tokens": 2})
    assert answer.status_code == 200 and len(listed) == len(followed) == len(KINDS) + 1
    assert "good-lm" in [each["id"] for each in client.get("/v1/models").json()["data"]]
    return listed["bad"], followed["bad"]


def assert_answered(found, folder):
    """No answer is a failure of the server, none names a path, and each refusal is one line."""
    for path, answer in found.items():
        assert answer.status_code < 500 or answer.status_code == 503, (path, answer.status_code, answer.text[:300])
        assert str(folder).encode() not in answer.content and b"Traceback" not in answer.content, path
        if answer.status_code >= 400:
            assert "\n" not in answer.json()["error"]["message"]


@pytest.mark.parametrize(("kind", "damage"), [
    *(("lm", damage) for damage in {**SEEN, **UNSEEN}),
    *(("translate", damage) for damage in ("no weights", "no tokenizer", "cut tokenizer", "no settings"))])
def test_a_run_that_is_damaged_while_it_is_served_hurts_no_other(folders, tmp_path, kind, damage):
    client = client_of(Registry(folders(kind), device="cpu"))
    {**SEEN, **UNSEEN}[damage](tmp_path / "bad")
    assert_answered(asked(client, "bad"), tmp_path)
    model, run = assert_good(client, tmp_path)
    if damage in SEEN:
        assert model["problem"] and "\n" not in model["problem"] and str(tmp_path) not in model["problem"]
        assert client.post("/v1/completions", json={"model": "bad", "prompt": "a"}).status_code in (400, 503)
    if damage in ("no settings", "garbled settings", "a folder for metrics"):
        assert run["state"] == "damaged" and run["how"]


@pytest.mark.parametrize("damage", ["no weights", "cut weights", "no tokenizer", *AT_THE_START])
def test_a_folder_with_a_damaged_run_is_served_from_the_start(folders, tmp_path, damage):
    paths = folders("lm")
    {**SEEN, **UNSEEN}[damage](tmp_path / "bad")
    client = client_of(Registry(paths, device="cpu", lenient=True), runs=tmp_path)
    assert_answered(asked(client, "bad"), tmp_path)
    model, _ = assert_good(client, tmp_path)
    if damage not in ("another family", "a context of text", "endless steps"):           # seen when it is loaded
        assert model["problem"]
    assert client.post("/v1/completions", json={"model": "bad", "prompt": "a"}).status_code == (
        200 if damage == "endless steps" else 503)


def test_what_failed_to_load_is_told_in_the_list_until_it_is_mended(folders, tmp_path):
    client = client_of(Registry(folders("lm"), device="cpu"))
    whole = (tmp_path / "bad" / "model.safetensors").read_bytes()
    cut("model.safetensors", -100)(tmp_path / "bad")
    ask = {"model": "bad", "prompt": "a cat", "max_tokens": 1}
    assert client.post("/v1/completions", json=ask).status_code == 503
    problem = next(each for each in client.get("/api/models").json()["models"] if each["id"] == "bad")["problem"]
    assert "model.safetensors" in problem and str(tmp_path) not in problem
    (tmp_path / "bad" / "model.safetensors").write_bytes(whole)
    assert client.post("/v1/completions", json=ask).status_code == 200
    assert next(each for each in client.get("/api/models").json()["models"] if each["id"] == "bad")["problem"] is None


def test_damaged_lines_are_counted(folders, tmp_path):
    client = client_of(Registry(folders("lm"), device="cpu"))
    before = next(each for each in client.get("/api/runs").json()["runs"] if each["id"] == "bad")
    assert before["bad_lines"] == 0
    with open(tmp_path / "bad" / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "trai\n\n[]\n')
    after = next(each for each in client.get("/api/runs").json()["runs"] if each["id"] == "bad")
    assert (after["bad_lines"], after["lines"]) == (2, before["lines"])


def test_a_captioner_is_searched_with_coverage(folders):
    client = client_of(Registry(folders("caption"), device="cpu"))
    told = client.post("/api/beam", json={"model": "good-caption", "image": "shapes-1", "width": 2, "coverage": 0.5})
    assert told.status_code == 200 and all(node["covered"] < 0 for node in told.json()["columns"][0])


def test_a_name_that_is_no_text_hurts_no_other(folders, tmp_path):
    paths = folders("lm")
    shutil.move(tmp_path / "bad", str(tmp_path / "b\udcffd"))
    client = client_of(Registry([path for path in paths if path.name != "bad"], device="cpu"), runs=tmp_path)
    assert client.get("/api/runs").status_code == 200
    client = client_of(Registry([tmp_path / "b\udcffd"], device="cpu"))
    assert client.get("/api/models").status_code == client.get("/api/runs").status_code == 200


# ---------------------------------------------------------------------------------------------------- lines


def test_a_line_has_no_path_of_this_machine(tmp_path):
    assert without_paths(f"{tmp_path}/run.toml is not a TOML file") == "run.toml is not a TOML file"
    assert without_paths(f"see '{tmp_path}/a b', ({tmp_path}/x)").count(str(tmp_path)) == 0
    for kept in ("POST /v1/completions", "1/6 1/2", "and/or", "ask /translate", "a / b"):
        assert without_paths(kept) == kept
    assert len(in_one_line("x" * 10_000)) <= 300 and in_one_line("a\n b") == "a b"


@pytest.mark.parametrize(("error", "line"), [
    (FileNotFoundError(2, "No such file", "/tmp/secret/x"), "run.toml is missing"),
    (PermissionError(13, "Permission denied", "/tmp/secret/x"), r"cannot be read \(Permission denied\)"),
    (KeyError("x"), "run.toml is damaged"), (RecursionError(), "run.toml is damaged")])
def test_whatever_goes_wrong_with_a_file_is_one_line(error, line):
    with pytest.raises(Damaged, match=line) as found, reading("run.toml"):
        raise error
    assert "secret" not in str(found.value)


def test_values_are_made_plain():
    deep = 1
    for _ in range(100):
        deep = [deep]
    told = plain({"a": math.nan, "b": [math.inf, 1.5, True, None, 3], "\ud800": "x\udfff", "deep": deep})
    assert told["a"] is None and told["b"] == [None, 1.5, True, None, 3]
    json.dumps(told, allow_nan=False, ensure_ascii=False).encode()
