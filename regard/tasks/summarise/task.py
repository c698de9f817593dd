"""Summarising: documents in, one-line summaries out. It is translation from long to short, measured by ROUGE."""

from __future__ import annotations

from dataclasses import replace

from regard.data.pairs.pairs import DocumentSettings
from regard.families.sizes import longer
from regard.families.translate import TRANSLATE
from regard.metrics.summary_quality import measure
from regard.tasks.last_measure import LastMeasure
from regard.tasks.summarise import CARD
from regard.tasks.summarise.score import SCORE
from regard.tasks.summarise.trained import TrainedSummariser
from regard.tasks.translate import task as translate

CONTEXT = 512                  # tokens of a document, unless told
SUMMARISE = {name: replace(family, sizes=longer(family.sizes, CONTEXT)) for name, family in TRANSLATE.items()}
ROUGE = translate.WritingMeasure(
    "rouge", "ROUGE-L", lambda texts, references, lang: measure(texts, references, intervals=False).rougeL.f,
    lambda texts, references, lang: measure(texts, references).rougeL.interval)

TASK = replace(
    translate.TASK, card=CARD, trained=TrainedSummariser, families=SUMMARISE,
    data=DocumentSettings, judge=ROUGE.judge, score=SCORE,
    test=LastMeasure(ROUGE.measure_test, tokens=None))
