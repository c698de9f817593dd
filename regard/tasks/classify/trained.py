"""A trained classifier, ready to use: it gives texts labels, with their probabilities.

    model = regard.load("runs/origins-classify-window")
    for guess in model.classify(["Le chat dort."], top=3)[0]:
        print(guess.label, guess.probability)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.decoding.stream import padded
from regard.errors import DataError, SettingError
from regard.laws.answer_laws import LabelReader
from regard.laws.check import Report
from regard.metrics.bag_of_ngrams import BagOfNGrams
from regard.models.label_models import TextLabelModel
from regard.tasks.laws import check_with_encoder
from regard.tasks.trained_model import TrainedModel, batch_by_length

BATCH = 64                     # texts read at once


class LabelGuess(NamedTuple):
    """A label, and how likely it is."""

    label: str
    probability: float


@dataclass
class TrainedClassifier(TrainedModel):
    """A classifier with everything needed to use it on text."""

    model: TextLabelModel
    tokenizer: LabelledTokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it gives, in the order of their ids."""
        return self.tokenizer.labels

    def check_laws(self) -> Report:
        """Try the laws of label models, and those of its encoder."""
        return check_with_encoder(LabelReader, self.model)

    def classify(self, texts: Sequence[str], *, top: int = 1) -> list[list[LabelGuess]]:
        """Return the `top` likeliest labels of each text, likeliest first; many are read at once, which changes none.

        A text longer than the context is read as far as that goes, as in training.
        """
        if isinstance(texts, str):
            raise DataError("give a list of texts, not a single one: classify([text])")
        if top < 1:
            raise SettingError(f"top = {top}: must be at least 1")
        found = self.probabilities(texts).topk(min(top, len(self.labels)), dim=-1)
        return [[LabelGuess(self.labels[id], p) for id, p in zip(ids, row, strict=True)]
                for ids, row in zip(found.indices.tolist(), found.values.tolist(), strict=True)]

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Return (N, L): how likely each label is of each text."""
        return self.log_probabilities([self.read(text) for text in texts]).exp()

    @torch.no_grad()
    def log_probabilities(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return (N, L) log-probabilities of the labels of texts, given as token ids."""
        self.model.eval()
        log_probs = torch.zeros(len(rows), len(self.labels))
        for some in batch_by_length(rows, BATCH):
            tokens, lengths = padded([rows[row] for row in some], self.model.device)
            log_probs[some] = self.model.predict(tokens, lengths)[:, 0].float().cpu()
        return log_probs

    def read(self, text: str) -> list[int]:
        """Return the token ids of a text as the model reads it: <eos> behind it, no more than the context."""
        return [*self.tokenizer.text.encode(text).tolist(), self.tokenizer.eos][:self.context]

    # ------------------------------------------------------------------------------------- the baseline

    @property
    def majority(self) -> str:
        """The label that most of the texts had that it learned from."""
        texts = self.tokenizer.baseline.get("texts", np.zeros(0))
        if texts.shape != (len(self.labels),):
            raise DataError(f"the baseline of this run does not count the texts of {len(self.labels)} labels: take "
                            "baseline.safetensors from a copy of the run")
        return self.labels[int(texts.argmax())]

    def classify_by_ngrams(self, texts: Sequence[str]) -> list[str]:
        """Return the label of each text by the baseline, logistic regression over n-grams of its tokens."""
        bag = BagOfNGrams.from_arrays(self.tokenizer.baseline, len(self.labels))
        rows = [[*ids.tolist(), self.tokenizer.eos] for ids in self.tokenizer.text.encode_batch(list(texts))]
        return [self.labels[id] for id in bag.predict(rows).argmax(-1).tolist()]
