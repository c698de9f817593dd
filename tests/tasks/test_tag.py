"""Taggers through their class and their commands: the token that is asked, parts, measures, looks, comparisons."""

import json
import shutil

import pytest
import torch

import regard
from regard.cli import main
from regard.compare import trial
from regard.compare.comparison import compare
from regard.compare.plan import Wanted
from regard.errors import DataError
from regard.look.look import Request, look
from regard.metrics.tagging import TagCounts, measure_tags

WORDS = {"DET": ["the", "a", "her"], "NOUN": ["light", "fish", "dog", "lamp"], "VERB": ["light", "fish", "sees"]}
LINES = [f"{d}/DET {n}/NOUN {v}/VERB {e}/DET {m}/NOUN ./PUNCT" for d in WORDS["DET"] for n in WORDS["NOUN"]
         for v in WORDS["VERB"] for e in WORDS["DET"] for m in WORDS["NOUN"][:2]]
LINES += [f"{s}/PRON {v}/VERB {o}/PRON{end} ./PUNCT" for s in ("they", "we", "you") for v in WORDS["VERB"]
          for o in ("her", "them") for end in ("", " now/ADV", " here/ADV", " soon/ADV", " too/ADV")]
SMALL = ["--width", "24", "--hidden", "24", "--batch", "16", "--rate", "0.01", "--dropout", "0", "--device", "cpu",
         "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run over letters that has learned the sentences, and one over words that has not."""
    folder = tmp_path_factory.mktemp("tag")
    (folder / "train.txt").write_text("\n".join(LINES[::2]) + "\n")
    (folder / "test.txt").write_text("\n".join(LINES[1::2]) + "\nthe/DET gnu/NOUN sees/VERB her/PRON ./PUNCT\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for out, kind, steps, context in (("letters", "char", 150, 32), ("words", "word", 2, 32)):
            main(["train", "tag", str(folder / "train.txt"), "--tokenizer", kind, "--steps", str(steps),
                  "--context", str(context), *SMALL, "--out", str(folder / out)])
        yield folder


@pytest.fixture
def letters(folder):
    return regard.load(folder / "letters", device="cpu")


def test_the_tag_of_a_word_is_read_at_its_last_letter(letters):
    """By another road: the sentence is spelled by hand, and the head is asked where each word ends."""
    t, words = letters.tokenizer, ["the", "dog", "light", "."]
    ids = [*t.text.encode("the dog light .").tolist(), t.eos]
    with torch.no_grad():
        said = letters.model.eval().predict(torch.tensor([ids]))[0].exp()
    ends = [2, 6, 12, 14]
    for (word, tag, p), own, end in zip(letters.tag(words), words, ends, strict=True):
        assert (word, tag) == (own, t.labels[int(said[end].argmax())]) and p == pytest.approx(float(said[end].max()))
    first = [0, 4, 8, 14]
    assert any(abs(float(said[end].max()) - float(said[at].max())) > 1e-3 for at, end in zip(first, ends, strict=True))


def test_context_decides_the_tag_after_some_training(letters):
    tags = {word: tag for word, tag, _ in letters.tag("they light her .")}
    assert tags == {"they": "PRON", "light": "VERB", "her": "PRON", ".": "PUNCT"}
    tags = [each.tag for each in letters.tag("the light sees her dog.")]
    assert tags == ["DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT"]


def test_many_sentences_get_the_tags_that_each_gets_alone(letters):
    sentences = [["the", "dog"], [], ["they"], ["her", "light", "sees", "the", "fish", "."], ["."]]
    together = letters.tag_sentences(sentences)
    assert [[word for word, _, _ in found] for found in together] == sentences
    for words, found in zip(sentences, together, strict=True):
        alone = letters.tag(words)
        assert [each[:2] for each in alone] == [each[:2] for each in found]
        assert [each.probability for each in alone] == pytest.approx([each.probability for each in found], abs=1e-5)


def test_a_long_sentence_is_read_in_parts_of_whole_words(letters):
    words = ["the", "light", "sees", "her", "dog", "."] * 9 + ["antidisestablishmentarianism", "the"]
    parts = list(letters.ask(words))
    assert all(len(part.ids) <= letters.context == 32 for part in parts) and sum(len(p.places) for p in parts) == 56
    assert all(part.ids[-1] == letters.tokenizer.eos for part in parts if len(part.places) > 1)
    assert [each.word for each in letters.tag(words)] == words
    assert letters.tag(words)[:3] == letters.tag(words[:4])[:3] or len(parts[0].places) > 4


@pytest.mark.parametrize("words", [["a b"], [""], ["a", 3]])
def test_what_is_no_word_is_refused(letters, words):
    with pytest.raises(DataError, match="is no word: give words without white space"):
        letters.tag(words)


# ---------------------------------------------------------------------------------------------- measures


def test_a_score_stands_beside_the_baseline_of_the_training_part(folder, capsys):
    main(["score", str(folder / "letters"), str(folder / "test.txt"), "--json"])
    values = json.loads(capsys.readouterr().out)
    model = regard.load(folder / "letters", device="cpu")
    corpus = model.task.prepare(model.task.data((str(folder / "train.txt"),)), model.tokenizer, say=lambda text: None)
    train = [(text.split(), tags.split()) for tags, text in corpus.train.lines()]
    assert 0 < len(train) < len(LINES[::2])                              # without what validation held out
    test = [tuple(zip(*(part.rsplit("/", 1) for part in line.split()), strict=True))
            for line in (folder / "test.txt").read_text().splitlines()]
    given = [[tag for _, tag, _ in model.tag(words)] for words, _ in test]
    wanted = measure_tags(test, given, TagCounts(train)).as_dict()
    assert {name: values[name] for name in wanted} == wanted
    assert values["unseen_words"] == 1 and values["baseline_accuracy"] < 0.95 and values["accuracy"] > 0.9


def test_without_the_training_data_there_is_a_notice_and_no_baseline(folder, tmp_path, capsys):
    run = shutil.copytree(folder / "letters", tmp_path / "run")
    settings = (run / "run.toml").read_text().replace("train.txt", "gone.txt")
    (run / "run.toml").write_text(settings)
    main(["score", str(run), str(folder / "test.txt")])
    told = capsys.readouterr()
    assert "there is no baseline to compare with" in told.err and "most frequent" not in told.out
    assert "accuracy" in told.out and "NOUN" in told.out


def test_a_part_of_what_is_not_embedded_and_an_unknown_tag_are_refused(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["score", str(folder / "letters"), str(folder / "test.txt"), "--part", "valid"])
    assert "--part valid is of an embedded corpus" in capsys.readouterr().err
    (tmp_path / "other.txt").write_text("the/ARTICLE dog/NOUN\n")
    with pytest.raises(SystemExit):
        main(["score", str(folder / "letters"), str(tmp_path / "other.txt")])
    assert "sentence 1 has the label 'ARTICLE'" in capsys.readouterr().err


def test_a_line_in_is_a_line_out(folder, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("they light her.\n\nthe don't\n")
    main(["tag", str(folder / "letters"), str(tmp_path / "in.txt")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["they/PRON light/VERB her/PRON ./PUNCT", ""] and lines[2].startswith("the/DET don't/")
    main(["tag", str(folder / "words"), str(tmp_path / "in.txt"), "--words", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["words"] == ["they", "light", "her."] and len(rows[0]["tags"]) == len(rows[0]["probabilities"]) == 3


def test_a_run_keeps_the_laws_and_goes_on(folder, tmp_path, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["check", str(folder / "words")])
    assert "every law holds" in capsys.readouterr().out
    run = shutil.copytree(folder / "words", tmp_path / "run")
    main(["train", "tag", "--resume", "--out", str(run), str(folder / "train.txt"), "--steps", "3", "--device", "cpu",
          "--quiet", "--json"])
    row = json.loads(capsys.readouterr().out)
    assert row["step"] == 3 and 0 <= row["valid_accuracy"] <= 100
    sample = json.loads((run / "samples.jsonl").read_text().splitlines()[-1])
    assert sample["kind"] == "tag" and sample["reference"] in LINES
    assert [part.rsplit("/")[0] for part in sample["text"].split()] == sample["prompt"].split()


# ------------------------------------------------------------------------------------------------- looks


def test_a_look_has_a_row_for_each_word_and_its_influence_is_what_is_lost_without_a_token(letters):
    seen = look(letters, Request(text="they light her."))
    tagged = letters.tag("they light her.")
    assert [each.piece for each in seen.predictions] == [f"{word}/{tag}" for word, tag, _ in tagged]
    assert [each.p for each in seen.predictions] == pytest.approx([each.probability for each in tagged])
    side = seen.sides["text"]
    assert side.text == "they light her ." and len(side.tokens) == len(side.text) + 1
    assert [side.text[token.start:token.end] for token in side.tokens[:-1]] == list(side.text)
    values = seen.track("influence-occlusion").values[0, 0]
    assert values.shape == (4, 17)
    t, ids = letters.tokenizer, [token.id for token in side.tokens]
    for row, end, column in ((1, 9, 1), (2, 13, 6)):
        label = t.labels.index(tagged[row].tag)
        other = list(ids)
        other[column] = t.unk
        with torch.no_grad():
            with_it, without = letters.model.predict(torch.tensor([ids, other]))[:, end, label].tolist()
        assert values[row, column] == pytest.approx(with_it - without, abs=1e-5)
    gradient = seen.track("influence-gradient").values
    assert gradient.shape == (1, 1, 4, 17) and abs(gradient).max() > 0


def test_a_look_at_a_long_text_shows_its_first_words(letters):
    seen = look(letters, Request(text="the dog sees her light. they fish her. "))
    assert "words, and" in seen.notes[0] and len(seen.sides["text"].tokens) <= 32
    assert seen.sides["tags"].tokens[-1].end == len(seen.sides["tags"].text)
    with pytest.raises(DataError, match="a tagger reads a text"):
        look(letters, Request(text="  "))


# -------------------------------------------------------------------------------------------- comparisons


def test_taggers_are_compared_beside_the_most_frequent_tag(folder, tmp_path):
    def here(into, plan, each, stop):
        trial.run_trial(into, plan, each)

    wanted = Wanted((str(folder / "train.txt"),), ("window", "lstm"), seeds=1, steps=2, task="tag", device="cpu",
                    out=str(tmp_path / "out"), settings={"training": {"batch": 8}, "tokenizer": {"kind": "word"}})
    found = compare(wanted, say=lambda text: None, start=here)
    assert {row["family"] for row in found.rows} == {"window", "lstm"}
    for row in found.rows:
        assert 0 <= row["accuracy"] <= 1 and 0.5 < row["baseline_accuracy"] < 1 and not row["failed"]
        assert row["errors_gone"] == pytest.approx(1 - (1 - row["accuracy"]) / (1 - row["baseline_accuracy"]))
    table = (tmp_path / "out" / "table.md").read_text()
    assert "most frequent" in table and "unseen" in table
    report = (tmp_path / "out" / "report.html").read_text()
    assert "F1 of each tag" in report and "What they make of the same sentences" in report
