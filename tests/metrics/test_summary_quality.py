"""ROUGE: the numbers of `rouge-score`, only faster and of any script; its intervals, the lead and the paired test."""

import importlib.util
import random
import time
from itertools import pairwise

import pytest

from regard.data import embedded
from regard.errors import DataError, SettingError
from regard.metrics import resampling, rouge, summary_quality
from regard.metrics.rouge import any_words, ascii_words, common, cutter, matched, table
from regard.metrics.summary_quality import lead, measure, paired

WORDS = ["the", "a", "small", "red", "cat", "dogs", "house", "runs", "running", "don't", "Paris", "3.14", "old-ish",
         "café"]
MARKS = [".", ", ", " ", "! ", "\n", " - "]
library = pytest.mark.skipif(not importlib.util.find_spec("rouge_score"), reason="rouge-score is not installed")


def texts(count, seed=0, most=14, marks=MARKS):
    rng = random.Random(seed)
    return ["".join(rng.choice(WORDS) + rng.choice(marks) for _ in range(rng.randint(0, most))) for _ in range(count)]


def damaged(lines, rate, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) if rng.random() < rate else word for word in line.split(" ")) for line in lines]


ONE_LINE = [text + "red" for text in texts(150, 3, marks=[" ", ", "])]
WORSE, NEAR, BETTER = (damaged(ONE_LINE, rate, seed) for rate, seed in ((0.5, 1), (0.47, 5), (0.1, 2)))


def theirs(said, wanted, **how):
    """F, precision and recall of each kind and each text, by the library."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], **how)
    return [[(score.fmeasure, score.precision, score.recall) for score in scorer.score(*both).values()]
            for both in zip(wanted, said, strict=True)]


# ------------------------------------------------------------------------------------- against the library


@library
@pytest.mark.parametrize("stem", [False, True])
def test_every_text_scores_what_the_library_gives_it(stem):
    said, wanted = [*texts(300, 1), "", "a b", "…"], [*texts(300, 2), "a", "", "…"]
    cut = cutter("ascii", stem)
    ours = [summary_quality._shares(*both, cut, lines=True) for both in zip(said, wanted, strict=True)]
    for mine, other in zip(ours, theirs(said, wanted, use_stemmer=stem), strict=True):
        assert mine == [pytest.approx(scores, abs=1e-12) for scores in other]


@library
def test_the_means_are_those_of_the_library_in_percent():
    other = theirs(WORSE, ONE_LINE)
    ours = measure(WORSE, ONE_LINE, words="ascii", intervals=False)
    for kind, score in enumerate((ours.rouge1, ours.rouge2, ours.rougeL)):
        means = [100 * sum(row[kind][part] for row in other) / len(other) for part in range(3)]
        assert [score.f, score.precision, score.recall] == pytest.approx(means)
    assert ours.rougeLsum is None and 20 < ours.rougeL.f < 80


@library
def test_of_several_references_the_best_counts_as_in_the_library():
    from rouge_score.rouge_scorer import RougeScorer

    both = [ONE_LINE, NEAR]
    scored = [RougeScorer(["rougeL"]).score_multi(list(wanted), said)["rougeL"]
              for said, *wanted in zip(WORSE, *both, strict=True)]
    ours = measure(WORSE, both, words="ascii", intervals=False)
    assert ours.rougeL.f == pytest.approx(100 * sum(score.fmeasure for score in scored) / len(scored))
    assert ours.rougeL.recall == pytest.approx(100 * sum(score.recall for score in scored) / len(scored))
    assert ours.rougeL.f > measure(WORSE, ONE_LINE, words="ascii", intervals=False).rougeL.f
    assert ours.signature == "words:ascii|stem:no|refs:2"


def test_known_values():
    score = measure(["The cat sat."], ["the cat sat on the mat"], intervals=False)
    assert (score.rouge1.precision, score.rouge1.recall) == (100, 50)
    assert score.rouge1.f == pytest.approx(200 / 3) and score.rouge2.f == pytest.approx(100 * 4 / 7)
    turned = measure(["mat the cat"], ["the cat mat"], intervals=False)
    assert turned.rouge1.f == 100 and turned.rougeL.f == pytest.approx(200 / 3) and turned.rouge2.f == 50


def test_lines_are_matched_with_all_lines():
    score = measure(["b b\na a"], ["a a\nb b"], intervals=False)
    assert score.rougeLsum.f == 100 and score.rougeL.f == 50
    assert measure(["a a a\na"], ["a b\na b"], intervals=False).rougeLsum.precision == 50     # no word counts twice


# ---------------------------------------------------------------------- the longest common subsequence


def words(seed, most=40, kinds=5):
    rng = random.Random(seed)
    return [rng.choice("abcdefghij"[:kinds]) for _ in range(rng.randint(0, most))]


@pytest.mark.parametrize("kinds", [1, 2, 5, 10])
def test_the_bits_hold_the_table_that_defines_them(kinds):
    for seed in range(60):
        one, other = words(seed, kinds=kinds), words(seed + 1000, kinds=kinds)
        defined, found = table(one, other), rouge.columns(one, other)
        assert common(one, other) == defined[-1][-1]
        assert [[rouge._cell(column, i) for column in found] for i in range(len(one) + 1)] == defined
        places = matched(one, other)
        assert len(places) == defined[-1][-1] and places == sorted(set(places))


def test_a_lost_carry_would_be_seen(monkeypatch):
    """Planted: bits are cleared where they are met, without the addition that moves them on."""
    def planted(one, other):
        found = [(1 << len(one)) - 1]
        for word in other:
            found.append(found[-1] & ~sum(1 << i for i, each in enumerate(one) if each == word))
        return found

    monkeypatch.setattr(rouge, "columns", planted)
    with pytest.raises(AssertionError):
        test_the_bits_hold_the_table_that_defines_them(5)


def test_long_texts_take_moments():
    many = [[f"{word}" for word in random.Random(seed).choices(range(200), k=300)] for seed in range(101)]
    began = time.process_time()
    for one, other in pairwise(many):
        common(one, other)
        matched(one, other)
    assert time.process_time() - began < 2                                   # a hundred pairs; the table takes longer


# -------------------------------------------------------------------------------------------------- words


def test_words_of_plain_english_are_those_of_the_library():
    text = "Don't_STOP: the 2nd well-known U.S. test (3.14)!\tEnd"
    assert any_words(text) == ascii_words(text) == [
        "don", "t", "stop", "the", "2nd", "well", "known", "u", "s", "test", "3", "14", "end"]


@pytest.mark.parametrize("text, found", [
    ("Café déjà_vu", ["café", "déjà", "vu"]),
    ("cafe\u0301", ["café"]),                                                # the accent apart, and one with its letter
    ("Привет, МИР!", ["привет", "мир"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("我喜欢 Python3。", ["我", "喜", "欢", "python3"]),
    ("ภาษาไทย 5", [*"ภาษาไทย", "5"]),
    ("ที่นี่", ["ที่", "นี่"]),                                             # vowel and tone stay upon their letters
    ("한국어 문장", ["한국어", "문장"]),
    ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    ("… — !", []),
])
def test_every_script_has_words(text, found):
    assert any_words(text) == found


def test_other_scripts_are_scored_where_the_library_drops_them():
    said, wanted = ["Кот сидит дома"], ["Кот сидит на крыше"]
    assert measure(said, wanted, intervals=False).rouge1.recall == 50
    assert measure(said, wanted, words="ascii", intervals=False).rouge1.f == 0


def test_stems_bring_forms_together():
    pytest.importorskip("nltk")
    assert measure(["running dogs"], ["run dog"], intervals=False).rouge1.f == 0
    stemmed = measure(["running dogs"], ["run dog"], stem=True, intervals=False)
    assert stemmed.rouge1.f == 100 and "stem:porter" in stemmed.signature
    assert cutter(stem=True)("his wishes") == ["his", "wish"]                # three letters are left alone


# ------------------------------------------------------------------------------------ intervals, and pairs


def test_intervals_hold_the_score_and_narrow_with_more_texts():
    few, many = measure(WORSE[:30], ONE_LINE[:30]), measure(WORSE, ONE_LINE)
    for name in summary_quality.KINDS:
        score = getattr(many, name)
        assert score.interval[0] < score.f < score.interval[1]
    assert few.rougeL.interval[1] - few.rougeL.interval[0] > many.rougeL.interval[1] - many.rougeL.interval[0]
    assert measure(WORSE, ONE_LINE) == many != measure(WORSE, ONE_LINE, seed=1)


def test_an_interval_is_that_of_means_of_texts():
    f = summary_quality._all_shares(WORSE, [ONE_LINE], cutter())[:, 2, 0]
    wide = 3.92 * f.std() / len(f) ** 0.5
    low, high = measure(WORSE, ONE_LINE).rougeL.interval
    assert high - low == pytest.approx(wide, rel=0.15)


def test_the_better_system_is_told_whichever_comes_first():
    one, other = paired(WORSE, BETTER, ONE_LINE), paired(BETTER, WORSE, ONE_LINE, names=("old", "new"))
    assert one.verdict == "B is better" and other.verdict == "old is better"
    assert one.scores["rougeL"].p == other.scores["rougeL"].p < 0.001 and one.scores["rougeL"].interval[0] > 0
    worse, better = (measure(each, ONE_LINE, intervals=False) for each in (WORSE, BETTER))
    for kind in ("rouge1", "rouge2", "rougeL"):
        found = one.scores[kind]
        assert (found.a, found.b) == (getattr(worse, kind).f, getattr(better, kind).f)
    assert len({one.scores["rouge1"].b, one.scores["rouge2"].b, one.scores["rougeL"].b}) == 3


def test_no_difference_is_claimed_between_equals_or_from_one_text():
    same = paired(WORSE, WORSE, ONE_LINE, samples=40, trials=100)
    assert same.scores["rougeL"].p == 1 and same.scores["rougeL"].interval == (0, 0)
    assert same.verdict == "no difference that this test set can show"
    assert paired(WORSE[:1], BETTER[:1], ONE_LINE[:1]).scores["rougeL"].p == 1
    twins = [paired(damaged(ONE_LINE, 0.3, 2 * i), damaged(ONE_LINE, 0.3, 2 * i + 1), ONE_LINE, samples=40, trials=200)
             for i in range(20)]
    assert sum(twin.scores["rougeL"].winner is not None for twin in twins) <= 3        # one in twenty is expected


def test_the_pairing_counts():
    """Planted: the texts of one system in another order have the same mean, and a small difference goes under."""
    little = damaged(WORSE, 0.05, 7)
    f = [summary_quality._all_shares(each, [ONE_LINE], cutter())[:, :3, 0] for each in (WORSE, little)]
    order = random.Random(1).sample(range(150), 150)
    assert paired(WORSE, little, ONE_LINE).verdict == "A is better"
    p = resampling.estimate_chances(f[0], f[1][order], lambda totals: totals.T, (f[1] - f[0]).sum(0), 10_000, 1)
    assert min(p) > 0.05


def test_drawing_in_small_chunks_changes_nothing(monkeypatch):
    whole = paired(WORSE, NEAR, ONE_LINE)
    monkeypatch.setattr(resampling, "DRAWN", 64 * len(WORSE))
    again = paired(WORSE, NEAR, ONE_LINE)
    assert again.scores["rougeL"].p == whole.scores["rougeL"].p


def test_a_verdict_says_where_the_scores_disagree():
    from dataclasses import replace

    base = paired(WORSE, BETTER, ONE_LINE, samples=40, trials=100)
    first = base.scores["rouge1"]
    unsure, turned = replace(first, p=0.5), replace(first, a=first.b, b=first.a)

    def with_scores(**scores):
        return replace(base, scores={**base.scores, **scores})

    assert with_scores(rouge2=unsure).verdict == ("B is better in ROUGE-1 and ROUGE-L; "
                                                  "in ROUGE-2 this test set shows no difference")
    assert with_scores(rouge2=turned, rougeL=unsure).verdict == (
        "B is better in ROUGE-1; A is better in ROUGE-2; in ROUGE-L this test set shows no difference")


def test_what_json_and_people_are_told():
    found = measure(BETTER, ONE_LINE, samples=40)
    told = found.as_dict()
    kinds = {f"rouge{kind}{part}" for kind in "12L" for part in ("", "_precision", "_recall", "_interval")}
    assert told.keys() == kinds | {"exact_match", "sentences", "signature"}
    assert told["rougeL"] == found.rougeL.f and told["rougeL_interval"] == list(found.rougeL.interval)
    assert str(found).startswith(f"ROUGE-1 {found.rouge1.f:.2f} ({found.rouge1.interval[0]:.2f} to ")
    assert "rougeLsum_recall" in measure(["a\nb"], ["a"], intervals=False).as_dict()
    pair = paired(WORSE, BETTER, ONE_LINE, samples=40, trials=40).as_dict()
    assert pair["verdict"] == "B is better" and pair["rougeL"].keys() == {"a", "b", "difference", "interval", "p"}


def test_a_text_is_right_when_it_equals_a_reference_but_for_outer_spaces():
    assert measure([" a b", "c"], ["a b", "d"], intervals=False).exact_match == 0.5
    assert measure(["a", "c"], [["x", "c"], ["a", "y"]], intervals=False).exact_match == 1


# ---------------------------------------------------------------------------------------- the lead, mistakes


def test_the_lead_is_the_first_sentences():
    news = ["Mr. Hill sold a kite for 3.5 coins. It was red. Nobody knew.", "  One only", "",
            "First line\nSecond line."]
    assert lead(news) == ["Mr. Hill sold a kite for 3.5 coins.", "One only", "", "First line"]
    assert lead(news, 2)[0] == "Mr. Hill sold a kite for 3.5 coins. It was red." and lead(news, 9)[0] == news[0]


def test_the_lead_of_a_gist_scores_far_below_the_gist():
    some = list(embedded.PAIRED["gists"].draw(100, 0, "valid"))
    wanted, documents = [pair.target for pair in some], [pair.source for pair in some]
    first = measure(lead(documents), wanted)
    assert 10 < first.rougeL.f < 40 and first.exact_match == 0
    assert paired(lead(documents), wanted, wanted).verdict == "B is better"


@pytest.mark.parametrize("call, error, message", [
    (lambda: measure([], []), DataError, "nothing to score: there are no summaries"),
    (lambda: measure(["a"] * 1000, ["a"] * 999), DataError,
     r"^1,000 summaries and 999 references: there must be one for each$"),
    (lambda: measure(["a", "b"], [["a", "b"], ["a"]]), DataError, "2 summaries and 1 references in set 2"),
    (lambda: paired(["a"], ["a", "b"], ["a"]), DataError, "2 summaries and 1 references"),
    (lambda: measure("a b c", "a b c"), DataError, "are lists of texts: one string was given"),
    (lambda: measure(["a", None], ["a", "b"]), DataError, "number 2 of the summaries is no text: None"),
    (lambda: measure(["a", "b"], ["a", None]), DataError, "number 2 of the references is no text: None"),
    (lambda: measure(["a"], ["a"], samples=10), SettingError, "samples = 10: a level of 95% takes at least 40"),
    (lambda: paired(["a"], ["a"], ["a"], trials=0), SettingError, "trials = 0"),
    (lambda: measure(["a"], ["a"], words="asci"), SettingError, "unknown words asci: did you mean ascii?"),
    (lambda: lead(["a"], 0), SettingError, "sentences = 0: a lead has at least 1"),
])
def test_each_mistake_has_one_clear_line(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
