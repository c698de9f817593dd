"""Special tokens that a tokenizer of another program lacks: each reads as another token, and none is ever written.

Nothing of this is learned or saved: it follows from the tokenizer, and holds for a model that was loaded or is trained.
V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.layers.embedding import Embedding

NEVER = -1e4                   # of a logit: exp of it is zero, in half precision too
Model = TypeVar("Model", bound=nn.Module)


class AliasedEmbedding(Embedding):
    """An embedding in which some tokens have the rows of others."""

    alike: Tensor              # (V,): the row of each

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(self.alike[tokens])


def leave_out(model: Model, tokenizer: Any) -> Model:
    """Return the model, in which what its tokenizer lacks reads as `missing` says and has a probability of zero. The
    source of a translator has a tokenizer of its own."""
    source = getattr(tokenizer, "source", tokenizer)
    sides: list[tuple[Any, Mapping[int, int]]] = [
        (model, tokenizer.missing), (getattr(model, "encoder", None), source.missing)]
    for side, missing in sides:
        if any(token != other for token, other in missing.items()) and "embedding" in getattr(side, "_modules", {}):
            side.embedding = read_as_others(side.embedding, missing)
    if tokenizer.missing and not hasattr(model, "labels"):
        leave_out_of_head(model.head, list(tokenizer.missing))
    return model


def read_as_others(embedding: Embedding, missing: Mapping[int, int]) -> AliasedEmbedding:
    """Return the embedding with the same weight."""
    weight = embedding.weight
    with torch.device("meta"):
        made = AliasedEmbedding(*weight.shape, scale=embedding.scale)
    made.weight = weight
    alike = torch.arange(len(weight), device=weight.device)
    alike[list(missing)] = torch.tensor(list(missing.values()), device=weight.device)
    made.register_buffer("alike", alike, persistent=False)
    return made


def leave_out_of_head(head: Any, tokens: list[int]) -> None:
    """Give these tokens a probability of zero, and leave all others theirs: by a bias, the head's own if it has one."""
    if head.bias is None:
        del head.bias
        head.register_buffer("bias", torch.zeros(len(head.weight), device=head.weight.device), persistent=False)
    with torch.no_grad():
        head.bias[tokens] = NEVER
