"""Checks of exercise 4: the cell, the carried state, and where gradients flow."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.course.student import Slip, Student, close, draw, hold_equal, tensor

B, T, D, H, SIZE = 2, 8, 3, 4, 3
W_H, W_X = draw(H, H, seed=1) * 0.6, draw(H, D, seed=2)


def right_step(h: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(h @ W_H.T + x @ W_X.T)


def unrolled(
    x: Tensor, h: Tensor, step: Callable[[Tensor, Tensor], Tensor] = right_step, reset: Tensor | None = None,
) -> Tensor:
    states = []
    for t in range(x.shape[1]):
        if reset is not None and t and t % SIZE == 0:
            h = reset
        h = step(h, x[:, t])
        states.append(h)
    return torch.stack(states, 1)


def ask_step(student: Student, h: Tensor, x: Tensor) -> Tensor:
    return tensor(student.rnn_step(h, x, W_H, W_X), (h.shape[0], H), "rnn_step")


def ask(student: Student, x: Tensor, h: Tensor, size: int = SIZE) -> Tensor:
    return tensor(student.read_in_stretches(x, h, W_H, W_X, size), (x.shape[0], x.shape[1], H), "read_in_stretches")


def runs(student: Student) -> None:
    """Both give the right shapes, and other numbers for another text."""
    if close(ask_step(student, draw(B, H), draw(B, D)), ask_step(student, draw(B, H), draw(B, D, seed=5))):
        raise Slip("ignores_the_word", "rnn_step gives the same for two different words: x is not used")
    ask(student, draw(B, T, D), draw(B, H))


def cell(student: Student) -> None:
    """One step is tanh(W_h h + W_x x)."""
    h, x = draw(B, H, seed=3), draw(B, D, seed=4) * 2
    linear = h @ W_H.T + x @ W_X.T
    hold_equal("rnn_step", ask_step(student, h, x), torch.tanh(linear), [
        ("no_nonlinearity", lambda: linear, "the tanh is missing: a step without it is linear, and so are a thousand "
                                            "of them"),
        ("W_h_transposed", lambda: torch.tanh(h @ W_H + x @ W_X.T), "W_h is applied the wrong way round: W_h h is h @ "
            "W_h.T when the rows of h are vectors"),
        ("other_nonlinearity", lambda: torch.relu(linear), "this is ReLU; the exercise asks for tanh"),
        ("other_nonlinearity", lambda: torch.sigmoid(linear), "this is the logistic function; the exercise asks for "
            "tanh"),
        ("state_not_used", lambda: torch.tanh(x @ W_X.T), "the state before is not used: W_h h is missing"),
        ("other_nonlinearity", lambda: torch.tanh(h @ W_H.T) + torch.tanh(x @ W_X.T), "tanh is taken of each part: "
            "add first, then tanh")])


def carried(student: Student) -> None:
    """Read in stretches, the numbers are those of one long read: the state is carried."""
    x, h = draw(B, T, D, seed=6), draw(B, H, seed=7)
    zeros = torch.zeros_like(h)
    carried_on = unrolled(x, h, lambda h, x: ask_step(student, h, x))
    answer = ask(student, x, h)
    if close(answer, carried_on):
        return
    reset = ("state_reset", "each stretch begins with a fresh state: position 3 no longer knows of word 2. Carry the "
                            "state across, and detach it: h = h.detach()")
    hold_equal("read_in_stretches", answer, unrolled(x, h), [
        (reset[0], lambda: unrolled(x, h, lambda h, x: ask_step(student, h, x), zeros), reset[1]),
        (reset[0], lambda: unrolled(x, h, lambda h, x: ask_step(student, h, x), h), reset[1]),
        (reset[0], lambda: unrolled(x, zeros, lambda h, x: ask_step(student, h, x), zeros), reset[1]),
        ("start_ignored", lambda: unrolled(x, zeros, lambda h, x: ask_step(student, h, x)), "the state that is given "
            "is not used: the first step begins with h, not with zeros"),
        ("state_not_carried", lambda: torch.stack([ask_step(student, h, x[:, t]) for t in range(T)], 1), "every step "
            "begins with the first state: put each result into h"),
        ("one_step_late", lambda: torch.cat([h[:, None], carried_on[:, :-1]], 1), "the states are one step late: h[t] "
            "is the state after word t")])


def gradients_of(student: Student) -> Tensor:
    """(T, T): at [t, j] True if the state at t has a gradient to word j."""
    x = draw(B, T, D, seed=8).requires_grad_()
    states = ask(student, x, draw(B, H, seed=9))
    if not states.requires_grad:
        raise Slip("no_gradient", "the states have no gradient at all: nothing can be learned. Detach the carried "
                                  "state alone, and compute in torch")
    reached = []
    for t in range(T):
        (answer,) = torch.autograd.grad(states[:, t].pow(2).sum(), x, retain_graph=True, allow_unused=True)
        reached.append(torch.zeros(T, dtype=torch.bool) if answer is None else answer.abs().amax((0, 2)) > 0)
    return torch.stack(reached)


def within(student: Student) -> None:
    """Within a stretch gradients flow back to every earlier word."""
    reached = gradients_of(student)
    for t in range(T):
        for j in range(t - t % SIZE, t + 1):
            if not reached[t, j]:
                raise Slip("detached_every_step" if t != j else "no_gradient", f"the state at {t} has no gradient to "
                    f"word {j} of its own stretch: detach the state where a stretch begins, not at every step")


def across(student: Student) -> None:
    """No gradient flows out of a stretch into an earlier one."""
    reached = gradients_of(student)
    for t in range(T):
        for j in range(t - t % SIZE):
            if reached[t, j]:
                raise Slip("not_detached", f"the state at {t} still has a gradient to word {j}, in an earlier "
                                           "stretch: detach the state where a stretch begins (h = h.detach()), or "
                                           "memory grows with the text")


CHECKS = {"runs": runs, "cell": cell, "carried": carried, "within": within, "across": across}
