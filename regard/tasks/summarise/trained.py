"""A trained summariser, ready to use: a translator from documents to one-line summaries.

    model = regard.load("runs/gists-summarise-rnn-attention")
    print(model.translate([document])[0].text)
    print(model.summary(documents, references).rougeL.f)

A document too long for the model is cut into parts that fit, as few as can be, at the ends of sentences; each is
summarised, and the summaries follow one another. The user is told: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.data.reading.sentences import Sentence
from regard.metrics.summary_quality import Summary, measure
from regard.tasks.translate.trained import TrainedTranslator, check_pairs


class TrainedSummariser(TrainedTranslator):
    """A summariser with everything needed to use it on text."""

    @property
    def titles(self) -> tuple[str, str]:
        return "document", "summary"

    def sentences(self, line: str) -> list[Sentence]:
        """Return the parts in which a document is read: one if it fits, else as many sentences together as fit."""
        parts: list[Sentence] = []
        for piece in super().sentences(line):
            both = Sentence(parts[-1].text + parts[-1].after + piece.text, piece.after) if parts else piece
            if parts and len(self.tokenizer.source.encode(both.text)) + 1 <= self.context:
                parts[-1] = both
            else:
                parts.append(piece)
        return parts

    def summary(self, documents: Sequence[str], references: Sequence[str], **options: Any) -> Summary:
        """Return ROUGE and exact match of its summaries; options are those of `translate`."""
        check_pairs(documents, references)
        return measure([each.text for each in self.translate(documents, **options)], references)
