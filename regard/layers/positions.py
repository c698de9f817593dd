"""Positions: attention alone does not see word order, so each position is told where it stands.

Learned vectors (one per position), sinusoids (Vaswani et al. 2017, section 3.5), rotations of queries and keys
(Su et al. 2021), or scores that fall with distance (ALiBi, Press et al. 2021). Positions are absolute and per row:
`at` is (B, T).   B batch · T time · D width
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.contract import Memory, SequenceLayer, State
from regard.errors import SettingError
from regard.kernels.attention import CAUSAL, Mask
from regard.kernels.exported import at_most
from regard.kernels.rotary import turn

EVEN_ALIBI = "alibi-even"          # as runs of before had ALiBi: other slopes where heads are no power of 2
RELATIVE = ("rotary", "alibi", EVEN_ALIBI, "none")         # seen by attention itself; the others are added to vectors
ROTARY_BASE = 10000.0              # of rotations and sinusoids: the slowest pair turns once in 2 pi * this, about


@dataclass
class Position(State):
    """The number of tokens that each row has read."""

    count: Tensor            # (B,)


def positions_of_chunk(count: Tensor, length: int) -> Tensor:
    """(B, T): the absolute positions of the next `length` tokens of each row."""
    return count[:, None] + torch.arange(length, device=count.device)


def advance(count: Tensor, length: int, lengths: Tensor | None) -> Tensor:
    """The count after reading a chunk of `length` tokens, `lengths` of them real."""
    return count + (length if lengths is None else lengths)


def angles(at: Tensor, pairs: Tensor, width: int, dtype: torch.dtype, base: float = ROTARY_BASE) -> Tensor:
    """t / base^(2i/D) for positions t (...) and pairs 2i: (..., D/2), in float32 at least."""
    dtype = dtype if dtype == torch.float64 else torch.float32
    return at[..., None].to(dtype) * base ** -(pairs.to(dtype) / width)


class AddPositions(SequenceLayer):
    """x[t] + p[t]. Subclasses say what p is, and how many positions there are."""

    adds_positions = True

    def __init__(self, width: int):
        super().__init__()
        self.d_in = self.d_out = width

    @abstractmethod
    def vectors(self, at: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The position vectors (..., D) at absolute positions (...)."""

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Position | None:
        if capacity is None:
            return None
        if (most := self.most_positions) is not None and capacity > most:
            raise SettingError(f"room for {capacity} tokens was asked of a model with {most} learned positions: "
                               f"read at most {most} at once, or train with --context {capacity}")
        home = next(chain(self.parameters(), self.buffers()))                # lives where the layer does
        return Position(torch.zeros(batch, dtype=torch.long, device=home.device))

    def forward(
        self, x: Tensor, state: Position | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Position | None]:
        length = x.shape[1]
        if state is None:
            return x + self.vectors(torch.arange(length, device=x.device), x.dtype).to(x.dtype), None
        at = positions_of_chunk(state.count, length)
        if self.most_positions is not None:
            at = at.clamp(max=self.most_positions - 1)          # only pads can stand beyond the room asked for
        return x + self.vectors(at, x.dtype).to(x.dtype), Position(advance(state.count, length, lengths))


class LearnedPositions(AddPositions):
    """One learned vector for each of `limit` positions: p_1 is the same for the first token of every text."""

    def __init__(self, width: int, limit: int):
        super().__init__(width)
        self.most_positions = limit
        self.table = nn.Parameter(torch.empty(limit, width))
        nn.init.normal_(self.table, std=0.02)

    def vectors(self, at: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        if (most := self.most_positions) is not None and at.shape[-1] > most:
            raise SettingError(f"{at.shape[-1]} tokens were given to a model with {most} learned positions: "
                               "cut the text, or train with a larger --context")
        return self.table[at]


class SinusoidalPositions(AddPositions):
    """p_2i(t) = sin(t / 10000^(2i/D)), p_2i+1(t) = cos(t / 10000^(2i/D)): wavelengths from 2 pi to 10000 * 2 pi."""

    pairs: Tensor

    def __init__(self, width: int):
        super().__init__(width)
        if width % 2:
            raise SettingError(f"model.width = {width}: sinusoidal positions need an even width")
        self.register_buffer("pairs", torch.arange(0, width, 2), persistent=False)

    def vectors(self, at: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        turn = angles(at, self.pairs, self.d_in, dtype)                                # (..., D/2)
        return torch.stack((turn.sin(), turn.cos()), -1).flatten(-2)


@cache
def _rates(width: int, device: torch.device, base: float, still: int) -> Tensor:
    at, pairs = torch.ones((), device=device), torch.arange(0, width, 2, device=device)
    return pad(angles(at, pairs, width, torch.float32, base), (0, still))


class Rotary(nn.Module):
    """Turns each pair of channels by an angle that grows with the position: q·k then depends on distance alone.

    Pair i of `share` of the channels by t / base^(2i/K') at position t, K' their number; the others stand still."""

    pairs: Tensor

    def __init__(self, head_width: int, *, base: float = ROTARY_BASE, share: float = 1.0):
        super().__init__()
        if head_width % 2:
            raise SettingError(f"heads of width {head_width} cannot turn in pairs: choose model.width and model.heads "
                               "so that width / heads is even, an even model.head_width, or model.positions = learned")
        self.turned, self.base, self.share = turned_channels(head_width, share), base, share
        self.still = (head_width - self.turned) // 2                                  # pairs
        self.register_buffer("pairs", torch.arange(0, self.turned, 2), persistent=False)

    def rates(self, device: torch.device) -> Tensor:
        """(K/2,) in float32, whatever the weights are in: the angle of each pair from one position to the next."""
        return _rates(self.turned, device, self.base, self.still)

    def turns(self, at: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The angle of every pair, (..., T, K/2), for positions (..., T); of one that stands still it is zero."""
        turns = angles(at, self.pairs, self.turned, dtype, self.base)
        return pad(turns, (0, self.still)) if self.still else turns

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """x (B, T, ..., K), each pair (a, b) turned by its angle (..., T, K/2): (a cos - b sin, a sin + b cos)."""
        return turn(x, turns)

    def turn(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, T, ..., K) turned by their positions; keys of width 0, which nobody reads, stay so."""
        turns = self.turns(at, q.dtype)
        return self(q, turns), self(k, turns) if k.shape[-1] else k


def turned_channels(head_width: int, share: float) -> int:
    """The number of a head's channels that turn; a share that is no whole number of pairs is one clear line."""
    turned = round(head_width * share)
    if turned < 2 or turned % 2:
        raise SettingError(f"model.rotary_share = {share:g} of {head_width} channels is no whole number of pairs: try "
                           f"model.rotary_share = {max(2, turned // 2 * 2) / head_width:g}, or 1 for all of them")
    return turned


def who_reads_whom(
    queries: Tensor, keys: Tensor, window: int = 0, slopes: Tensor | None = None, *, whole: bool = False
) -> tuple[Tensor | Mask | None, Tensor | None]:
    """The mask, and what distance takes off the scores by ALiBi's `slopes`: from absolute positions (.., T), (.., S).

    With a `window`, a query reads itself and the window - 1 before it. `whole`: queries and keys are all positions."""
    near_enough = not window or (whole and at_most(queries.shape[-1], window))
    if whole and near_enough and slopes is None:
        return CAUSAL, None                                  # pads stand at the right: no real token sees one
    now, then = queries[..., :, None], keys[..., None, :]
    mask = (then <= now) & (then >= 0)                # (B, T, S) or (T, S); differences would take eight times the room
    if window:
        mask &= then > now - window
    bias = None
    if slopes is not None:
        bias = -slopes[:, None, None] * (now - then).unsqueeze(-3).to(slopes.dtype)
    return mask.unsqueeze(-3), bias                                                   # (B, 1 or H, T, S)


def alibi_slopes(heads: int, *, evenly: bool = False) -> Tensor:
    """(H,): the amount that each head's scores lose a position, 1/2 for the first of 8 heads, 1/256 for the last.

    That is 2^(-8 i / H) for H a power of 2. Of other numbers the first heads have the slopes of the power below, and
    the rest every other slope of the power above (Press et al. 2021); runs of before have them `evenly` in between."""
    power = heads if evenly else 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-8.0 * torch.arange(1, power + 1) / power)
    return slopes if power == heads else torch.cat((slopes, alibi_slopes(2 * power)[:2 * (heads - power):2]))


def make_slopes(positions: str, heads: int) -> Tensor | None:
    """The slopes (H,) of these positions; None where scores do not fall with distance."""
    return alibi_slopes(heads, evenly=positions == EVEN_ALIBI) if positions in ("alibi", EVEN_ALIBI) else None
