"""Checks of exercise 7: the softmax, the scale and the mask of attention."""

from __future__ import annotations

import math

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
)
from regard.layers.attend import attend

B, T, S, D, E = 2, 4, 6, 5, 5
Q, K, V = draw(B, T, D) * 2, draw(B, S, D, seed=1), draw(B, S, E, seed=2)
MASK = torch.tensor(
    [[1, 0, 0, 1, 1, 0], [1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0]]).bool().expand(B, T, S)


def right(q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Our own `attend`, with one head."""
    return attend(q[:, None], K[:, None], V[:, None], mask=None if mask is None else mask[:, None])[:, 0]


def variant(
    q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, *, scale: float = 1 / math.sqrt(D), axis: int = -1,
    hide: float = -math.inf, after: bool = False, inverted: bool = False, times: bool = False,
) -> Tensor:
    """Attention with a mistake."""
    scores = q @ K.transpose(1, 2) * scale
    if mask is not None and inverted:
        mask = ~mask
    if mask is not None and times:
        scores = scores * mask
    elif mask is not None and not after:
        scores = scores.masked_fill(~mask, hide)
    weights = scores.softmax(axis).nan_to_num()
    return (weights * mask if mask is not None and after else weights) @ V


def suspects(q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> list[Suspect]:
    """The mistakes that give other numbers, with what they would return here."""
    by_axis = "your softmax goes over the {}, and the weights of a query do not add up to 1: take it over the keys"
    by_scale = "the scores {}: divide them by sqrt(D), or the softmax becomes {} as the vectors grow"
    scores = q @ K.transpose(1, 2) / math.sqrt(D)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    listed: list[Suspect] = [
        *[("no_softmax", lambda each=each: each.nan_to_num(neginf=0.0) @ V, "the weights of a query do not add up to "
            "1: take the softmax of the scores") for each in (scores, scores.sigmoid(), scores.exp())],
        ("wrong_scale", lambda: variant(q, K, V, mask, scale=1 / math.sqrt(S)), "the scores are divided by the root "
            f"of the number of keys: divide by sqrt({D}), the root of the width of a query"),
        ("softmax_over_queries", lambda: variant(q, K, V, mask, axis=1), by_axis.format("queries")),
        ("softmax_over_batch", lambda: variant(q, K, V, mask, axis=0), by_axis.format("batch")),
        ("no_scale", lambda: variant(q, K, V, mask, scale=1.0), by_scale.format("are not scaled", "sharper")),
        ("wrong_scale", lambda: variant(q, K, V, mask, scale=1 / D), by_scale.format("are divided by D, not by its "
            "root", "flatter")),
        ("wrong_scale", lambda: variant(q, K, V, mask, scale=math.sqrt(D)), by_scale.format("are multiplied by "
            "sqrt(D)", "sharper")),
        ("values_are_keys", lambda: variant(q, K, K, mask), "the keys are averaged: the weights come from the keys, "
            "the average is over the values"),
        ("keys_are_values", lambda: variant(q, V, V, mask), "the weights come from the values: match the query with "
            "the keys"),
    ]
    if mask is not None:
        listed += [
            ("mask_inverted", lambda: variant(q, K, V, mask, inverted=True), "your mask is upside down: each query "
                "reads what it may not, and not what it may. True means: may be read"),
            ("mask_after_softmax", lambda: variant(q, K, V, mask, after=True), "the mask comes after the softmax: the "
                "weights left do not add up to 1. Set hidden scores to minus infinity before it"),
            ("mask_times_scores", lambda: variant(q, K, V, mask, times=True), "a hidden score becomes 0, which is a "
                "score like another (e^0 = 1): set it to minus infinity"),
            ("mask_ignored", lambda: variant(q, K, V, None), "the mask is not used"),
        ]
    return listed


def ask(student: Student, q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    answer = student.attention(q, K, V) if mask is None else student.attention(q, K, V, mask)
    return tensor(answer, (q.shape[0], q.shape[1], V.shape[2]), "attention")


def runs(student: Student) -> None:
    """It gives (B, T, E), and other numbers for other queries."""
    if close(ask(student, Q, K, V), ask(student, draw(B, T, D, seed=5), K, V)):
        raise Slip("ignores_the_queries", "two different queries read the same: q is not used")


def weights(student: Student) -> None:
    """The weights of a query add up to 1: where all values are equal, that value is read."""
    ones = torch.ones(B, S, E)
    answer = finite(ask(student, Q, K, ones), "attention")
    hold_equal("attention", answer, torch.ones(B, T, E), suspects(Q, K, ones, None))


def any_order(student: Student) -> None:
    """Keys and values may come in any order, if it is the same order."""
    turned = torch.tensor([3, 0, 5, 1, 4, 2])
    answer = ask(student, Q, K[:, turned], V[:, turned])
    if not close(answer, ask(student, Q, K, V)):
        name_the_mistake(ask(student, Q, K, V), suspects(Q, K, V, None))
        raise Slip("order_matters", "what is read changes with the order of the keys: attention knows no order")


def definition(student: Student) -> None:
    """Without a mask, the numbers are those of the formula."""
    hold_equal("attention", ask(student, Q, K, V), right(Q, K, V), suspects(Q, K, V, None))


def hidden(student: Student) -> None:
    """A key that may not be read changes nothing."""
    usual, other_K, other_V = ask(student, Q, K, V, MASK), K.clone(), V.clone()
    other_K[:, 2] = draw(B, D, seed=7) * 9                              # hidden from queries 0, 1 and 3
    other_V[:, 2] = 9.0
    answer = ask(student, Q, other_K, other_V, MASK)
    if not close(answer[:, [0, 1, 3]], usual[:, [0, 1, 3]]):
        name_the_mistake(usual, suspects(Q, K, V, MASK))
        raise Slip("mask_leaks", "query 0 changed when key 2 did, which it may not read: set hidden scores to minus "
                                 "infinity, not to a finite number, before the softmax")


def masked(student: Student) -> None:
    """With a mask, the numbers are those of the formula: the other weights still add up to 1."""
    hold_equal("attention", ask(student, Q, K, V, MASK), right(Q, K, V, MASK), suspects(Q, K, V, MASK))


def nothing_to_read(student: Student) -> None:
    """A query that may read nothing gets zeros, and the others do not change."""
    mask = MASK.clone()
    mask[:, 1] = False
    answer = ask(student, Q, K, V, mask)
    if not answer[:, 1].isfinite().all():
        raise Slip("empty_row_nan", "a query that may read nothing gets nan: the softmax of minus infinities only. "
                                    "Put zeros there, with torch.nan_to_num or torch.where")
    if answer[:, 1].abs().max() > 1e-5:
        raise Slip("empty_row_average", "a query that may read nothing reads the average of everything: its row "
                                        "should be zeros")
    others = [0, 2, 3]
    if not close(answer[:, others], ask(student, Q, K, V, MASK)[:, others]):
        raise Slip("rows_mixed", "query 0 changed when the mask of query 1 did")


CHECKS = {"runs": runs, "weights": weights, "definition": definition, "any order": any_order, "masked": masked,
          "hidden": hidden, "nothing to read": nothing_to_read}
