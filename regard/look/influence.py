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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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


def by_gradient(
    model: LanguageModel, tokens: Tensor, targets: Tensor, rows: list[int], norm: bool, source: Source | None
) -> Tensor:
    """The text is read once for each row, many at a time, and each copy asked for one target."""
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, nn.Embedding):
        raise RunError(f"{type(model).__name__} has no embeddings to take a gradient of: use how='occlusion'")
    amounts = torch.zeros(len(rows), len(tokens), device=tokens.device, dtype=embedding.weight.dtype)
    for some in _in_batches(len(rows), len(tokens)):
        asked = torch.tensor([rows[each] for each in some], device=tokens.device)
        seen = int(asked.max()) + 1                                                   # nothing later can matter
        # cuDNN's recurrent kernels give gradients in train mode only, so others run here.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), leaf_outputs(embedding) as read:
            scores = _score(model, tokens[:seen].expand(len(some), -1), targets[:seen].expand(len(some), -1), source)
            wanted = scores.gather(1, asked[:, None]).sum()
            (g,) = torch.autograd.grad(wanted, read[-1])                              # (rows, seen, D)
        values = g.norm(dim=-1) if norm else (g * read[-1].detach()).sum(-1)
        earlier = torch.arange(seen, device=tokens.device) <= asked[:, None]
        amounts[some.start:some.stop, :seen] = torch.where(earlier, values, 0.0)
    return amounts


def by_occlusion(
    model: LanguageModel, tokens: Tensor, targets: Tensor, rows: list[int], others: Sequence[int],
    source: Source | None,
) -> Tensor:
    """The text is read once for each token replaced, many at a time; one read tells of all targets behind it."""
    seen = max(rows) + 1
    tokens, wanted = tokens[:seen], targets[:seen]
    asked = torch.tensor(rows, device=tokens.device)
    with torch.no_grad():
        whole = _score(model, tokens[None], wanted[None], source)[0, asked]           # (rows,)
        amounts = whole.new_zeros(len(rows), len(targets))
        for some in _in_batches(seen, seen):
            places = torch.arange(some.start, some.stop, device=tokens.device)
            variants = tokens.repeat(len(some), 1)
            for other in others:
                variants[torch.arange(len(some), device=tokens.device), places] = other
                scores = _score(model, variants, wanted.expand(len(some), -1), source)[:, asked].T     # (rows, some)
                lost = torch.where(scores == whole[:, None], 0.0, whole[:, None] - scores)   # two infinities are equal
                amounts[:, some.start:some.stop] += torch.where(places <= asked[:, None], lost, 0.0) / len(others)
    return amounts


# ------------------------------------------------------------------------------------------------ parts


def _score(model: LanguageModel, tokens: Tensor, targets: Tensor, source: Source | None) -> Tensor:
    state = model.start(len(tokens), None, source) if source is not None else None
    return model.score(tokens.contiguous(), targets.contiguous(), state)[0]


def _in_batches(count: int, length: int) -> Iterator[range]:
    size = max(1, MOST_TOKENS // length)
    for first in range(0, count, size):
        yield range(first, min(first + size, count))


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
