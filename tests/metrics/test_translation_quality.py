"""BLEU, chrF and the paired test: sacreBLEU's own numbers, only faster, and one clear line for each mistake."""

import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from regard.errors import DataError, SettingError
from regard.metrics import resampling
from regard.metrics.translation_quality import (
    Quality,
    bleu,
    by_length,
    measure,
    paired,
    sentence_counts,
    tokenizer_for,
)

pytest.importorskip("sacrebleu")
WORDS = ["the", "a", "small", "red", "cat", "dog", "house", "sees", "eats", ",", "old", "man", "under", "Paris", "3.14"]


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 14))).capitalize() + "." for _ in range(count)]


def damaged(lines: list[str], rate: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) if rng.random() < rate else word for word in line.split()) for line in lines]


REFERENCES = sentences(150)
WORSE, NEAR, BETTER = damaged(REFERENCES, 0.3, 1), damaged(REFERENCES, 0.27, 5), damaged(REFERENCES, 0.1, 2)


def sacrebleu_scores(hypotheses, references, **bootstrap):
    from sacrebleu.metrics import BLEU, CHRF
    return [(metric, metric.corpus_score(hypotheses, references, **bootstrap)) for metric in (BLEU(), CHRF())]


# ------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, BETTER]], ids=["one", "two"])
def test_scores_intervals_and_signatures_are_those_of_sacrebleu(references, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    ours = measure(WORSE, references, samples=200)
    told = ((ours.bleu, ours.bleu_interval, ours.signature), (ours.chrf, ours.chrf_interval, ours.chrf_signature))
    for (score, (low, high), signature), (metric, theirs) in zip(
            told, sacrebleu_scores(WORSE, references, n_bootstrap=200), strict=True):
        assert score == theirs.score and low < score < high
        assert (high - low) / 2 == pytest.approx(theirs._ci, rel=1e-5)       # theirs are added up in float32
        assert signature == str(metric.get_signature())
    assert "tok:13a" in ours.signature and "case:mixed" in ours.signature and "bs:200|seed:12345" in ours.signature


def test_the_quick_score_is_the_same_and_the_signature_without_intervals_claims_none():
    ours = measure(WORSE, REFERENCES, intervals=False)
    assert bleu(WORSE, REFERENCES) == ours.bleu and ours.bleu_interval is None
    assert [ours.signature, ours.chrf_signature] == [
        str(metric.get_signature()) for metric, _ in sacrebleu_scores(WORSE, [REFERENCES])]


HARD = {
    "nothing right": (["x y z w v"] * 3, ["a b c d e"] * 3),
    "no 4-gram right": (["a b c x e f", "q"], ["a b c d e f", "r"]),
    "single words": (["a", "b"], ["a", "c"]),
    "an empty line": (["a b c d e", ""], ["a b c d e", "a b"]),
    "all empty": (["", ""], ["a b", "c"]),
    "empty on both sides": (["", ""], ["", ""]),
    "empty references": (["a b", "c"], ["", ""]),
    "too long": (["a b c d e f g h"], ["a b c d"]),
    "too short": (["a b c"], ["a b c d e f g h"]),
}


@pytest.mark.parametrize("name", HARD)
def test_the_formulas_are_those_of_sacrebleu_at_every_edge(name):
    from sacrebleu.metrics import BLEU, CHRF
    hypotheses, references = HARD[name]
    for metric, formula in ((BLEU(), resampling.bleu_of), (CHRF(), resampling.chrf_of)):
        counts = metric._extract_corpus_statistics(hypotheses, [references])
        theirs = metric.corpus_score(hypotheses, [references]).score
        assert float(formula(np.array(counts, float).sum(0))) == pytest.approx(theirs, abs=1e-9)
    ours = measure(hypotheses, references, samples=40)
    assert ours.bleu == bleu(hypotheses, references) and all(map(np.isfinite, ours.bleu_interval + ours.chrf_interval))


def test_every_resample_scores_what_sacrebleu_gives_to_those_sentences():
    from sacrebleu.metrics import BLEU, CHRF
    picked = np.random.default_rng(3).choice(len(WORSE), size=(5, len(WORSE)))
    counts = np.hstack([metric._extract_corpus_statistics(WORSE, [REFERENCES]) for metric in (BLEU(), CHRF())])
    ours = resampling.scores_of(resampling.resample(counts.astype(float), 5, seed=3))
    for row, places in enumerate(picked):
        drawn = [[lines[i] for i in places] for lines in (WORSE, REFERENCES)]
        for i, (_, theirs) in enumerate(sacrebleu_scores(drawn[0], [drawn[1]])):
            assert ours[i][row] == pytest.approx(theirs.score, abs=1e-9)


def test_drawing_in_small_chunks_changes_nothing(monkeypatch):
    def everything():
        return measure(WORSE, REFERENCES, samples=100), paired(WORSE, NEAR, REFERENCES, samples=100, trials=200)

    whole = everything()
    monkeypatch.setattr("regard.metrics.translation_quality.COUNTED", 7)
    for drawn in (1, 41 * len(REFERENCES)):                                  # 41 rows would leave bits unused
        monkeypatch.setattr(resampling, "DRAWN", drawn)
        assert everything() == whole


def test_another_seed_moves_the_interval_and_not_the_score():
    one, other = measure(WORSE, REFERENCES, samples=100), measure(WORSE, REFERENCES, samples=100, seed=1)
    assert one.bleu == other.bleu and one.bleu_interval != other.bleu_interval and "seed:1|" in other.signature


def test_a_line_is_right_when_it_equals_any_reference_but_for_outer_spaces():
    quality = measure([" a b", "c d ", "e"], ["a b", "c  d", "x"], intervals=False)
    assert quality.exact_match == pytest.approx(1 / 3) and quality.sentences == 3
    assert measure(["a b", "c"], [["x", "c"], ["a b", "y"]], intervals=False).exact_match == 1


def test_the_counts_of_sentences_add_up_to_the_scores():
    counts, quality = sentence_counts(BETTER, REFERENCES), measure(BETTER, REFERENCES, intervals=False)
    assert counts.shape == (len(BETTER), 28)
    scores = [float(score) for score in resampling.scores_of(counts.sum(0))]
    assert scores == pytest.approx([quality.bleu, quality.chrf])


def test_what_json_and_people_are_told():
    quality = measure(BETTER, REFERENCES, samples=40)
    told = quality.as_dict()
    assert told.keys() == {"bleu", "chrf", "exact_match", "sentences", "signature", "chrf_signature", "bleu_interval",
                           "chrf_interval"}
    assert told["bleu_interval"] == list(quality.bleu_interval)
    low, high = quality.bleu_interval
    assert str(quality).startswith(f"BLEU {quality.bleu:.2f} ({low:.2f} to {high:.2f}, 95% over sentences), chrF ")
    assert "bleu_interval" not in measure(BETTER, REFERENCES, intervals=False).as_dict()


def test_text_that_looks_tokenised_is_pointed_out(caplog):
    tokenised = [line[:-1] + " ." for line in REFERENCES]
    assert measure(tokenised, tokenised, intervals=False).note.startswith("150 of 150 references end in ' .'")
    assert measure(REFERENCES, REFERENCES, intervals=False).note == "" and not caplog.records


# ------------------------------------------------------------------------------------------------- paired


def test_the_paired_test_is_that_of_sacrebleu(monkeypatch):
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    ours = paired(WORSE, NEAR, REFERENCES, trials=500, samples=100)
    _, theirs = PairedTest([("A", WORSE), ("B", NEAR)], {"BLEU": BLEU(), "chrF": CHRF()}, [REFERENCES], "ar", 500)()
    p = [ours.scores["bleu"].p, ours.scores["chrf"].p]
    assert p == pytest.approx([theirs["BLEU"][1].p_value, theirs["chrF2"][1].p_value])
    assert 0.01 < p[0] < 0.99                                                # so that the comparison says something
    assert "bs:100|ar:500|seed:12345" in ours.signatures["signature"]


def test_the_better_system_is_told_whichever_comes_first():
    one, other = paired(WORSE, BETTER, REFERENCES), paired(BETTER, WORSE, REFERENCES, names=("old", "new"))
    assert one.verdict == "B is better" and other.verdict == "old is better"
    gain, loss = one.scores["bleu"], other.scores["bleu"]
    assert gain.p == loss.p < 0.001
    assert gain.difference == -loss.difference > 0
    assert gain.interval[0] > 0 and gain.interval == pytest.approx([-x for x in loss.interval[::-1]])
    assert one.as_dict()["bleu"].keys() == {"a", "b", "difference", "interval", "p"}


def test_no_difference_is_claimed_between_equals():
    same = paired(WORSE, WORSE, REFERENCES, samples=40, trials=100)
    assert same.scores["bleu"].p == same.scores["chrf"].p == 1 and same.scores["bleu"].interval == (0, 0)
    assert same.verdict == "no difference that this test set can show"
    twins = [paired(damaged(REFERENCES, 0.2, 2 * i), damaged(REFERENCES, 0.2, 2 * i + 1), REFERENCES,
                    samples=40, trials=100) for i in range(20)]
    assert sum(twin.scores["bleu"].winner is not None for twin in twins) <= 3          # one in twenty is expected


def test_a_verdict_says_when_the_scores_disagree():
    base = paired(WORSE, BETTER, REFERENCES, samples=40, trials=100)
    chrf = base.scores["chrf"]
    unsure, turned = replace(chrf, p=0.5), replace(chrf, a=chrf.b, b=chrf.a)

    def with_score(name, score):
        return replace(base, scores={**base.scores, name: score})

    assert with_score("chrf", unsure).verdict == "B is better in BLEU; in chrF this test set shows no difference"
    assert with_score("bleu", unsure).verdict == "B is better in chrF; in BLEU this test set shows no difference"
    assert with_score("chrf", turned).verdict == "B is better in BLEU; A is better in chrF"


# ----------------------------------------------------------------------------------- languages and mistakes


def test_the_tokenizer_follows_the_language():
    assert [tokenizer_for(lang) for lang in ("en", "fr-CA", "", "zh", "zh_CN", "ZH-Hant", "th")] == [
        "13a", "13a", "13a", "zh", "zh", "zh", "char"]
    assert tokenizer_for("ja") in ("ja-mecab", "char") and tokenizer_for("ko") in ("ko-mecab", "char")
    chinese = measure(["我喜欢红色的猫。", "他不在家。"], ["我喜欢红猫。", "他不在家里。"], lang="zh", intervals=False)
    assert "tok:zh" in chinese.signature and chinese.bleu > 20
    assert bleu(["我喜欢红色的猫。"], ["我喜欢红猫。"]) == 0             # what 13a would say: one word, and wrong


def test_japanese_falls_back_to_characters_without_mecab(monkeypatch):
    monkeypatch.setattr("regard.metrics.translation_quality.find_spec", lambda name: None)
    assert tokenizer_for("ja") == tokenizer_for("kor") == "char"
    assert "tok:char" in measure(["猫が好きです。"], ["猫が好きだ。"], lang="ja", intervals=False).signature


@pytest.mark.parametrize("call, error, message", [
    (lambda: measure([], []), DataError, "nothing to score: there are no translations"),
    (lambda: bleu([], ["a"]), DataError, "nothing to score"),
    (lambda: measure(["a"] * 1000, ["a"] * 999), DataError,
     r"^1,000 translations and 999 references: there must be one for each$"),
    (lambda: measure(["a", "b"], [["a", "b"], ["a"]]), DataError, "2 translations and 1 references in set 2"),
    (lambda: paired(["a"], ["a", "b"], ["a"]), DataError, "2 translations and 1 references"),
    (lambda: measure("a b c", "a b c"), DataError, "are lists of lines: one string was given"),
    (lambda: measure(["a", None], ["a", "b"]), DataError, "number 2 of the translations is no text: None"),
    (lambda: measure(["a", "b"], ["a", None]), DataError, "number 2 of the references is no text: None"),
    (lambda: measure(["a"], ["a"], samples=10), SettingError, "samples = 10: a level of 95% takes at least 40"),
    (lambda: paired(["a"], ["a"], ["a"], trials=0), SettingError, "trials = 0"),
    (lambda: bleu(["a"], ["a"], tokenize="13b"), SettingError, "unknown tokenizer 13b: did you mean 13a?"),
])
def test_each_mistake_has_one_clear_line(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_tokenizer_that_is_not_installed_is_one_line(monkeypatch):
    if tokenizer_for("ja") == "ja-mecab":
        pytest.skip("MeCab is installed here")
    with pytest.raises(SettingError, match=r"^tokenizer ja-mecab cannot be used: .*pip install sacrebleu\[ja\]$"):
        bleu(["a"], ["a"], tokenize="ja-mecab")


def test_sacrebleu_is_asked_for_only_when_scores_are(tmp_path):
    (tmp_path / "sacrebleu.py").write_text("raise ModuleNotFoundError('no', name='sacrebleu')")
    asked = ("import regard, regard.metrics.translation_quality as t\n"
             "try:\n    t.bleu(['a'], ['a'])\nexcept t.SettingError as error:\n    print(error)")
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}).stdout
    assert told == "BLEU and chrF need sacrebleu, which is missing: pip install sacrebleu\n"


def test_a_quality_can_be_made_by_hand():
    assert Quality(1, 2, 0, 3, "s", "c").as_dict() == {
        "bleu": 1, "chrf": 2, "exact_match": 0, "sentences": 3, "signature": "s", "chrf_signature": "c"}


def test_each_sentence_is_in_the_bin_of_its_source_and_blank_ones_in_none():
    sources = ["a", "a b c d e", "a b c d e f", "", "w " * 60]
    references = ["one two three four"] * 5
    told = by_length(sources, [*references[:2], "else", "x", references[4]], references)
    assert [(each["words"], each["sentences"], each["exact_match"]) for each in told] == [
        ("1-5", 2, 1.0), ("6-10", 1, 0.0), ("51+", 1, 1.0)]
    assert told[0]["bleu"] > 99 and told[1]["bleu"] < 1
