"""Checks of exercise 6: four scores e(q, k)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.course.student import Slip, Student, Suspect, close, draw, hold_equal, tensor

B, S, D, H = 2, 5, 4, 3
Q, K = draw(B, D), draw(B, S, D, seed=1)
W, W_Q, W_K = draw(D, D, seed=2), draw(H, D, seed=3), draw(H, D, seed=4)
HEAD, PLACES = draw(H, seed=5), draw(S, D, seed=6)

RIGHT: dict[str, Callable[..., Tensor]] = {
    "dot": lambda q, K: torch.einsum("bd,bsd->bs", q, K),
    "bilinear": lambda q, K, W: torch.einsum("bd,de,bse->bs", q, W, K),
    "additive": lambda q, K, W_q, W_k, v: torch.tanh((q @ W_q.T)[:, None] + K @ W_k.T) @ v,
    "location": lambda q, W: q @ W.T,
}
ARGUMENTS = {"dot": (Q, K), "bilinear": (Q, K, W), "additive": (Q, K, W_Q, W_K, HEAD), "location": (Q, PLACES)}


def ask(student: Student, name: str, *args: Tensor) -> Tensor:
    return tensor(getattr(student, name)(*args), (B, S), name)


def runs(student: Student) -> None:
    """Each gives a number for each key, and another for another query."""
    for name, (q, *others) in ARGUMENTS.items():
        if close(ask(student, name, q, *others), ask(student, name, draw(B, D, seed=9), *others)):
            raise Slip("ignores_the_query", f"{name} gives the same for two different queries: q is not used")


def before_the_softmax(student: Student) -> None:
    """A score is the number before the softmax: any real number."""
    for name, args in ARGUMENTS.items():
        answer, right = ask(student, name, *args), RIGHT[name](*args)
        if close(answer, right.softmax(-1)) or (answer.min() >= 0 and close(answer.sum(-1), torch.ones(B))):
            raise Slip("already_softmax", f"the scores of {name} are all above 0 and add up to 1: these are weights. "
                                          "A score is the number before the softmax")


def held(student: Student, name: str, suspects: list[Suspect]) -> None:
    hold_equal(name, ask(student, name, *ARGUMENTS[name]), RIGHT[name](*ARGUMENTS[name]), suspects)


def dot(student: Student) -> None:
    """The dot score is q · k."""
    right = RIGHT["dot"](Q, K)
    held(student, "dot", [
        ("scaled", lambda: right / math.sqrt(D), "the dot score is divided by sqrt(D): that comes later, in attention"),
        ("cosine", lambda: right / Q.norm(dim=-1, keepdim=True) / K.norm(dim=-1), "this is the cosine: the lengths of "
            "the vectors are divided out, and should not be"),
        ("distance", lambda: -(Q[:, None] - K).norm(dim=-1), "this is a distance, not a product")])


def bilinear(student: Student) -> None:
    """The bilinear score is q^T W k."""
    held(student, "bilinear", [
        ("bilinear_transposed", lambda: torch.einsum("bse,ed,bd->bs", K, W, Q), "W is the wrong way round: this is "
            "k^T W q. In q^T W k the query stands at the rows of W: (q @ W) · k"),
        ("matrix_not_used", lambda: RIGHT["dot"](Q, K), "W is not used: this is the dot score")])


def additive(student: Student) -> None:
    """The additive score is v · tanh(W_q q + W_k k)."""
    query, keys = (Q @ W_Q.T)[:, None], K @ W_K.T
    held(student, "additive", [
        ("additive_without_tanh", lambda: (query + keys) @ HEAD, "the tanh is missing: without it the query adds the "
            "same number to every key, which the softmax takes out again"),
        ("tanh_outside", lambda: torch.tanh((query + keys) @ HEAD), "tanh is taken at the end: it belongs inside, "
            "before v"),
        ("tanh_of_parts", lambda: (torch.tanh(query) + torch.tanh(keys)) @ HEAD, "tanh is taken of each part: add "
            "first, then tanh"),
        ("matrices_swapped", lambda: torch.tanh((Q @ W_K.T)[:, None] + K @ W_Q.T) @ HEAD, "W_q and W_k are exchanged: "
            "W_q is the query's"),
        ("other_nonlinearity", lambda: torch.relu(query + keys) @ HEAD, "this is ReLU; the exercise asks for tanh")])


def location(student: Student) -> None:
    """The location score is a row of W times q; it reads no key."""
    held(student, "location", [])


def other_widths(student: Student) -> None:
    """Queries and keys may differ in width."""
    q, K, W, W_q = draw(B, 3, seed=11), draw(B, S, 6, seed=12), draw(3, 6, seed=13), draw(H, 3, seed=14)
    W_k, places = draw(H, 6, seed=15), draw(S, 3, seed=16)
    for name, args in (("bilinear", (q, K, W)), ("additive", (q, K, W_q, W_k, HEAD)), ("location", (q, places))):
        hold_equal(name, ask(student, name, *args), RIGHT[name](*args))


CHECKS = {"runs": runs, "before the "
                        "softmax": before_the_softmax, "dot": dot, "bilinear": bilinear, "additive": additive,
          "location": location, "other widths": other_widths}
