"""Checks of exercise 10: the norm, and the order of norms, layers and residuals."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.course.student import Slip, Student, Suspect, close, draw, finite, hold_equal, tensor

B, T, D = 3, 5, 6
X = draw(B, T, D) * 2 + 1
ONES, ZEROS = torch.ones(D), torch.zeros(D)
A, C = draw(D, D, seed=3), draw(D, D, seed=4)


Norm = Callable[[Tensor], Tensor]


def mix(x: Tensor) -> Tensor:
    return torch.tanh(x @ A).cumsum(1)


def feed(x: Tensor) -> Tensor:
    return torch.relu(x @ C) - 0.3


def norm_1(x: Tensor) -> Tensor:
    return x / (1 + x.norm(dim=-1, keepdim=True)) + 0.1


def norm_2(x: Tensor) -> Tensor:
    return x / (2 + x.abs().sum(-1, keepdim=True)) - 0.2


def pre(x: Tensor) -> Tensor:
    y = x + mix(norm_1(x))
    return y + feed(norm_2(y))


def post(x: Tensor) -> Tensor:
    y = norm_1(x + mix(x))
    return norm_2(y + feed(y))


def normed(x: Tensor, dims: tuple[int, ...] = (-1,), eps: float = 1e-5, unbiased: bool = False) -> Tensor:
    mean = x.mean(dims, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(dims, keepdim=True, unbiased=unbiased) + eps)


def ask(student: Student, x: Tensor, gain: Tensor = ONES, bias: Tensor = ZEROS) -> Tensor:
    return tensor(student.layer_norm(x, gain, bias), tuple(x.shape), "layer_norm")


def block(student: Student, name: str, x: Tensor) -> Tensor:
    return tensor(getattr(student, name)(x, mix, feed, norm_1, norm_2), tuple(x.shape), name)


def runs(student: Student) -> None:
    """All three give (B, T, D)."""
    if close(ask(student, X), ask(student, draw(B, T, D, seed=8))):
        raise Slip("ignores_the_input", "layer_norm gives the same for two different inputs")
    block(student, "pre_norm_block", X)
    block(student, "post_norm_block", X)


def own_position(student: Student) -> None:
    """The norm of a position reads that position alone."""
    usual, other = ask(student, X), X.clone()
    other[0, 3] += draw(D, seed=5)
    answer = ask(student, other)
    changed = (answer - usual).abs().amax(-1) > 1e-4
    changed[0, 3] = False
    if not changed.any():
        return
    row, t = changed.nonzero()[0].tolist()
    whole = any(close(usual, normed(X, (1, 2), unbiased=unbiased)) for unbiased in (True, False))
    if whole or (changed[0].any() and changed[1:].any()):
        raise Slip("norm_over_everything", f"position {t} changed when position 3 did: mean and variance are over the "
                                           f"whole {'text' if whole else 'batch'}. Take them over the last dimension "
                                           "alone")
    if row == 0:
        raise Slip("norm_over_time", f"position {t} changed when position 3 did: mean and variance are taken over "
                                     "time. Take them over the last dimension, the D numbers of one position")
    raise Slip("norm_over_batch", f"row {row} changed when row 0 did: mean and variance are taken over the batch, as "
                                  "in batch norm. Take them over the last dimension")


def standard(student: Student) -> None:
    """Each position has mean 0 and variance 1."""
    centred = X - X.mean(-1, keepdim=True)
    hold_equal("layer_norm", ask(student, X), normed(X), [
        ("unbiased_variance", lambda: normed(X, unbiased=True), "the variance is divided by D - 1: divide by D "
            "(unbiased=False, or the mean of squares)"),
        ("divided_by_variance", lambda: centred / (X.var(-1, keepdim=True, unbiased=False) + 1e-5),
         "this is divided by the variance: divide by its root"),
        ("mean_not_taken_away", lambda: X / torch.sqrt(X.var(-1, keepdim=True, unbiased=False) + 1e-5), "the mean is "
            "not taken away"),
        ("rms_norm", lambda: X / torch.sqrt((X ** 2).mean(-1, keepdim=True) + 1e-5), "this is RMS norm: take the mean "
            "away first"),
        ("variance_not_divided", lambda: centred, "the mean is taken away, but nothing is divided")])


def gain_and_bias(student: Student) -> None:
    """Gain multiplies, and then bias is added."""
    gain, bias = draw(D, seed=6), draw(D, seed=7)
    hold_equal("layer_norm", ask(student, X, gain, bias), gain * normed(X) + bias, [
        ("bias_before_gain", lambda: gain * (normed(X) + bias), "bias is added before gain multiplies: gain first"),
        ("gain_and_bias_ignored", lambda: normed(X), "gain and bias are not used")])


def constant(student: Student) -> None:
    """A position of equal numbers gives no nan: eps stands under the root."""
    finite(ask(student, torch.ones(B, T, D)), "layer_norm", "no_eps", "a position of equal numbers gives nan: its "
        "variance is 0. Add eps under the root")
    small = draw(B, T, D, seed=9) * 0.003
    hold_equal("layer_norm", ask(student, small), normed(small), [
        ("eps_outside_the_root",
         lambda: (small - small.mean(-1, keepdim=True)) / (small.std(-1, unbiased=False, keepdim=True) + 1e-5),
         "eps is added to the root: it belongs under it, sqrt(variance + eps)")])


def pre_suspects(x: Tensor) -> list[Suspect]:
    def no_residual(x: Tensor) -> Tensor:
        return feed(norm_2(mix(norm_1(x))))

    def of_normed(x: Tensor) -> Tensor:
        y = norm_1(x) + mix(norm_1(x))
        return norm_2(y) + feed(norm_2(y))

    def first_again(x: Tensor) -> Tensor:
        y = x + mix(norm_1(x))
        return x + feed(norm_2(y))

    def same_norm(x: Tensor) -> Tensor:
        y = x + mix(norm_1(x))
        return y + feed(norm_1(y))

    def swapped(x: Tensor) -> Tensor:
        y = x + mix(norm_2(x))
        return y + feed(norm_1(y))

    def feed_first(x: Tensor) -> Tensor:
        y = x + feed(norm_1(x))
        return y + mix(norm_2(y))

    return [
        ("no_residual", lambda: no_residual(x), "there is no residual: add what each layer gives to what came in, y = "
                                                "x + mix(...)"),
        ("residual_of_normed", lambda: of_normed(x), "the residual carries the normed vector: the norm is for the "
            "layer alone, y = x + mix(norm_1(x)), so that x itself goes on untouched"),
        ("first_input_again", lambda: first_again(x), "the second residual adds x: it adds y, what the first half "
            "gave"),
        ("one_norm_twice", lambda: same_norm(x), "norm_1 is used twice: the second layer has a norm of its own, "
                                                 "norm_2"),
        ("norms_swapped", lambda: swapped(x), SWAPPED),
        ("parallel", lambda: x + mix(norm_1(x)) + feed(norm_2(x)), "both layers read x: the second reads what the "
            "first gave, y"),
        ("feed_first", lambda: feed_first(x), "the feed-forward layer comes first: mix first, then feed"),
        ("pre_and_post_swapped", lambda: post(x), "this is the post-norm block: in pre-norm the norm comes before the "
                                                  "layer"),
    ]


SWAPPED = "norm_1 and norm_2 are swapped: norm_1 belongs to mix, norm_2 to feed"


def post_suspects(x: Tensor) -> list[Suspect]:
    def in_turn(first: Norm, second: Norm) -> Tensor:
        y = first(x + mix(x))
        return second(y + feed(y))

    return [
        ("norms_swapped", lambda: in_turn(norm_2, norm_1), SWAPPED),
        ("one_norm_twice", lambda: in_turn(norm_1, norm_1), "norm_1 is used twice: the second layer has a norm of its "
            "own, norm_2"),
        ("no_residual", lambda: norm_2(feed(norm_1(mix(x)))), "there is no residual: add what each layer gives to "
            "what came in, norm_1(x + mix(x))"),
        ("pre_and_post_swapped", lambda: pre(x), "this is the pre-norm block: in post-norm the norm comes after the "
                                                 "residual is added"),
        ("norm_before_adding", lambda: (lambda y: y + norm_2(feed(y)))(x + norm_1(mix(x))), "the norm is of the "
            "layer's result alone: add first, then norm"),
        ("first_input_again", lambda: norm_2(x + feed(norm_1(x + mix(x)))), "the second residual adds x: it adds y"),
    ]


def pre_norm(student: Student) -> None:
    """The pre-norm block is y = x + mix(norm_1(x)), z = y + feed(norm_2(y))."""
    hold_equal("pre_norm_block", block(student, "pre_norm_block", X), pre(X), pre_suspects(X))


def post_norm(student: Student) -> None:
    """The post-norm block is y = norm_1(x + mix(x)), z = norm_2(y + feed(y))."""
    hold_equal("post_norm_block", block(student, "post_norm_block", X), post(X), post_suspects(X))


CHECKS = {"runs": runs, "own position": own_position, "standard": standard, "gain and bias": gain_and_bias,
          "constant": constant, "pre-norm": pre_norm, "post-norm": post_norm}
