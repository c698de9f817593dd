"""Checks of exercise 8: causality, the cut into heads, the scale of a head."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.course.student import (
    Slip,
    Student,
    Suspect,
    close,
    draw,
    finite,
    hold_equal,
    name_the_mistake,
    tensor,
    who_reads_whom,
)
from regard.layers.attend import CAUSAL, attend

B, T, D = 2, 6, 8
W_Q, W_K, W_V, W_O = (draw(D, D, seed=seed) * 0.7 for seed in (1, 2, 3, 4))
X = draw(B, T, D)


def right(x: Tensor, heads: int) -> Tensor:
    """Our own `attend`."""
    q, k, v = ((x @ W).unflatten(2, (heads, -1)).transpose(1, 2) for W in (W_Q, W_K, W_V))
    return attend(q, k, v, mask=CAUSAL).transpose(1, 2).flatten(2) @ W_O


def variant(
    x: Tensor, heads: int, *, scale: float | None = None, cut: bool = True, joined: bool = True, swapped: bool = False,
    out: bool = True, strided: bool = False, axis: int = -1, mats: Sequence[Tensor] = (W_Q, W_K, W_V, W_O),
) -> Tensor:
    """Causal self-attention with a mistake."""
    batch, time, width = x.shape

    def pieces(y: Tensor) -> Tensor:
        if not cut:
            return y.reshape(batch, heads, time, width // heads)
        if strided:
            return y.unflatten(2, (-1, heads)).permute(0, 3, 1, 2)
        return y.unflatten(2, (heads, -1)).transpose(1, 2)

    q, k, v = (pieces(x @ W) for W in mats[:3])
    if swapped:
        q, k = k, q
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(width // heads))
    later = torch.ones(time, time, dtype=torch.bool).triu(1)
    read = scores.masked_fill(later, -math.inf).softmax(axis) @ v
    read = read.transpose(1, 2).flatten(2) if cut and joined else read.reshape(batch, time, width)
    return read @ mats[3] if out else read


def suspects(x: Tensor, heads: int) -> list[Suspect]:
    piece = D // heads
    listed: list[Suspect] = [
        ("no_scale", lambda: variant(x, heads, scale=1.0), f"the scores are not scaled: divide them by sqrt({piece}), "
            "the root of a head's width"),
        ("output_matrix_missing", lambda: variant(x, heads, out=False), "W_o is not used: the heads' results are "
            "joined, and then multiplied by W_o"),
        ("query_and_key_swapped", lambda: variant(x, heads, swapped=True), "W_q and W_k are exchanged: position t "
            "asks with its query, and is answer by its key"),
        *[("matrices_transposed", lambda mats=mats: variant(x, heads, mats=mats), "the matrices are the wrong way "
            "round: Q = x W_q") for mats in ((W_Q.T, W_K.T, W_V.T, W_O.T), (W_Q.T, W_K.T, W_V.T, W_O))],
        *[("matrix_not_used", lambda mats=mats: variant(x, heads, mats=(*mats, W_O)), f"{name} is not used: queries, "
            "keys and values have a matrix each") for name, mats in (
            ("W_v", (W_Q, W_K, W_K)), ("W_v", (W_Q, W_K, W_Q)), ("W_k", (W_Q, W_Q, W_V)), ("W_q", (W_K, W_K, W_V)))],
        ("softmax_over_queries", lambda: variant(x, heads, axis=-2), "your softmax goes over the queries, so that a "
            "word's weight depends on words after it: take it over the keys, the last dimension"),
        ("residual_added", lambda: right(x, heads) + x, "x is added to the result: the residual connection belongs to "
            "the block, not to this layer"),
        ("wrong_scale", lambda: variant(x, heads, scale=1 / piece), f"the scores are divided by {piece}: divide by its "
            "root"),
    ]
    if heads > 1:
        listed += [
            ("scale_of_whole_width", lambda: variant(x, heads, scale=1 / math.sqrt(D)), "the scores are divided by "
                f"sqrt({D}), the root of the whole width: a head has D / heads = {piece} numbers, so divide by "
                f"sqrt({piece})"),
            ("heads_cut_across_time", lambda: variant(x, heads, cut=False), CUT),
            ("heads_joined_across_time", lambda: variant(x, heads, joined=False), "the heads are joined without a "
                "transpose: (B, heads, T, D / heads) must become (B, T, heads, D / heads) before the reshape"),
            ("heads_interleaved", lambda: variant(x, heads, strided=True), "a head should have D / heads neighbouring "
                "numbers, not every so many-th"),
            ("heads_ignored", lambda: variant(x, 1), "this is attention with one head: `heads` is not used"),
        ]
    return listed


CUT = ("the heads are cut across time: (B, T, D) was reshaped to (B, heads, T, D / heads) in one go, so that a head "
       "gets pieces of other positions. Reshape to (B, T, heads, D / heads), then transpose")


def ask(student: Student, x: Tensor, heads: int) -> Tensor:
    return tensor(student.self_attention(x, W_Q, W_K, W_V, W_O, heads), tuple(x.shape), "self_attention")


def runs(student: Student) -> None:
    """It gives (B, T, D), and other numbers for another text."""
    if close(ask(student, X, 1), ask(student, draw(B, T, D, seed=9), 1)):
        raise Slip("ignores_the_text", "two different texts give the same: x is not used")


def causality(student: Student) -> None:
    """Nothing sees the future: changing word j changes no position before j."""
    first = ask(student, X, 1)
    if not first[:, 0].isfinite().all():
        raise Slip("mask_hides_itself", "position 0 is nan: it may not even read itself. A word reads itself and "
                                        "every earlier word: keep the diagonal of the mask")
    reads = who_reads_whom(lambda x: finite(ask(student, x, 1), "self_attention"), X)
    later, earlier = reads.triu(1), reads.tril(-1)
    if later.any():
        past = bool(earlier.any())
        t, j = (3, 5) if later[3, 5] else later.nonzero()[0].tolist()
        if past and not reads.triu(2).any():
            raise Slip("mask_one_too_late", f"position {t} changed when word {j} did: your mask lets in one word too "
                                            "many. Hide from the next word on: triu(diagonal=1)")
        name_the_mistake(ask(student, X, 1), suspects(X, 1))
        if past:
            raise Slip("no_mask", f"position {t} changed when word {j} did: there is no mask, each word reads the "
                                  "whole text. Set the scores of later words to minus infinity")
        raise Slip("mask_upside_down", f"position {t} changed when word {j} did: your mask is upside down, each word "
                                       "reads what comes after it and not what came before")
    if not earlier.any():
        raise Slip("reads_only_itself", "no position changes when an earlier word does: each word reads itself alone")


def one_head(student: Student) -> None:
    """With one head, the numbers are those of the formula."""
    hold_equal("self_attention", ask(student, X, 1), right(X, 1), suspects(X, 1))


def heads_are_causal(student: Student) -> None:
    """With several heads nothing sees the future either."""
    reads = who_reads_whom(lambda x: finite(ask(student, x, 2), "self_attention"), X)
    if reads.triu(1).any():
        t, j = reads.triu(1).nonzero()[0].tolist()
        causality(student)                                                # with one head it may be the mask
        name_the_mistake(ask(student, X, 2), suspects(X, 2))
        raise Slip("heads_cut_across_time", f"with 2 heads position {t} changed when word {j} did, with 1 head it did "
                                            f"not: {CUT}")


def several_heads(student: Student) -> None:
    """With two and four heads, the numbers are those of the formula."""
    for heads in (2, 4):
        hold_equal("self_attention", ask(student, X, heads), right(X, heads), suspects(X, heads))


def rows(student: Student) -> None:
    """No row reads another."""
    other = X.clone()
    other[1] += 1
    if not close(ask(student, X, 2)[0], ask(student, other, 2)[0]):
        raise Slip("rows_mixed", "row 0 changed when row 1 did: a reshape mixes the batch with the heads")


CHECKS = {"runs": runs, "causality": causality, "one head": one_head, "heads are causal": heads_are_causal,
          "several heads": several_heads, "rows": rows}
