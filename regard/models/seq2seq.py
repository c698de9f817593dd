"""Translators, summarisers and captioners: language models of the target that read a source, a text or a picture.

With an encoder, the source becomes a memory that the decoder reads or starts from. Without one (`Prefix`), the source
is the beginning of the text, and one stack reads both.
B rows, k beams for each of S sources · T time · L source length · D width · V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.contract import Encoder, Role, SequenceLayer, Source, State, of_source
from regard.errors import SettingError
from regard.layers.embedding import Embedding
from regard.layers.roles import WEIGHT
from regard.models.encoders import TokenEncoder
from regard.models.neural import NeuralLM

NO_SOURCE = "this model needs something to read, a text or a picture: start it with a source"


class Seq2Seq(NeuralLM):
    """P(y[t+1] | y[1..t], x): a decoder over the memory of an encoder."""

    needs_source = True

    def __init__(self, encoder: Encoder, decoder: SequenceLayer, *, vocab: int, shared: bool = False, **options: Any):
        super().__init__(decoder, vocab=vocab, **options)
        self.encoder = encoder
        if shared:                             # one vocabulary for both languages: one embedding
            assert isinstance(encoder, TokenEncoder) and encoder.embedding.weight.shape == self.embedding.weight.shape
            encoder.embedding.weight = self.embedding.weight

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        if source is None:
            raise SettingError(NO_SOURCE)
        return self.stack.start(batch, capacity, self.encoder(source))

    def encode(
        self, tokens: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        if state is None:
            raise SettingError(NO_SOURCE)
        return super().encode(tokens, state, lengths)


@dataclass
class Unread(State):
    """A source that waits to be read together with its target, in one whole read."""

    items: Tensor = of_source()            # (S, L)
    lengths: Tensor = of_source()          # (S,)


class Prefix(NeuralLM):
    """Decoder-only: row by row the source, then the target, then pads; one stack of causal layers reads them all.

    A source ends with its own mark, so that the two do not run together. `sides` tells them apart: one vector for the
    source and one for the target, added to every embedding.
    """

    needs_source = one_text = True

    def __init__(self, stack: SequenceLayer, *, vocab: int, **options: Any):
        super().__init__(stack, vocab=vocab, **options)
        self.sides = Embedding(2, stack.d_in, scale=self.embedding.scale)

    def parameter_roles(self) -> dict[str, Role]:
        return {"sides.weight": WEIGHT}            # two rows that every step learns: decayed

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        if source is None:
            raise SettingError(NO_SOURCE)
        items, lengths = source.items, source.lengths
        if lengths is None:
            lengths = torch.full(items.shape[:1], items.shape[1], device=items.device)
        if capacity is None:
            return Unread(items, lengths)
        room = capacity + items.shape[1]
        if self.context is not None and items.shape[1] < self.context:
            room = min(room, self.context)     # what fits behind the shortest source need not fit behind the longest
        state = self.stack.start(len(items), room)
        _, state = self.stack(self.vectors(items, torch.zeros_like(items)), state, lengths)       # once a source;
        return state.map(lambda t: t.repeat_interleave(batch // len(items), 0))                   # then a row each

    def vectors(self, tokens: Tensor, sides: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) + self.sides(sides))

    def encode(
        self, tokens: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        """(B, T, D) at the tokens of the target, whether the source was read already or not."""
        if state is None:
            raise SettingError(NO_SOURCE)
        if not isinstance(state, Unread):
            h, state = self.stack(self.vectors(tokens, torch.ones_like(tokens)), state, lengths)
            return self.norm(h), state
        joined, sides, began = join(state, tokens)
        h, _ = self.stack(self.vectors(joined, sides), None, None if lengths is None else began + lengths)
        at = began[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        return self.norm(h.gather(1, at[..., None].expand(-1, -1, h.shape[-1]))), None


def join(source: Unread, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's source and target without a gap (B, L + T), the side of each token, and where the target begins."""
    rows = len(tokens) // len(source.items)
    items, began = source.items.repeat_interleave(rows, 0), source.lengths.repeat_interleave(rows, 0)
    length, time = items.shape[1], tokens.shape[1]
    at = torch.arange(length + time, device=tokens.device)
    sides = (at >= began[:, None]).long()                                             # (B, L + T)
    both = torch.cat((items, tokens), 1)
    # Position p of a row is source token p, or target token p - began, which stands at L + p - began in `both`.
    taken = torch.where(sides.bool(), length + at - began[:, None], at).clamp(max=length + time - 1)
    return both.gather(1, taken), sides, began
