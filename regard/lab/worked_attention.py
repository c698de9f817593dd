"""Worked examples: attention done by hand. A A B A, the two hidden states as one product, and the table times V.

The lecture takes 3 for e, so that everything comes out even. Scores times ln 3 under our softmax are the same:
3^s = e^(s ln 3). So `attend` itself is what is measured, with fractions to hold it to.
T queries · S keys · K width
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from regard.lab.worked import Example, ExampleLine, line
from regard.layers.attend import CAUSAL, attend, scores_of, weights
from regard.layers.average import RunningMean
from regard.layers.scores import Dot
from regard.look.presets import PRESETS, numbers

PLAIN = Dot(1, 1, scaled=False)            # e(q, k) = q · k
F = Fraction
Matrix = np.ndarray                        # of fractions: numpy multiplies and adds whatever can be


def tensor(rows: object) -> Tensor:
    return torch.from_numpy(np.array(rows, np.float64))


def whole(rows: Sequence[Sequence[int | str]]) -> Matrix:
    return np.array([[F(x) for x in row] for row in rows])


def rows_of(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Query (1, K), keys (S, K) and values (S, K') of a preset."""
    preset = PRESETS[name]
    return (tensor(numbers(preset.query))[None], tensor(numbers(preset.keys or preset.values)),
            tensor(numbers(preset.values)))


def read(q: Tensor, k: Tensor, v: Tensor, base: float = math.e, **options: object) -> Tensor:
    """A(q, K, V) of plain matrices, with powers of `base`."""
    return attend(math.log(base) * q[None, None], k[None, None], v[None, None], score=PLAIN, **options)[0, 0]   # type: ignore[arg-type]


def shares(q: Tensor, k: Tensor, base: float = math.e, **options: object) -> Tensor:
    return weights(math.log(base) * q[None, None], k[None, None], score=PLAIN, **options)[0, 0]    # type: ignore[arg-type]


def scores(q: Tensor, k: Tensor) -> Tensor:
    return scores_of(q[None, None], k[None, None], score=PLAIN)[0, 0]


# ---------------------------------------------------------------------------------------------- A A B A


def softmax_of_base(powers_of: list[int], base: int) -> list[Fraction]:
    """The definition: base^s_i / sum_j base^s_j, in fractions."""
    powers = [F(base) ** each for each in powers_of]
    return [each / sum(powers) for each in powers]


def aaba() -> list[ExampleLine]:
    """A = [1, 0], B = [0, 1]; the keys are the embeddings, and q = [0, 1] looks for Bs."""
    q, k, v = rows_of("aaba")
    sixths = [F(1, 6), F(1, 6), F(1, 2), F(1, 6)]
    mean, _ = RunningMean(2)(v[None])
    return [
        line("scores k · q", "scores_of", scores(q, k), [0, 0, 1, 0]),
        line("weights with base 3, by definition", "softmax_of_base", softmax_of_base([0, 0, 1, 0], 3), sixths),
        line("weights with base 3", "weights", shares(q, k, 3), sixths),
        line("output with base 3", "attend", read(q, k, v, 3), [F(1, 2), F(1, 2)]),
        line("output with base e", "attend", read(q, k, v), [3 / (3 + math.e), math.e / (3 + math.e)]),
        line("mean of all (DAN)", "RunningMean", mean[0, -1], [F(3, 4), F(1, 4)]),
    ]


def aaba_10() -> list[ExampleLine]:
    """With q = [0, 10] the weight is almost all on B; W_K = I and W_Q = 10 I do the same to the query of B."""
    q, k, v = rows_of("aaba-10")
    rest, three = math.e**10 + 3, F(3) ** 10
    w_q, w_k = 10 * torch.eye(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    through = tensor([[0, 1]]) @ w_q
    return [
        line("scores", "scores_of", scores(q, k), [0, 0, 10, 0]),
        line("output with base e, almost [0, 1]", "attend", read(q, k, v), [3 / rest, math.e**10 / rest]),
        line("output with base 3", "attend", read(q, k, v, 3), [3 / (three + 3), three / (three + 3)]),
        line("[0, 1] to three digits", "attend, rounded", [round(float(x), 3) for x in read(q, k, v)[0]], [0, 1]),
        line("scores through W_K = I, W_Q = 10 I", "scores_of", scores(through, k @ w_k), [0, 0, 10, 0]),
        line("output through W_K and W_Q: the same", "attend", read(through, k @ w_k, v), read(q, k, v)),
    ]


def aaba_self() -> list[ExampleLine]:
    """Every word is a query: S = Q K^T for E = Q = K, and 10 E E^T for K = 10 E."""
    e = tensor(numbers(PRESETS["aaba-self-a"].values))
    of_a, of_b = [1, 1, 0, 1], [0, 0, 1, 0]
    s = [of_a, of_a, of_b, of_a]
    tenths = [F(3, 10), F(3, 10), F(1, 10), F(3, 10)]
    reads_a, reads_b = [F(9, 10), F(1, 10)], [F(1, 2), F(1, 2)]
    return [
        line("S = Q K^T, E = Q = K", "scores_of", scores(e, e), s),
        line("S = 10 E E^T, K = 10 E", "scores_of", scores(e, 10 * e), [[10 * x for x in row] for row in s]),
        line("weights of an A, base 3", "weights", shares(e, e, 3)[0], tenths),
        line("outputs of all four, base 3", "attend", read(e, e, e, 3), [reads_a, reads_a, reads_b, reads_a]),
        line("the second A behind a causal mask, base 3", "attend", read(e, e, e, 3, mask=CAUSAL)[1], [1, 0]),
    ]


# -------------------------------------------------------------------------------- one lower-triangular product


def through_softmax(table: Matrix, v: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and outputs of attention whose scores are the logarithms of a table; above the diagonal they are large.

    With Q = 1 the scores are K^T. What stands above the diagonal would win the softmax if the mask let it through.
    """
    size = len(table)
    s = tensor([[math.log(table[t][j]) if j <= t else 50.0 for j in range(size)] for t in range(size)])
    q = torch.eye(size, dtype=torch.float64)
    return shares(q, s.T, mask=CAUSAL), read(q, s.T, v, mask=CAUSAL)


VALUES = [[1, 0, 2], [0, 1, 4], [3, 1, 0]]             # v_1, v_2, v_3: any three vectors will do


def table_of(*names: str) -> Matrix:
    return whole([PRESETS[name].weights for name in names])


def hidden_states() -> list[ExampleLine]:
    """h_3 = 0.3 v_1 + 0.5 v_2 + 0.2 v_3 and h_2 = 0.7 v_1 + 0.3 v_2 are rows of one lower-triangular product."""
    table = table_of("table-1", "h2", "h3")
    by_hand = table @ whole(VALUES)
    alpha, h = through_softmax(table, tensor(VALUES))
    return [
        line("weights: nothing above the diagonal", "weights, mask=CAUSAL", alpha, table),
        line("no term for q_2 k_3: its weight is", "weights, mask=CAUSAL", alpha[1, 2], 0),
        line("h_1, h_2, h_3", "attend, mask=CAUSAL", h, by_hand),
        line("h_2 = 0.7 v_1 + 0.3 v_2", "attend, mask=CAUSAL", h[1], [F(7, 10), F(3, 10), F(26, 10)]),
        line("h_3 = 0.3 v_1 + 0.5 v_2 + 0.2 v_3", "attend, mask=CAUSAL", h[2], [F(9, 10), F(7, 10), F(26, 10)]),
        line("h_2 from its own prefix alone", "attend", read(
            tensor([[1]]), tensor([[math.log(x)] for x in table[1][:2]]), tensor(VALUES[:2])), by_hand[1]),
    ]


def table_times_v() -> list[ExampleLine]:
    """The table 1 / .3 .7 / .1 .5 .4 times V: three hidden states by one product."""
    table = table_of("table-1", "table-2", "table-3")
    alpha, h = through_softmax(table, tensor(VALUES))
    return [
        line("the table", "weights, mask=CAUSAL", alpha,
             [[1, 0, 0], [F(3, 10), F(7, 10), 0], [F(1, 10), F(1, 2), F(2, 5)]]),
        line("each row sums to one", "weights, mask=CAUSAL", alpha.sum(-1), [1, 1, 1]),
        line("the table times V", "attend, mask=CAUSAL", h, table @ whole(VALUES)),
        line("its third row", "attend, mask=CAUSAL", h[2], [F(13, 10), F(9, 10), F(22, 10)]),
    ]


EXAMPLES = (
    Example("aaba", "A A B A, looking for B", "lecture 001", aaba, ("aaba", "aaba-mean")),
    Example("aaba-10", "A A B A, looking ten times harder", "lecture 001", aaba_10, ("aaba-10", "aaba-matrices")),
    Example("aaba-self", "A A B A, every word asks", "lecture 001", aaba_self,
            ("aaba-self-a", "aaba-self-b", "aaba-self-a10", "aaba-causal")),
    Example("hidden-states", "h_2 and h_3 as one lower-triangular product", "lecture 000", hidden_states, ("h2", "h3")),
    Example("table", "The table times V", "lecture 000", table_times_v, ("table-1", "table-2", "table-3")),
)
