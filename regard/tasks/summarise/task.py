"""Summarising: documents in, one-line summaries out. It is translation from long to short, measured by ROUGE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.pairs.pair_corpus import PairCorpus
from regard.data.pairs.pairs import DocumentSettings
from regard.families.sizes import longer
from regard.families.translate import TRANSLATE
from regard.metrics.summary_quality import measure
from regard.tasks.last_measure import LastFigures, LastMeasure
from regard.tasks.summarise import CARD
from regard.tasks.summarise.score import SCORE
from regard.tasks.summarise.trained import TrainedSummariser
from regard.tasks.task import from_table
from regard.tasks.translate import task as translate

CONTEXT = 512                  # tokens of a document, unless told
SUMMARISE = {name: replace(family, sizes=longer(family.sizes, CONTEXT)) for name, family in TRANSLATE.items()}


def judge(model: Any, corpus: PairCorpus, context: int) -> dict[str, float]:
    """Return ROUGE-L of the summaries of the first held-out documents."""
    pairs = corpus.held_out(translate.JUDGED)
    texts = translate.written(model, corpus, len(pairs), context)
    return {"valid_rouge": measure(texts, [pair.target for pair in pairs], intervals=False).rougeL.f}


def measure_test(trained: TrainedSummariser, corpus: PairCorpus) -> LastFigures:
    """Return ROUGE-L and loss of the first test documents, each summary written word after likeliest word."""
    pairs, texts = translate.write_test(trained, corpus)
    found = measure(texts, [pair.target for pair in pairs], intervals=False).rougeL.f
    return translate.report_test(trained, corpus, pairs, {"test_rouge": found}, f"ROUGE-L {found:.2f}")


TASK = replace(
    translate.TASK, card=CARD, trained=TrainedSummariser, families=SUMMARISE, family=from_table(SUMMARISE),
    data=DocumentSettings, judge=judge, score=SCORE, test=LastMeasure(measure_test, tokens=None))
