"""The ids of a target: ours, or those of the program from which a model was imported.

V rows of ours · S rows of the source
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.vocabulary import BOS
from regard.errors import SettingError
from regard.interop.layout import DecoderLayout, EncoderDecoderLayout, HeadLayout, Layout, MaskedLayout
from regard.layers.embedding import Embedding


class Counting:
    """The ids of one side of a model in a target."""

    def __init__(self, tokenizer: Any, vocab: int, recounted: bool = True):
        main = getattr(tokenizer, "main", tokenizer)
        self.tokenizer: ForeignTokenizer | None = main if recounted and main.kind == ForeignTokenizer.kind else None
        self.size = vocab if self.tokenizer is None else self.tokenizer.size

    @cached_property
    def order(self) -> np.ndarray:
        """(V,): the target's id of each of ours; ADDED where it has none."""
        assert self.tokenizer is not None
        order = self.tokenizer.rows.copy()
        for ours, other in self.tokenizer.missing.items():
            order[ours] = order[other]
        return order

    @cached_property
    def rows(self) -> Tensor | None:
        """(S,): the row of ours behind each of the target's ids; None: they are the same."""
        if self.tokenizer is None:
            return None
        found, rows = np.full(self.size, ADDED, np.int64), self.tokenizer.rows
        found[rows[rows != ADDED]] = np.flatnonzero(rows != ADDED)
        assert found.min() >= 0, "every row of the source is somewhere"
        return torch.from_numpy(found)

    def of(self, id: int) -> int | None:
        """Return the target's id of one of ours; None where it has none."""
        if self.tokenizer is None:
            return int(id)
        found = int(self.order[id])
        return None if found == ADDED else found

    def theirs(self, ids: Sequence[int]) -> list[int]:
        """Return the target's ids of these; what has none cannot be told to the target."""
        found = [self.of(id) for id in ids]
        if None in found:
            raise SettingError("a token of ours has no place in the vocabulary that the model came with"
                               + (": no token there begins a text" if ids[found.index(None)] == BOS else "")
                               + "; export with --to safetensors")
        return found                                                                   # type: ignore[return-value]

    def columns(self, log_probs: Tensor) -> Tensor:
        """Return (..., V) as the target has it, (..., S)."""
        return log_probs if self.rows is None else log_probs[..., self.rows]


# ---------------------------------------------------------------------------------------- rows put back


def recount(layout: Layout, counting: Counting, of_source: Counting) -> Layout:
    """Return the layout with its rows as the target counts them; those that were added are gone."""
    rows = counting.rows
    if rows is None:
        return layout
    head = recount_head(layout.head, rows)
    if isinstance(layout, EncoderDecoderLayout):
        assert of_source.rows is not None, "both sides of an imported translator have tokenizers of the same kind"
        encoder = replace(layout.encoder, embedding=layout.encoder.embedding[of_source.rows])
        decoder = replace(layout.decoder, embedding=layout.decoder.embedding[rows])
        return replace(layout, encoder=encoder, decoder=decoder, head=head,
                       shared=torch.equal(encoder.embedding, decoder.embedding))
    if isinstance(layout, MaskedLayout):
        return replace(layout, encoder=replace(layout.encoder, embedding=layout.encoder.embedding[rows]), head=head)
    if isinstance(layout, DecoderLayout):
        return replace(layout, stack=replace(layout.stack, embedding=layout.stack.embedding[rows]), head=head)
    return replace(layout, embedding=layout.embedding[rows], head=head)


def recount_head(head: HeadLayout, rows: Tensor) -> HeadLayout:
    return replace(head, weight=head.weight[rows], bias=None if head.bias is None else head.bias[rows])


def recount_network(network: Any, counting: Counting, of_source: Counting) -> Any:
    """Return a copy of the network that counts as the target does; the network itself where that is the same."""
    rows = counting.rows
    if rows is None:
        return network
    copied = deepcopy(network)
    copied.vocab = len(rows)
    sides: list[tuple[Any, Tensor | None]] = [(copied, rows), (getattr(copied, "encoder", None), of_source.rows)]
    for side, some in sides:
        if some is not None and "embedding" in getattr(side, "_modules", {}):
            side.embedding = recount_embedding(side.embedding, some)
    head = copied.head
    learned = head._parameters.get("bias")
    del head.bias
    head.bias = None if learned is None else nn.Parameter(learned.detach()[rows])
    head.weight = copied.embedding.weight if head.tied else nn.Parameter(head.weight.detach()[rows])
    return copied.eval()


def recount_embedding(embedding: Any, rows: Tensor) -> Embedding:
    with torch.device("meta"):
        made = Embedding(len(rows), embedding.embedding_dim, scale=embedding.scale)
    made.weight = nn.Parameter(embedding.weight.detach()[rows])
    return made
