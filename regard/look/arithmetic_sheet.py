"""A sheet of arithmetic: named numbers, how each follows from others, and the steps in which a person reads them.

    sheet = Sheet(texts=("attention", "product"))
    sheet.put("q", [0, 1])
    sheet.work("products", "times", "q", "k", values=q * k)          # what PyTorch has for it stands beside the rule
    sheet.step("products")

What was given and what was worked out are told apart, so that anybody can do it again: the page does, in float64 and
by the same table of operations, and says by how much it differs from what PyTorch had. The words for people are in
arithmetic.toml, by the names of quantities and steps.
"""

from __future__ import annotations

import tomllib
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[Any]                     # float32 as PyTorch has it, or float64 where a model counts
TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("arithmetic.toml").read_text("utf-8"))


@dataclass(eq=False)
class Quantity:
    """A number, a vector or a matrix, and where it comes from."""

    name: str
    values: Floats                        # as PyTorch has it
    symbol: str = ""                      # as it is written: k · q' · alpha
    about: str = ""
    over: str = ""                        # what its entries are: channels · columns · orders · states; "": a number
    op: str = ""                          # in OPERATIONS; "": it was given
    of: tuple[str, ...] = ()              # the quantities it is worked out from
    how: dict[str, Any] = field(default_factory=dict)
    checked: bool = False                 # worked out, and the values are PyTorch's own
    exact: tuple[str, ...] = ()           # the same as fractions, where they are known
    shape: tuple[int, ...] = ()           # of the values
    dtype: str = ""                       # float32 · float64

    def __post_init__(self) -> None:
        self.symbol = self.symbol or self.name
        self.shape, self.dtype = self.values.shape, str(self.values.dtype)


@dataclass(frozen=True)
class SheetStep:
    """One step to read: a formula, what it means, and the quantities to show for it."""

    title: str
    formula: str
    about: str
    shows: tuple[str, ...]


@dataclass
class Sheet:
    """Quantities in the order in which they are worked out, and the steps.

    `texts` are the tables of arithmetic.toml with their words, the first that has a name before the others; `said` is
    what these words name.
    """

    quantities: dict[str, Quantity] = field(default_factory=dict)
    steps: list[SheetStep] = field(default_factory=list)
    texts: InitVar[tuple[str, ...]] = ()
    said: InitVar[Mapping[str, Any] | None] = None

    def __post_init__(self, texts: tuple[str, ...], said: Mapping[str, Any] | None) -> None:
        self._texts = ChainMap(*(TEXTS[name] for name in texts))
        self._step_texts = ChainMap(*(TEXTS[name].get("steps", {}) for name in texts))
        self._said = dict(said or {})

    def put(self, name: str, values: ArrayLike, **said: Any) -> Floats:
        """A quantity that is given."""
        return self._add(Quantity(name, _plain(values), **self._shown(name, said)))

    def work(self, name: str, op: str, *of: str, values: ArrayLike | None = None, how: dict[str, Any] | None = None,
             **said: Any) -> Floats:
        """One that is worked out from others; `values` is what PyTorch has for it, to check it by."""
        assert op in OPERATIONS, f"there is no operation {op}"
        how, checked = how or {}, values is not None
        if values is None:
            values = OPERATIONS[op](*(self.quantities[each].values for each in of), **how)
        return self._add(Quantity(name, _plain(values), op=op, of=of, how=how, checked=checked,
                                  **self._shown(name, said)))

    def _shown(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        symbol, over, about = (text.format(**self._said, **said) for text in self._texts[name])
        return {"symbol": symbol, "over": over, "about": about}

    def _add(self, quantity: Quantity) -> Floats:
        assert quantity.name not in self.quantities, f"{quantity.name} stands there already"
        self.quantities[quantity.name] = quantity
        return quantity.values

    def step(self, name: str, **said: Any) -> None:
        *texts, shows = self._step_texts[name]
        title, formula, about = (text.format(**self._said, **said) for text in texts)
        self.steps.append(SheetStep(title, formula, about, tuple(each for each in shows if each in self.quantities)))


def _plain(values: Any) -> Floats:
    if hasattr(values, "detach"):                              # a tensor, of any precision and anywhere
        values = values.detach().cpu()
        values = values.numpy() if str(values.dtype) == "torch.float64" else values.float().numpy()
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


# ---------------------------------------------------------------------------------------------- operations
# The page has the same table, in compute_redo.js.


def largest(x: Floats) -> Floats:
    """The maximum of what is finite; 0 if nothing is."""
    return np.max(x[np.isfinite(x)], initial=-np.inf) if np.isfinite(x).any() else np.zeros((), x.dtype)


def power(x: Floats, top: Floats, base: float | None = None) -> Floats:
    return np.exp((x - top) * (1.0 if base is None else np.log(base)))


def share(x: Floats, total: Floats) -> Floats:
    return x / total if total else np.zeros_like(x)


def additive(query: Floats, keys: Floats, v: Floats) -> Floats:
    return np.tanh(query + keys) @ v


def between(x: Floats, after: int, to: int) -> Floats:
    """x[after+1] + ... + x[to]: nothing where after = to."""
    return x[after + 1:to + 1].sum(0)


def product(x: Floats, after: int, to: int) -> Floats:
    return x[after + 1:to + 1].prod(0)


def fading(delta: Floats, a: Floats, b: Floats, c: Floats, row: int) -> Floats:
    """(T,): c . exp(a (delta[s+1] + ... + delta[row])) delta[s] b[s], for each s; 0 after the row."""
    passed = delta[:row + 1].sum() - np.cumsum(delta[:row + 1])                            # (s,)
    kept = np.exp(passed[:, None] * np.atleast_1d(a)) * b[:row + 1] * c                    # (s, N)
    return np.pad(kept.sum(1) * delta[:row + 1], (0, len(delta) - row - 1))


def decaying(a: Floats, c: Floats, o: Floats, row: int) -> Floats:
    """(T,): o a[row] ... a[s+1] c[s], for each s; 0 after the row."""
    kept = np.append(np.cumprod(a[row:0:-1])[::-1], 1.0)                                   # (row + 1,)
    return np.pad(o * kept * c[:row + 1], (0, len(a) - row - 1))


def grown(a: Floats, x: Floats) -> Floats:
    """exp(a x); each x by the row of rates that is its own."""
    return np.exp(a * (x if np.ndim(x) == 0 or np.ndim(a) == np.ndim(x) else x[:, None]))


def discounted(count: Floats, discount: Floats, total: Floats) -> Floats:
    """(count - discount) / total, 0 where nothing was counted."""
    there = (count > 0) & (total > 0)
    return np.where(there, (count - discount) / np.where(there, total, 1.0), 0.0)


def left_over(weight: Floats) -> Floats:
    """For each order the product of the weights of all longer ones: what reaches it."""
    return np.append(np.cumprod(weight[:0:-1])[::-1], 1.0)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "pick": lambda x, index: x[index],
    "turned": lambda weight, x: x @ weight,                    # one vector by a matrix, or each of several
    "dot": lambda keys, query: keys @ query,
    "times": lambda x, y: x * y,
    "plus": lambda x, y: x + y,
    "minus": lambda x, y: x - y,
    "over": lambda x, y: x / y,
    "scale": lambda x, by: x * by,
    "tanh": np.tanh,
    "exp": np.exp,
    "softcap": lambda x, at: at * np.tanh(x / at),
    "mask": lambda x, allowed: np.where(allowed > 0, x, -np.inf),
    "sum": np.sum,
    "mean": np.mean,
    "norm": lambda x: np.sqrt((x * x).sum()),
    "weighted": lambda alpha, values: alpha @ values,
    "largest": largest, "power": power, "share": share, "additive": additive, "between": between, "product": product,
    "fading": fading, "decaying": decaying, "grown": grown, "discounted": discounted, "left-over": left_over,
}
