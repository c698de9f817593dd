"""The loss of a large vocabulary without its logits: gradients are computed in the forward pass, chunk by chunk.

    loss = - sum_n share[n] log softmax(W h[n])[target[n]]

Logits of all positions would be the largest tensor of a training step by far. What is left of a chunk of them is its
part of the loss, and the gradients of h and W, which are small; so that no logit is kept, and none is worked out twice.
With smoothing e a target is 1 - e of itself and e of the whole vocabulary; with a softcap c the logits are
c tanh(W h / c).
N positions · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.kernels.cpu import onednn
from regard.kernels.cuda import products
from regard.kernels.log_softmax import largest_logits, score_targets
from regard.kernels.precision import product_dtype

FEW_LOGITS = 2**20             # of a training step on a CPU: more of them no longer stay in its cache
RARE = 1e-30                   # a chance below this has lost digits, in float32
CPU_BYTES = 2**25              # of logits held at once: what a CPU's cache holds
GPU_BYTES = (2**30, 2**31)     # on a GPU a 64th of its memory, in these bounds; the least, if it is to be sparing
EVEN, TILE = 2**12, 2**7       # rows: products want whole tiles, and batches, mostly powers of two, come out even


def cross_entropy(
    h: Tensor, weight: Tensor, targets: Tensor, shares: Tensor, smoothing: float = 0.0, softcap: float = 0.0,
    sparing: bool = False, bias: Tensor | None = None,
) -> Tensor:
    """The loss of positions h (N, D), targets and shares (N,): from all logits where they are few, else without.

    With a bias it is the one of `score_targets`, which holds a chunk of logits at a time, and computes it twice."""
    if bias is not None or keeps_logits(len(h), len(weight), h.is_cuda):
        return -(score_targets(h, weight, targets, smoothing, softcap, bias) * shares).sum()
    return linear_cross_entropy(h, weight, targets, shares, smoothing, softcap, sparing)


def keeps_logits(positions: int, vocab: int, gpu: bool) -> bool:
    """True if the loss of so many positions is computed from all their logits, as they are few enough."""
    return positions * vocab <= (largest_logits(True) if gpu else FEW_LOGITS)


def linear_cross_entropy(
    h: Tensor, weight: Tensor, targets: Tensor, shares: Tensor, smoothing: float = 0.0, softcap: float = 0.0,
    sparing: bool = False,
) -> Tensor:
    """The loss of positions h (N, D), targets and shares (N,). Under autocast the products are in its precision.
    Sparing: of memory, at some cost in time."""
    h = h.to(product_dtype(h))
    with torch.autocast(h.device.type, enabled=False):
        loss, *_ = _loss_and_gradients(h, weight, targets, shares, smoothing, softcap, sparing)
    return loss


def by_definition(
    h: Tensor, weight: Tensor, targets: Tensor, shares: Tensor, smoothing: float = 0.0, softcap: float = 0.0
) -> Tensor:
    """The definition, gradients included."""
    logits = h @ weight.T
    logits = softcap * torch.tanh(logits / softcap) if softcap else logits
    log_probs = logits.log_softmax(-1)
    wanted = log_probs.gather(1, targets[:, None])[:, 0]
    return -(shares * ((1 - smoothing) * wanted + smoothing * log_probs.mean(-1))).sum()


# ------------------------------------------------------------------------------------------- as one operation


@torch.library.custom_op("regard::linear_cross_entropy", mutates_args=())
def _loss_and_gradients(
    h: Tensor, weight: Tensor, targets: Tensor, shares: Tensor, smoothing: float, softcap: float, sparing: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss, and its gradients towards h, but for a scale of each row, and W: as one operation, so that a compiler
    leaves it as it is."""
    kept = torch.promote_types(h.dtype, torch.float32)
    w = weight.to(h.dtype)
    loss, dh, dw = h.new_zeros((), dtype=kept), torch.empty_like(h), torch.empty_like(weight, dtype=kept)
    scales = h.new_empty(len(h), dtype=kept)
    if not len(h):
        return loss, dh, scales, dw.zero_().to(weight.dtype)
    rows = rows_at_once(len(h), len(w) * w.element_size(), room_on(h.device, sparing), gpu=h.is_cuda)
    by_onednn = onednn.better(h, w)
    room = h.new_empty(0 if by_onednn else min(rows, len(h)), len(w))      # for all chunks: memory never used is slow
    for first in range(0, len(h), rows):
        part = slice(first, first + rows)
        logits = onednn.linear(h[part], w) if by_onednn else products.into(room[:len(h[part])], h[part], w.T)
        again = partial(_logits_of, h[part], w)
        lost, scales[part], scaled = softmax_gradient(
            logits, targets[part], shares[part], h[part], smoothing, softcap, again)
        loss += lost
        if by_onednn:                                          # logits are gradients by now, but for their scales
            dh[part] = onednn.linear(logits, w.T)
        else:
            products.into(dh[part], logits, w)
        add_product(dw, logits.T, scaled, first=not first)
    return loss, dh, scales, dw.to(weight.dtype)


def _logits_of(h: Tensor, w: Tensor, rows: Tensor) -> Tensor:
    return h[rows] @ w.T


def add_product(total: Tensor, a: Tensor, b: Tensor, *, first: bool) -> None:
    """total += a b, in place; before the first there is nothing in it. A GPU adds a product of halves up in the total's
    own float32, by one kernel."""
    if total.dtype == a.dtype:
        torch.addmm(total, a, b, beta=0 if first else 1, out=total)
        return
    if first:
        total.zero_()
    if total.is_cuda and a.dtype in (torch.bfloat16, torch.float16):
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b


@_loss_and_gradients.register_fake
def _(
    h: Tensor, weight: Tensor, targets: Tensor, shares: Tensor, smoothing: float, softcap: float, sparing: bool
) -> Any:
    kept = torch.promote_types(h.dtype, torch.float32)
    return h.new_empty((), dtype=kept), torch.empty_like(h), h.new_empty(len(h), dtype=kept), torch.empty_like(weight)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    _, dh, scales, dw = output
    ctx.save_for_backward(dh, scales, dw)
    ctx.mark_non_differentiable(dh, scales, dw)


def _backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    dh, scales, dw = ctx.saved_tensors
    usual = type(gradient) is Tensor and gradient.device.type == "cpu" and gradient.item() == 1
    dw = dw if usual else (gradient * dw).to(dw.dtype)         # a pass over all of W less
    return (gradient * scales[:, None] * dh).to(dh.dtype), dw, None, None, None, None, None


_loss_and_gradients.register_autograd(_backward, setup_context=_keep)


def room_on(device: torch.device, sparing: bool) -> int:
    """Bytes of logits held at once."""
    if device.type != "cuda":
        return CPU_BYTES
    least, most = GPU_BYTES
    memory = torch.cuda.get_device_properties(device).total_memory
    return least if sparing else min(most, max(least, memory // 64))


def rows_at_once(positions: int, bytes_each: int, room: int, *, gpu: bool) -> int:
    """Rows of a chunk: as many as there is room for, all chunks about alike."""
    most = max(1, room // bytes_each)
    if gpu and most > EVEN:
        most -= most % EVEN
    chunks = -(-positions // most)
    rows = max(1, -(-positions // max(1, chunks)))
    return -(-rows // TILE) * TILE if gpu else rows


# -------------------------------------------------------------------------------------- of a chunk of logits


def softmax_gradient(
    logits: Tensor, targets: Tensor, shares: Tensor, h: Tensor, smoothing: float, softcap: float,
    again: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of a chunk, scales (n,), and h (n, D) times these. Its logits (n, V) become the gradients of the loss
    towards them, in place, but for the scale of each row, which costs less on D numbers than on V. `again` gives the
    logits of some rows once more."""
    if kernels.path(logits) == "triton" and logits.dtype != torch.float64:
        from regard.kernels.cuda.cross_entropy import softmax_gradient as in_triton

        return in_triton(logits, targets, shares, h, smoothing, softcap)
    loss = softmax_gradient_torch(logits, targets, shares, smoothing, softcap, again)
    return loss, shares, (h * shares[:, None]).to(h.dtype)


def softmax_gradient_torch(
    logits: Tensor, targets: Tensor, shares: Tensor, smoothing: float, softcap: float,
    again: Callable[[Tensor], Tensor],
) -> Tensor:
    """dloss/dz = share (softmax(z) - (1 - e) [target] - e / V), and 1 - (z / c)^2 of it before the cap; the share is
    the row's scale."""
    in_place = not softcap and logits.dtype in (torch.float32, torch.float64)
    z = logits if in_place else logits.to(torch.promote_types(logits.dtype, torch.float32))
    z = softcap * torch.tanh(z / softcap) if softcap else z
    wanted = z.gather(1, targets[:, None])[:, 0]
    mean = z.mean(-1) if smoothing else 0.0
    slope = 1 - (z / softcap).square() if softcap else None
    if in_place:
        total = softmax_in_place(z, wanted, targets, again)
    else:
        total = z.logsumexp(-1)
        z.sub_(total[:, None]).exp_()
    loss = (shares * (total - (1 - smoothing) * wanted - smoothing * mean)).sum()
    z.scatter_add_(1, targets[:, None], z.new_full((len(z), 1), smoothing - 1))
    if smoothing:
        z -= smoothing / z.shape[1]
    if not in_place:
        logits.copy_(z if slope is None else z * slope)
    return loss


def softmax_in_place(z: Tensor, wanted: Tensor, targets: Tensor, again: Callable[[Tensor], Tensor]) -> Tensor:
    """log sum exp z (n,), while z becomes its softmax, by one exponential: it is z_t - log softmax(z)_t for any t.

    The target will do, unless it is so unlikely that its probability is zero: `again` recomputes such rows' logits."""
    torch.softmax(z, -1, out=z)
    chance = z.gather(1, targets[:, None])[:, 0]
    total, rare = wanted - chance.log(), (chance < RARE).nonzero()[:, 0]
    if len(rare):
        total[rare] = again(rare).logsumexp(-1)
    return total
