"""Frames of Polars and pandas, and tables of Arrow, in the place of files: read by column, kept in the run."""

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.cli import main
from regard.errors import DataError, RunError, SettingError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (regard[parquet])")

LINES = [f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}" for i in range(120)]
SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="char"),
         "training": dict(steps=2, batch=4, compile="no"), "data": {"documents": "line"}}
COUNTED = {"tokenizer": dict(kind="char"), "data": {"documents": "line"}}
LABELLED = {"model": dict(layers=1, width=16, context=16, dropout=0.0), "training": dict(steps=2, batch=8)}


def make_frame(kind, columns):
    """The same columns in each library; `stream` knows nothing but the protocol by which they are read."""
    if kind == "polars":
        return pytest.importorskip("polars", reason="polars is not installed").DataFrame(columns)
    if kind == "pandas":
        return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns)
    table = pa.table(columns)
    return table if kind == "arrow" else type("Stream", (), {
        "__arrow_c_stream__": lambda self, requested_schema=None: table.__arrow_c_stream__(requested_schema)})()


KINDS = ["arrow", "stream", "polars", "pandas"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def train(frame, out="run", settings=SMALL, family="transformer", **options):
    return regard.train(frame, out=out, settings=settings, family=family, device="cpu", quiet=True, **options)


def weights(run):
    return (Path(run.path) / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_trains_as_a_file_of_the_same_lines_does(kind):
    Path("lines.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in LINES))
    settings = {**SMALL, "data": {**SMALL["data"], "field": "body"}}
    file = train("lines.jsonl", "file", settings)
    run = train(make_frame(kind, {"id": range(120), "body": LINES, "score": [0.5] * 120}), column="body")
    assert weights(run) == weights(file)
    assert run.tables["data"]["files"] == ["run/frames/files.jsonl"] and run.tables["data"]["field"] == "body"
    assert run.tables["data"]["content"] == file.tables["data"]["content"]
    assert Path("run/frames/files.jsonl").read_bytes() == Path("lines.jsonl").read_bytes()


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_a_column_by_itself_is_text_and_rows_without_text_are_counted(kind, capfd):
    column = make_frame(kind, {"x": [*LINES, None, ""]})["x"]
    regard.train(column, out="run", settings=COUNTED, family="ngram", column="x")
    assert "122 lines read: 120 kept, 2 dropped (2 empty)" in capfd.readouterr().err


def test_frames_may_choose_and_report(capfd):
    settings = {**COUNTED, "data": {**COUNTED["data"], "valid": make_frame("arrow", {"text": LINES[:30]}),
                                    "test": make_frame("stream", {"text": LINES[30:50]})}}
    regard.train(make_frame("arrow", {"text": LINES}), out="run", settings=settings, family="ngram")
    told = capfd.readouterr().err
    assert "(reused" not in told and "valid: " in told
    assert sorted(path.name for path in Path("run/frames").iterdir()) == ["files.jsonl", "test.jsonl", "valid.jsonl"]
    assert json.loads(Path("run/test.json").read_text())["test_tokens"] == sum(map(len, LINES[30:50])) + 20
    assert settings["data"]["valid"] is not None                                  # what is the user's own stays


@pytest.mark.parametrize("source", ["frame", "file", "command"])
def test_a_run_on_a_frame_is_resumed_as_one_on_a_file_is_bit_by_bit(source):
    frame, longer = make_frame("arrow", {"text": LINES}), {"training": {"steps": 4}}
    Path("lines.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    train("lines.jsonl", "file")
    wanted = train("lines.jsonl", "file", longer, None, resume=True)
    train(frame)
    shutil.rmtree("cache")                                                        # the run needs nothing else
    if source == "frame":
        run = train(frame, settings=longer, resume=True, family=None)
    elif source == "file":
        run = regard.train("run/frames/files.jsonl", out="run", settings=longer, resume=True, quiet=True, device="cpu")
    else:
        main(["train", "lm", "run/frames/files.jsonl", "--out", "run", "--resume", "--steps", "4", "--quiet",
              "--device", "cpu"])
        run = regard.load("run", "cpu")
    assert run.tables["training"]["steps"] == 4 and weights(run) == weights(wanted)
    with pytest.raises(RunError, match="already holds a run"):
        train(frame)


def test_another_frame_is_refused_and_what_is_kept_stays():
    train(make_frame("arrow", {"text": LINES}))
    kept = Path("run/frames/files.jsonl").read_bytes()
    with pytest.raises(RunError, match="the frame is not the one that run began with"):
        train(make_frame("arrow", {"text": LINES[::-1]}), settings={}, resume=True, family=None)
    assert Path("run/frames/files.jsonl").read_bytes() == kept
    Path("run/frames/files.jsonl").unlink()
    with pytest.raises(DataError, match=r"run/frames/files\.jsonl does not exist"):
        regard.train("run/frames/files.jsonl", out="run", resume=True, quiet=True)
    train(make_frame("arrow", {"text": LINES}), settings={}, resume=True, family=None)
    assert Path("run/frames/files.jsonl").read_bytes() == kept


def test_after_a_mistake_nothing_is_left():
    frame = make_frame("arrow", {"body": LINES, "when": [None] * 120})
    for options, says in ((dict(), r"the frame has no column 'text' \(it has: body, when\): name the right one"),
                          (dict(column="when"), "there is no text in run/frames/files.jsonl"),
                          (dict(task="translate"), "the frame has no 'source' and 'target'"),
                          (dict(task="caption"), "a frame was given, and the task caption reads none")):
        with pytest.raises((DataError, SettingError), match=says):
            train(frame, settings={}, family=None, **options)
        assert not Path("run").exists()
    Path("there").mkdir()
    with pytest.raises(DataError):
        train(frame, "there", column="when")
    assert list(Path("there").iterdir()) == []
    import datetime

    with pytest.raises(DataError, match="row 1 of the frame holds what is no text"):
        train(make_frame("arrow", {"text": [datetime.date(2026, 1, 1)]}))
    for wrong in (3, [frame], None):
        with pytest.raises(SettingError, match="is no text to learn from: give the names of files, or one frame"):
            train(wrong)
    with pytest.raises(SettingError, match="are frames, and the text to learn from is not"):
        train("lines.txt", settings={"data": {"valid": frame}})


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow"])
def test_labels_tags_and_pairs_come_from_frames(kind):
    texts = [f"a {word} {i}" for i, word in enumerate(["good", "bad"] * 30)]
    labels = make_frame(kind, {"text": texts, "label": ["pos", "neg"] * 30})
    if kind == "pandas":
        labels["label"] = labels["label"].astype("category")
    assert sorted(train(labels, "labels", LABELLED, None, task="classify").labels) == ["neg", "pos"]
    tags = make_frame(kind, {"tokens": [text.split() for text in texts], "tags": [["D", "A", "N"]] * 60})
    assert train(tags, "tags", LABELLED, None, task="tag").path == Path("tags")
    pairs = make_frame(kind, {"fr": texts, "en": [text.upper() for text in texts]})
    model = dict(layers=1, width=16, heads=2, context=16, dropout=0.0)
    run = train(pairs, "pairs", {"model": model, "training": dict(steps=1, batch=64), "data": {"langs": "fr-en"}},
                task="translate")
    kept = Path("pairs/frames/files.jsonl").read_text().splitlines()
    assert run.tables["data"]["langs"] == "fr-en" and len(kept) == 60


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_is_scored_by_the_column_of_training(kind):
    run = train(make_frame("arrow", {"body": LINES}), column="body", family="ngram",
                settings={"data": {"documents": "line"}})
    Path("few.txt").write_text("".join(f"{line}\n" for line in LINES[:10]))
    found = run.score_files(make_frame(kind, {"body": LINES[:10], "n": range(10)}))
    assert found == run.score_files(["few.txt"], documents="line")
    with pytest.raises(DataError, match="has no field 'body'"):
        run.score_files(make_frame(kind, {"other": LINES[:10]}))


def test_the_command_scores_tables_by_field(capsys):
    from pyarrow import parquet

    run = train(make_frame("arrow", {"body": LINES}), column="body", family="ngram",
                settings={"data": {"documents": "line"}})
    parquet.write_table(pa.table({"body": LINES[:10], "text": LINES[10:20]}), "rows.parquet")
    for words, lines in (([], LINES[:10]), (["--field", "text"], LINES[10:20])):
        main(["score", str(run.path), "rows.parquet", "--json", *words])
        Path("few.txt").write_text("".join(f"{line}\n" for line in lines))
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert told["loss"] == pytest.approx(run.score_files(["few.txt"], documents="line").loss)


def test_a_dataset_with_splits_is_trained_on_by_its_name_and_resumed_where_it_lies_now(capfd):
    from tests.data.saved import save_splits

    save_splits(Path("ds"), train={"text": LINES}, validation={"text": LINES[:20]}, test={"text": LINES[20:50]})
    small = ["--family", "transformer", "--steps", "2", "--layers", "1", "--width", "16", "--heads", "2", "--context",
             "16", "--batch", "4", "--tokenizer", "char", "--device", "cpu"]
    main(["train", "lm", "ds", *small])
    assert "(reused" not in capfd.readouterr().err
    run = regard.load("runs/ds-transformer", "cpu")
    assert run.tables["data"] | {"files": ["ds/train"], "valid": ["ds/validation"], "test": ["ds/test"]} == \
        run.tables["data"]
    assert json.loads(Path("runs/ds-transformer/test.json").read_text())["test_tokens"] > 0
    shutil.move("ds", "elsewhere")
    with pytest.raises(SystemExit):
        main(["train", "lm", "ds", "--out", "runs/ds-transformer", "--resume", "--steps", "3"])
    assert capfd.readouterr().err.splitlines()[-1].startswith("regard: ds does not exist")
    main(["train", "lm", "elsewhere", "--out", "runs/ds-transformer", "--resume", "--steps", "3", "--quiet"])
    assert regard.load("runs/ds-transformer", "cpu").tables["training"]["steps"] == 3


def test_pyarrow_that_is_missing_is_one_line(monkeypatch):
    import sys

    frame = make_frame("arrow", {"text": LINES})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"a frame needs pyarrow to be read: pip install 'regard\[parquet\]'"):
        train(frame)
    assert not Path("run").exists()
