"""`regard scale`, through the command itself: its table, its JSON, and one line for each mistake."""

import json

import pytest

ASKED = ["scale", "lm", "text.txt", "--family", "rnn", "--steps", "64", "--axes", "minutes", "--tokenizer", "char",
         "--set", "model.hidden=8", "--set", "model.width=8", "--set", "model.context=16", "--set", "training.batch=4",
         "--set", "training.threads=1", "--device", "cpu"]


def test_the_table_the_sentence_and_the_json(regard, here):
    outcome = regard(*ASKED)
    lines = outcome.done().splitlines()
    assert lines[3].split()[:2] == ["minutes", "loss"] and lines[5].startswith("ten times the minutes: loss ")
    assert "10/10  64 steps" in outcome.err and "page: scale/text-lm/scale.html" in outcome.err
    assert (here / "scale/text-lm/minutes-loss.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (here / "scale/text-lm/minutes-loss.svg").read_bytes()
    told = json.loads(regard(*ASKED, "--json").done())
    assert told == json.loads((here / "scale/text-lm/scale.json").read_text())
    assert f"{told['forecasts'][0]['more']['median']:.3f}" in lines[5]


@pytest.mark.parametrize(("more", "said"), [
    (["--steps", "3"], "--steps 3: the longest run has at least 64, so that the shortest has 8"),
    (["--minutes", "2"], "--minutes and --steps: one budget; leave one of them out"),
    (["--axes", "money"], "--axes money: there is no such axis; name some of minutes, size, data"),
    (["--family", "ngram"], "--family ngram: it is counted, so minutes and size change nothing; choose another"),
    (["--family", "rrn"], "unknown family rrn: did you mean rnn?"),
])
def test_a_mistake_is_one_line(regard, more, said):
    assert regard(*ASKED, *more).mistake().startswith(said)
