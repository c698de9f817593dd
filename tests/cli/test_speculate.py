import json
import re

import pytest

import regard as library
from regard.cli import main
from regard.errors import RunError, SettingError

from .conftest import TEXT

PROMPT = "the cat number 7 sat on mat 0\nthe cat number 1 sat"


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """An n-gram of the characters that the Transformer reads."""
    folder = tmp_path_factory.mktemp("drafts")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        main(["train", "lm", str(folder / "text.txt"), "--family", "ngram", "--out", str(folder / "ngram"), "--quiet"])
    return folder / "ngram"


@pytest.mark.parametrize("family", ["transformer", "rnn"])
@pytest.mark.parametrize("kind", ["prompt", "ngram"])
@pytest.mark.parametrize("how", [("--greedy",), ("--seed", "3", "--temperature", "0.5")], ids=str)
def test_the_text_is_the_same_and_the_guesses_are_counted_on_stderr(regard, runs, family, kind, how):
    command = ("generate", runs / family, "--prompt", PROMPT, "--tokens", "30", "-n", "2", *how)
    plain, quick = regard(*command), regard(*command, "--speculate", kind)
    assert quick.done() == plain.done()
    assert quick.err.startswith(plain.err)
    assert re.fullmatch(r"\(drafts: \d+ of \d+ guesses stood \(\d+%\); \d+ tokens in \d+ passes\)\n",
                        quick.err.removeprefix(plain.err))


def test_a_run_of_an_ngram_guesses(regard, runs, drafts):
    command = ("generate", runs / "transformer", "--prompt", PROMPT, "--tokens", "30", "--greedy", "--json")
    [plain] = map(json.loads, regard(*command).done().splitlines())
    [quick] = map(json.loads, regard(*command, "--speculate", "ngram", "--draft", drafts, "--draft-tokens", "4")
                  .done().splitlines())
    assert "speculation" not in plain
    told = quick.pop("speculation")
    assert quick == plain
    assert set(told) == {"proposed", "accepted", "rate", "passes", "tokens"} and told["proposed"] > 0
    assert told["tokens"] == 30


def test_the_library_says_the_same(runs, drafts):
    model, notices = library.load(runs / "transformer", device="cpu"), []
    how = dict(new_tokens=10, temperature=0.7, seed=4)
    text = model.generate(PROMPT, **how)
    assert model.generate(PROMPT, **how, speculate="prompt", notice=notices.append) == text
    assert model.generate(PROMPT, **how, speculate="ngram", draft=library.load(drafts), draft_tokens=3) == text
    assert notices[-1].startswith("drafts: ")


def test_an_ngram_is_left_alone_with_a_reason(regard, runs):
    command = ("generate", runs / "ngram", "--prompt", PROMPT, "--tokens", "10", "--json")
    plain, quick = regard(*command), regard(*command, "--speculate", "prompt")
    assert quick.done() == plain.done()
    assert quick.err == "(an n-gram looks words up one by one, and has no pass to spare: written without drafts)\n"


@pytest.mark.parametrize("extra, said", [
    (("--speculate", "promt"), "unknown --speculate promt: did you mean prompt?"),
    (("--speculate", "prompt", "--draft-tokens", "0"), "--draft-tokens 0: must be at least 1"),
])
def test_mistakes_are_one_line(regard, runs, extra, said):
    assert regard("generate", runs / "transformer", *extra).mistake() == said


def test_drafts_that_do_not_fit_are_refused(runs, drafts):
    model = library.load(runs / "transformer", device="cpu")
    ngram, words = library.load(drafts), library.load(runs / "rnn", device="cpu")
    with pytest.raises(SettingError, match=r"^--draft names an n-gram that guesses ahead: say --speculate ngram, too$"):
        model.speculation(None, ngram)
    with pytest.raises(SettingError, match=r"^--speculate prompt asks no model: leave --draft out"):
        model.speculation("prompt", ngram)
    with pytest.raises(RunError, match=r"^--draft is a run of the family rnn, and only an n-gram guesses quickly"):
        model.speculation("ngram", words)
    with pytest.raises(RunError, match=r"^--draft cuts text into other tokens than the model does: train it on"):
        words.speculation("ngram", ngram)
