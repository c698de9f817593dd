"""Influence: how much each earlier token matters for each prediction, of any language model.

Two ways of asking. By gradient: how fast the target's log-probability changes with the token's embedding, to first
order what the embedding adds to it. By occlusion: what the log-probability loses when the token is replaced by
another, which asks nothing of the model but scores, so that it serves an n-gram as well.

    with regard.watch() as seen:
        influence(model, tokens, targets, how="occlusion")
    seen.of("influence")[0].values             # (T, T), too, beside what the function gives

T time · D width
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from regard.config import one_of
from regard.contract import LanguageModel, Source
from regard.data.tokens.vocabulary import UNK
from regard.errors import DataError, RunError
from regard.watching import watching

MOST_TOKENS = 2**13              # read at once, over all variants of the text
WAYS = ("gradient", "sensitivity", "occlusion")


def influence(
    model: LanguageModel, tokens: Tensor, targets: Tensor, how: str = "gradient", at: int | None = None, *,
    instead: int | Sequence[int] = UNK, source: Source | None = None,
) -> Tensor:
    """(T, T): row t says how much each token s <= t matters for target t; zero above the diagonal. `at` gives one row.

    gradient      g . x: the gradient of the target's log-probability towards the embedding of s, times the embedding.
                  Positive where the token speaks for the target.
    sensitivity   |g|: how strongly it reacts to any change of the embedding.
    occlusion     log p(target) - log p(target with s replaced by `instead`). Given several tokens, their mean effect.
    """
    one_of("how", how, WAYS)
    _check(model, tokens, targets, at)
    tokens, targets = tokens.to(model.device), targets.to(model.device)
    rows = list(range(len(tokens))) if at is None else [at % len(tokens)]

    def measured() -> Tensor:
        with evaluating(model):
            if how == "occlusion":
                others = [instead] if isinstance(instead, int) else list(instead)
                return by_occlusion(model, tokens, targets, rows, others, source)
            return by_gradient(model, tokens, targets, rows, how == "sensitivity", source)

    recorder = watching()
    values = contextvars.Context().run(measured)           # unwatched: the many reads inside are nobody's business
    if recorder is not None:
        recorder.add(model, "influence", values, how=how, positions=rows)
    return values if at is None else values[0]


def ways_of(model: LanguageModel) -> tuple[str, ...]:
    """The ways of asking that a model allows: gradients need embeddings."""
    return WAYS if isinstance(getattr(model, "embedding", None), nn.Embedding) else ("occlusion",)


def influence_rows(
    model: LanguageModel, tokens: Tensor, targets: Tensor, how: str, rows: list[int], source: Source | None = None
) -> Tensor:
    """(rows, T): one row of the influence, or all of them."""
    at = rows[0] if len(rows) == 1 else None
    return influence(model, tokens, targets, how, at, source=source).reshape(len(rows), -1)


def by_gradient(
    model: LanguageModel, tokens: Tensor, targets: Tensor, rows: list[int], norm: bool, source: Source | None
) -> Tensor:
    """The text is read once for each row, many at a time, and each copy asked for one target."""
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, nn.Embedding):
        raise RunError(f"{type(model).__name__} has no embeddings to take a gradient of: use how='occlusion'")

    def score(asked: Tensor) -> Tensor:
        seen = int(asked.max()) + 1                                                   # nothing later can matter
        copies = tokens[:seen].expand(len(asked), -1)
        return score_texts(model, copies, targets[:seen], source).gather(1, asked[:, None])

    parts = [nn.functional.pad(part, (0, len(tokens) - part.shape[1]))
             for part in gradient_amounts(embedding, score, rows, len(tokens), norm, call=-1)]
    earlier = torch.arange(len(tokens), device=tokens.device) <= torch.tensor(rows, device=tokens.device)[:, None]
    return torch.where(earlier, torch.cat(parts), 0.0)


@torch.no_grad()
def by_occlusion(
    model: LanguageModel, tokens: Tensor, targets: Tensor, rows: list[int], others: Sequence[int],
    source: Source | None,
) -> Tensor:
    """The text is read once for each token replaced, many at a time; one read tells of all targets behind it."""
    seen = max(rows) + 1
    asked, read = torch.tensor(rows, device=tokens.device), tokens[:seen]

    def scores(variants: Tensor) -> Tensor:
        return score_texts(model, variants, targets[:seen], source)[:, asked]

    whole = scores(read[None])[0]
    amounts = whole.new_zeros(len(rows), len(targets))
    earlier = torch.arange(seen, device=tokens.device) <= asked[:, None]
    for other in others:
        lost = lost_without(scores, whole, partial(with_blanks, read, blank=other), seen, seen)
        amounts[:, :seen] += torch.where(earlier, lost, 0.0) / len(others)
    return amounts


# ------------------------------------------------------------------------------------- of any model and side


def gradient_amounts(
    embedding: nn.Embedding, score: Callable[[Tensor], Tensor], rows: list[int], length: int, norm: bool, call: int = 0
) -> Iterator[Tensor]:
    """Yield (n, C) for some rows at a time: g . x of every position that the embedding gave, or |g|.

    `score(asked)` reads a copy of the input for each of these rows, `length` tokens each, and returns the
    log-probability of what each row predicts. `call` says which of the embedding's calls gave the positions.
    """
    for some in batches(rows, length):
        asked = torch.tensor(some, device=embedding.weight.device)
        g, x = embedding_gradient(embedding, partial(score, asked), call)
        yield g.norm(dim=-1) if norm else (g * x).sum(-1)


def embedding_gradient(embedding: nn.Embedding, score: Callable[[], Tensor], call: int = 0) -> tuple[Tensor, Tensor]:
    """Return the gradient of the summed scores towards what the embedding gave at one of its calls, and that itself."""
    # cuDNN's recurrent kernels give gradients in train mode only, so others run here.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), leaf_outputs(embedding) as read:
        (g,) = torch.autograd.grad(score().sum(), read[call])
    return g, read[call].detach()


def lost_without(
    scores: Callable[[Tensor], Tensor], whole: Tensor, hidden: Callable[[Sequence[int]], Tensor], places: int,
    length: int,
) -> Tensor:
    """(rows, places): what each row's log-probability, `whole` (rows,), loses as each place is hidden in turn.

    `hidden` returns inputs (n, ...), each with one of these places hidden, and `scores` of inputs (n, rows).
    """
    found = whole.new_zeros(len(whole), places)
    for some in batches(list(range(places)), length):
        new = scores(hidden(some)).T                                                  # (rows, n)
        found[:, some] = torch.where(new == whole[:, None], 0.0, whole[:, None] - new)       # two infinities are equal
    return found


def with_blanks(text: Tensor, places: Sequence[int] | Tensor, blank: int) -> Tensor:
    """(n, T): a copy of the text (T,) for each of the places, with another token there."""
    copies = text.repeat(len(places), 1)
    copies[torch.arange(len(places), device=text.device), torch.as_tensor(places, device=text.device)] = blank
    return copies


def score_texts(model: LanguageModel, tokens: Tensor, targets: Tensor, source: Source | None) -> Tensor:
    """(n, T): the log-probabilities of the targets (T,) in each of the texts (n, T)."""
    state = model.start(len(tokens), None, source) if source is not None else None
    return model.score(tokens.contiguous(), targets.repeat(len(tokens), 1), state)[0]


def batches(items: list[int], length: int) -> list[list[int]]:
    size = max(1, MOST_TOKENS // max(1, length))
    return [items[first:first + size] for first in range(0, len(items), size)]


@contextmanager
def leaf_outputs(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collect a module's outputs as tensors that gradients can be taken of; nothing flows on to its weights."""
    outputs: list[Tensor] = []

    def cut(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        outputs.append(output.detach().requires_grad_())
        return outputs[-1]

    handle = module.register_forward_hook(cut)
    try:
        yield outputs
    finally:
        handle.remove()


@contextmanager
def evaluating(model: LanguageModel | nn.Module) -> Iterator[None]:
    """Eval mode, in which nothing is dropped; what was before is put back."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    before = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, was in zip(modules, before, strict=True):
            module.training = was


def _check(model: LanguageModel, tokens: Tensor, targets: Tensor, at: int | None) -> None:
    if tokens.ndim != 1 or tokens.shape != targets.shape or not len(tokens):
        raise DataError(f"influence is asked of one text: tokens and targets of one length, (T,) each, not "
                        f"{tuple(tokens.shape)} and {tuple(targets.shape)}")
    if at is not None and not -len(tokens) <= at < len(tokens):
        raise DataError(f"at = {at}: the text has positions 0 to {len(tokens) - 1}")
    if model.context is not None and len(tokens) > model.context:
        raise DataError(f"the text has {len(tokens)} tokens, but the model reads at most {model.context}: give fewer")
