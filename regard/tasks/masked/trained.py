"""A trained masked model, ready to use: it fills blanks, and it gives texts vectors.

    model = regard.load("runs/stories-masked-transformer")
    print(model.fill("Tom had a red ___.").text)
    vectors = model.vectors(["Tom lost his kite.", "Rosa lost her kite."])       # (2, D)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.reading.corpus import encode_files
from regard.data.reading.readers import ReadSettings
from regard.data.reading.shards import Shard
from regard.data.tokens.vocabulary import PAD, Tokenizer
from regard.decoding.fill import Filled, fill_blanks
from regard.decoding.special_tokens import SpecialTokens
from regard.errors import DataError, RunError, SettingError
from regard.laws.answer_laws import MaskedReader
from regard.laws.check import Report
from regard.metrics.filling import FillQuality, guess_batches
from regard.models.masked import MaskedModel
from regard.tasks.laws import check_with_encoder
from regard.tasks.masked.hiding import MaskedHeldOut, mask_id
from regard.tasks.trained_model import TrainedModel, batch_by_length

BATCH = 64                     # rows of text made into vectors at once


@dataclass
class TrainedMasked(TrainedModel):
    """A masked model with everything needed to use it on text."""

    model: MaskedModel
    tokenizer: Tokenizer

    @property
    def framed(self) -> bool:
        """True for a model trained on whole documents, each followed by <eos>."""
        return self.tables["training"].get("reading") == "documents"

    @property
    def special_tokens(self) -> SpecialTokens:
        raise RunError("a masked model writes nothing token by token: fill its blanks instead")

    def check_laws(self) -> Report:
        """The laws of masked models, and those of its encoder."""
        return check_with_encoder(MaskedReader, self.model)

    # ------------------------------------------------------------------------------------- filling

    def fill(self, text: str, *, top: int = 5, length: int | None = None) -> Filled:
        """Return the text with its blanks (___ or [MASK]) filled, and the `top` likeliest fillings for each.

        A blank has `length` tokens. Without it, a model of words fills in one, and any other model the number of tokens
        that is likeliest by their average log-probability.
        """
        for name, value in (("top", top), ("length", length)):
            if value is not None and value < 1:
                raise SettingError(f"{name} = {value}: must be at least 1")
        return fill_blanks(self.model.eval(), self.tokenizer, text, top=top, length=length, end=self.framed)

    def guess_files(self, files: Sequence[str], on_bad_text: str = "fail") -> FillQuality:
        """Return the accuracy on hidden tokens of these files; always the same ones are hidden, all behind <mask>."""
        settings = ReadSettings(self.tables["data"]["documents"], on_bad_text)
        shard = encode_files(files, self.tokenizer, settings, say=lambda text: None)
        return self.guess_shard(shard)

    def guess_shard(self, shard: Shard) -> FillQuality:
        """Return the accuracy on hidden tokens of a shard."""
        held_out = MaskedHeldOut(shard, self.context, 16, self.tokenizer.bos, self.framed, mask=mask_id(self.tokenizer))
        return guess_batches(self.model, held_out)

    # ------------------------------------------------------------------------------------- vectors

    def encode(self, text: str) -> Tensor:
        """Return the vectors (T, D) of the tokens of a text in their context."""
        windows = self._windows(text)
        with torch.no_grad():
            parts = [self.model.eval().encode(row[None]).vectors[0] for row in windows]
        return torch.cat(parts)[: len(self.tokenizer.encode(text))]

    @torch.no_grad()
    def vectors(self, texts: Sequence[str], *, normalise: bool = False) -> Tensor:
        """Return one vector a text (N, D), the mean over its tokens; of length one if `normalise`.

        A text longer than the context is read in windows.
        """
        if isinstance(texts, str):
            raise DataError("give a list of texts, not a single one: vectors([text])")
        self.model.eval()
        windows = [(number, row) for number, text in enumerate(texts) for row in self._windows(text)]
        total = torch.zeros(len(texts), self.model.encoder.d_out)
        count = torch.zeros(len(texts))
        for some in batch_by_length([row for _, row in windows], BATCH):
            numbers = torch.tensor([windows[at][0] for at in some])
            sums, lengths = self._sums([windows[at][1] for at in some])
            total.index_add_(0, numbers, sums.cpu())
            count.index_add_(0, numbers, lengths.cpu())
        mean = total / count.clamp(min=1)[:, None]
        return torch.nn.functional.normalize(mean, dim=-1) if normalise else mean

    def _sums(self, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        lengths = torch.tensor([len(row) for row in rows], device=tokens.device)
        memory = self.model.encode(tokens, lengths)
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        return torch.where(real[..., None], memory.vectors, 0.0).sum(1).float(), lengths.float()

    def _windows(self, text: str) -> tuple[Tensor, ...]:
        ids = self.tokenizer.encode(text).tolist() + [self.tokenizer.eos] * self.framed
        row = torch.tensor(ids, dtype=torch.long, device=self.model.device)
        return torch.split(row, self.model.context or max(1, len(ids))) if ids else ()

    def similar(self, text: str, lines: Sequence[str], *, top: int = 5) -> list[tuple[float, int]]:
        """Return the lines nearest to the text, as (similarity, number of the line), nearest first.

        Similarity is the cosine of two vectors, each taken from the mean of all lines: what every line has in common
        says nothing.
        """
        if not lines:
            raise DataError("there are no lines to compare with: give a file, or - for stdin")
        both = self.vectors([*lines, text])
        both = torch.nn.functional.normalize(both - both[:-1].mean(0), dim=-1)
        scores = (both[:-1] @ both[-1]).numpy()
        order = np.argsort(-scores, kind="stable")[:top]
        return [(float(scores[number]), int(number)) for number in order]
