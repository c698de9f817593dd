"""Datasets as Hugging Face saves them, and Arrow and Parquet files of every task: what is read, counted and refused."""

import gzip
import json

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (regard[parquet])")

from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings, read_labelled  # noqa: E402
from regard.data.labels.tagged_sentences import OF_WORDS  # noqa: E402
from regard.data.pairs.pairs import PairSettings, read_pairs  # noqa: E402
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare  # noqa: E402
from regard.data.reading.readers import ReadSettings, find_sources, read  # noqa: E402
from regard.data.reading.saved_datasets import find_splits, spread_splits  # noqa: E402
from regard.data.reading.tally import Tally  # noqa: E402
from regard.errors import DataError  # noqa: E402
from tests.data.saved import LABELS, save_dataset, save_parquet, save_splits  # noqa: E402

TEXTS = ["one", None, "two\nlines", "", "three"]


def documents(name, tally=None, **settings):
    return [piece.text for piece in read(find_sources([name]), ReadSettings("file", **settings), tally)]


def test_a_saved_dataset_is_read_in_the_order_of_its_files_and_every_row_is_counted(tmp_path):
    many = [f"text {number}" for number in range(2500)]
    assert documents(save_dataset(tmp_path / "many", {"text": many}, shards=3)) == many
    tally = Tally()
    assert documents(save_dataset(tmp_path / "few", {"text": TEXTS, "id": range(5)}), tally) == [
        "one", "two\nlines", "three"]
    assert tally.line() == "5 records read: 3 kept, 2 dropped (2 empty)"
    folder = save_dataset(tmp_path / "body", {"body": TEXTS, "id": range(5)})
    assert documents(folder, field="body")[0] == "one"
    with pytest.raises(DataError, match=r"has no column 'text' \(it has: body, id\): name the right one with --field"):
        documents(folder)
    with pytest.raises(DataError, match="row 1 holds int"):
        documents(folder, field="id")


@pytest.mark.parametrize("packed", [False, True])
def test_arrow_files_of_both_kinds_are_read(tmp_path, packed):
    table = pa.table({"text": TEXTS})
    for name, writer in (("a.arrow", pa.ipc.new_stream), ("b.arrow", pa.ipc.new_file), ("c.feather", pa.ipc.new_file)):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, writer(sink, table.schema) as file:
            file.write_table(table)
        path = tmp_path / name
        if packed:
            path = tmp_path / f"{name}.gz"
            path.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        assert documents(path) == ["one", "two\nlines", "three"], name


def test_a_dataset_with_splits_is_learned_from_chosen_by_and_reported_on(tmp_path, monkeypatch):
    folder = save_splits(tmp_path / "ds", train={"text": ["a b c"] * 30}, validation={"text": ["a b"] * 5},
                         test={"text": ["c"] * 7})
    assert spread_splits([folder], {}) == {"files": (f"{folder}/train",), "valid": (f"{folder}/validation",),
                                           "test": (f"{folder}/test",)}
    assert spread_splits([folder], {"valid": ("mine.txt",), "test": ()}) == {
        "files": (f"{folder}/train",), "test": (f"{folder}/test",)}
    data = DataSettings(**spread_splits([folder], {}))
    corpus = prepare(data, TokenizerSettings("word"), tmp_path / "cache", say=lambda line: None)
    assert [corpus.train.counts.documents, corpus.valid.counts.documents, corpus.test().counts.documents] == [30, 5, 7]
    assert corpus.measured_on == "test"
    for files in ([tmp_path], [folder, folder], ["no-such-folder"]):
        assert spread_splits(files, {}) == {}
    with pytest.raises(DataError, match="has the splits train, validation, test: name one, e"):
        find_sources([folder])


def test_the_shards_of_the_hub_are_splits(tmp_path):
    for name, count in (("train-00000-of-00002", 3), ("train-00001-of-00002", 2), ("validation-00000-of-00001", 4)):
        save_parquet(tmp_path / "ds" / "data" / f"{name}.parquet", {"text": ["x"] * count})
    assert {name: len(files) for name, files in find_splits(tmp_path / "ds").items()} == {"train": 2, "validation": 1}
    found = spread_splits([tmp_path / "ds"], {})
    assert set(found) == {"files", "valid"} and len(find_sources(found["files"])) == 2
    save_parquet(tmp_path / "other" / "test-00000-of-00001.parquet", {"text": ["x"]})
    with pytest.raises(DataError, match=r"has no split train \(it has: test\)"):
        spread_splits([tmp_path / "other"], {})
    save_parquet(tmp_path / "plain" / "mine.parquet", {"text": ["x"]})
    assert spread_splits([tmp_path / "plain"], {}) == {} and documents(tmp_path / "plain") == ["x"]


@pytest.mark.parametrize(("state", "says"), [
    (None, "could not read"), ([], "holds no object"), ({}, "names no files"), ({"_data_files": [{}]}, "has no None"),
    ({"_data_files": "x"}, "names no files"), ({"_data_files": [{"filename": "../../etc/x.arrow"}]}, "names no files"),
    ({"_data_files": [{"filename": "gone.arrow"}]}, "has no gone.arrow"),
    ({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_data_files": [{"filename": "i.arrow"}]},
     "is a selection of rows")])
def test_a_damaged_dataset_is_one_line(tmp_path, state, says):
    folder = save_dataset(tmp_path / "ds", {"text": ["x"]})
    (folder / "state.json").write_text("{" if state is None else json.dumps(state))
    with pytest.raises(DataError, match=says) as caught:
        find_sources([folder])
    assert "\n" not in str(caught.value)


def test_damaged_files_and_splits_are_one_line(tmp_path):
    folder = save_dataset(tmp_path / "ds", {"text": ["x" * 100] * 100})
    (shard,) = folder.glob("*.arrow")
    for data in (b"", b"nothing of the kind", shard.read_bytes()[:200], b"ARROW1" + bytes(100)):
        shard.write_bytes(data)
        with pytest.raises(DataError, match="is not a readable Arrow file") as caught:
            documents(folder)
        assert "\n" not in str(caught.value)
    splits = save_splits(tmp_path / "splits", train={"text": ["x"]})
    for listed in ({"splits": ["../ds"]}, {"splits": ["gone"]}, {"splits": "train"}, {}):
        (splits / "dataset_dict.json").write_text(json.dumps(listed))
        with pytest.raises(DataError, match="does not name splits that are there"):
            spread_splits([splits], {})


# ------------------------------------------------------------------------------------------ other tasks


def labelled(path, tally=None, labelling=OF_TEXTS, **settings):
    return [tuple(pair) for pair in read_labelled(LabelSettings((str(path),), **settings), labelling, tally)]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "folder"])
def test_labels_are_read_by_their_names_and_none_is_counted(tmp_path, kind):
    columns = {"text": ["good", "bad", "unlabelled", None], "label": [1, 0, -1, 1], "id": range(4)}
    path = tmp_path / "rows"
    if kind == "parquet":
        path = save_parquet(tmp_path / "a.parquet", columns, label=LABELS)
    else:
        save_dataset(path, columns, label=LABELS)
        path = path if kind == "folder" else next(path.glob("*.arrow"))
    tally = Tally()
    assert labelled(path, tally) == [("pos", "good"), ("neg", "bad")]
    assert tally.line() == "4 texts read: 2 kept, 2 dropped (2 empty label or text)"
    assert labelled(path, label="id") == [("0", "good"), ("1", "bad"), ("2", "unlabelled")]
    with pytest.raises(DataError, match=r"has no columns 'stars' and 'text' \(it has: 'text', 'label', 'id'\)"):
        labelled(path, label="stars")


def test_labels_without_names_are_numbers_or_texts_and_others_are_refused(tmp_path):
    assert labelled(save_parquet(tmp_path / "a.parquet", {"text": ["a", "b"], "label": ["x", "y"]})) == [
        ("x", "a"), ("y", "b")]
    path = save_parquet(tmp_path / "b.parquet", {"text": ["a", "b"], "label": [0.5, 1.5]})
    with pytest.raises(DataError, match="row 1 has no text under 'label' and 'text'"):
        labelled(path)
    tally = Tally()
    with pytest.raises(DataError, match="there are no labelled texts"):
        labelled(path, tally, on_bad_text="drop")
    assert "2 without a label and a text" in tally.line()


def test_tags_are_read_by_their_names(tmp_path):
    names = {"_type": "List", "feature": {"_type": "ClassLabel", "names": ["O", "PER"]}}
    columns = {"tokens": [["Ann", "sat"], ["ran"]], "ner_tags": [[1, 0], [0]]}
    folder = save_dataset(tmp_path / "ner", columns, ner_tags=names)
    assert labelled(folder, labelling=OF_WORDS, label="ner_tags") == [("PER O", "Ann sat"), ("O", "ran")]
    with pytest.raises(DataError, match="name their columns with --text-field and --label-field"):
        labelled(folder, labelling=OF_WORDS)
    other = save_dataset(tmp_path / "pos", {"words": [["a", "dog"], ["b"]], "tags": [["DET", "NOUN"], ["X", "Y"]]})
    with pytest.raises(DataError, match='has no "words" and "tags" of one length'):
        labelled(other, labelling=OF_WORDS)
    tally = Tally()
    assert labelled(other, tally, OF_WORDS, on_bad_text="drop") == [("DET NOUN", "a dog")]
    assert "1 without words and tags" in tally.line()


@pytest.mark.parametrize("columns", [
    {"fr": ["un chat", "été"], "en": ["a cat", "summer"]},
    {"translation": [{"fr": "un chat", "en": "a cat"}, {"en": "summer", "fr": "été"}]},
    {"article": ["un chat", "été"], "highlights": ["a cat", "summer"], "id": ["1", "2"]}])
def test_pairs_and_summaries_come_from_a_saved_dataset(tmp_path, columns):
    folder = save_dataset(tmp_path / "ds", columns)
    tally = Tally()
    langs = "" if "article" in columns else "fr-en"
    found = list(read_pairs(PairSettings((str(folder),), langs), tally))
    assert found == [("un chat", "a cat"), ("été", "summer")] and tally.line() == "2 pairs read: 2 kept, 0 dropped"


def test_folders_that_are_none_are_refused_by_every_task(tmp_path):
    (tmp_path / "some").mkdir()
    splits = save_splits(tmp_path / "ds", train={"text": ["x"], "label": ["y"]})
    for find in (lambda path: list(read_pairs(PairSettings((str(path),)))), labelled):
        with pytest.raises(DataError, match=r"is a folder: name .*, or a folder of `datasets`"):
            find(tmp_path / "some")
        with pytest.raises(DataError, match="has the splits train: name one"):
            find(splits)


def test_what_the_package_itself_saves_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    names = datasets.ClassLabel(names=["neg", "pos"])
    rows = datasets.Dataset.from_dict({"text": ["good", "bad", "so"], "label": [1, 0, 1]}, features=datasets.Features(
        {"text": datasets.Value("string"), "label": names}))
    datasets.DatasetDict({"train": rows, "test": rows.shuffle(seed=1).select([0])}).save_to_disk(tmp_path / "ds")
    rows.to_parquet(tmp_path / "a.parquet")
    wanted = [("pos", "good"), ("neg", "bad"), ("pos", "so")]
    assert labelled(tmp_path / "ds" / "train") == labelled(tmp_path / "a.parquet") == wanted
    assert set(spread_splits([tmp_path / "ds"], {})) == {"files", "test"}
    assert documents(tmp_path / "ds" / "train") == ["good", "bad", "so"]
