"""Drawing a token, in Triton: a program takes one row of log-probabilities.

The k likeliest are found in steps. Tokens are dealt out to SLOTS groups; the k likeliest stand in the k groups with the
largest maxima (of equals, those that reach theirs first). The tokens of these are the candidates, in their order; those
that reach a bound which k of them are known to reach are written down, and among these few are the k likeliest. Then
chances are added up, in float64, until they pass what was drawn.
Whenever threads count together they wait for each other, and that is what takes time: several numbers are tried in one
count, and there are no more counts than it takes to tell the right ones apart.
Import this only where Triton is to be used: `sample.can` knows.   V vocabulary
"""

from __future__ import annotations

import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels import sample as front

LOWEST = tl.constexpr(-(2**31))        # below every float, in their order
GOLDEN = tl.constexpr(0x9E3779B97F4A7C15 - 2**64)
FIRST = tl.constexpr(0xBF58476D1CE4E5B9 - 2**64)
SECOND = tl.constexpr(0x94D049BB133111EB - 2**64)


def sample_tokens(
    log_probs: Tensor, noise: Tensor, positions: Tensor, temperature: float, room: int, top_k: int
) -> Tensor:
    rows, vocab = log_probs.shape
    chosen = torch.empty(rows, dtype=torch.long, device=log_probs.device)
    slots = min(front.SLOTS, max(32, triton.next_power_of_2(vocab)))
    warps = max(1, min(16, slots // 256))
    (bits,) = struct.unpack("q", struct.pack("d", temperature))        # an argument that is a float has 32 bits
    each = log_probs, noise.contiguous(), positions.contiguous(), chosen, vocab, bits
    if room:
        size = triton.next_power_of_2(max(room, 32))
        few = min(size, slots, max(16, 2 * triton.next_power_of_2(top_k)))
        hold = size // -(-vocab // slots)                      # groups whose tokens are candidates: k, or some more
        notes = torch.empty(rows, hold + size, dtype=torch.int32, device=log_probs.device)
        _of_the_likeliest[(rows,)](*each, notes, top_k, slots, hold, size, few, num_warps=max(1, warps // 2))
    else:
        _of_all[(rows,)](*each, slots, num_warps=warps)
    return chosen


@triton.jit(do_not_specialize=["bits", "k"])
def _of_the_likeliest(
    log_probs, noise, positions, chosen, vocab, bits, notes, k,
    SLOTS: tl.constexpr, HOLD: tl.constexpr, ROOM: tl.constexpr, FEW: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    here, groups = log_probs + row * vocab, notes + row * (HOLD + ROOM)
    listed = groups + HOLD
    bound, largest, held = _write_groups(here, vocab, k, groups, SLOTS, HOLD, FEW)
    tl.debug_barrier()                                         # what other threads wrote is to be read
    count = _write_candidates(here, vocab, k, bound, groups, held, listed, SLOTS, HOLD, ROOM)
    tl.debug_barrier()
    drawn = _uniform(tl.load(noise + row), tl.load(positions + row))
    if count <= FEW:                                           # nearly always
        token = _drawn_from(here, vocab, k, bound, largest, listed, count, drawn, bits, FEW)
    else:
        token = _drawn_from(here, vocab, k, bound, largest, listed, count, drawn, bits, ROOM)
    tl.store(chosen + row, token.to(tl.int64))


@triton.jit
def _write_groups(here, vocab, k, groups, SLOTS: tl.constexpr, HOLD: tl.constexpr, FEW: tl.constexpr):
    """Writes down k to HOLD groups, with the k likeliest among them; a bound k tokens reach, the largest, how many."""
    slot = tl.arange(0, SLOTS)
    most, first = _maxima(here, vocab, SLOTS)
    key, largest = _ordered(most), tl.max(most, 0)
    # Groups on FEW heaps: what k heaps reach, k groups reach and about a third more. Mostly there is room for these.
    heap = tl.max(tl.reshape(key, (SLOTS // FEW, FEW)), 0)
    bound, held = _reached(heap, k, k + (HOLD - k) // 4, tl.min(heap, 0), _ordered(largest), FEW, 8)
    held = tl.sum((key >= bound).to(tl.int32), 0)
    if held > HOLD:
        bound, held = _reached(key, k, HOLD, bound, _ordered(largest), held, 4)
    taken = key >= bound
    if held > HOLD:                                            # too many equals
        above = tl.sum((key > bound).to(tl.int32), 0)
        order = tl.where(key == bound, -(first + slot), LOWEST)
        early, equal = _reached(order, k - above, HOLD - above, -(vocab + SLOTS), 0, held - above, 4)
        taken = (key > bound) | (order >= early)
        held = above + equal
    so_far, _ = _counted(taken.to(tl.int32))
    tl.store(groups + so_far - 1, slot, mask=taken)
    return bound, largest, held


@triton.jit
def _maxima(here, vocab, SLOTS: tl.constexpr):
    """The maximum of each group, and where those SLOTS tokens begin among which it is first reached."""
    slot = tl.arange(0, SLOTS)
    most, first = tl.full((SLOTS,), -float("inf"), tl.float32), tl.zeros((SLOTS,), tl.int32)
    full = vocab // SLOTS * SLOTS
    for start in tl.range(0, full, SLOTS, loop_unroll_factor=4):            # so that more is on its way at a time
        z = tl.load(here + start + slot)
        first = tl.where(z > most, start, first)
        most = tl.maximum(most, z)
    z = tl.load(here + full + slot, mask=full + slot < vocab, other=-float("inf"))
    return tl.maximum(most, z), tl.where(z > most, full, first)


@triton.jit
def _write_candidates(
    here, vocab, k, bound, groups, held, listed, SLOTS: tl.constexpr, HOLD: tl.constexpr, ROOM: tl.constexpr
):
    """Writes down the groups' tokens that reach the bound, in their order; returns how many these are."""
    candidate = tl.arange(0, ROOM)                             # all groups' first tokens, their second ones, ...
    group = tl.load(groups + candidate % HOLD, mask=candidate % HOLD < held, other=vocab)
    at = candidate // HOLD * SLOTS + group
    key = _keys(here, at, vocab)
    both = tl.where(key > bound, 65536, tl.where(key == bound, 1, 0))
    so_far, counted = _counted(both)                           # two counts in one number
    place = (so_far >> 16) + tl.minimum(so_far & 65535, k) - 1
    tl.store(listed + place, at, mask=(both == 65536) | ((both == 1) & ((so_far & 65535) <= k)))
    return (counted >> 16) + tl.minimum(counted & 65535, k)    # of equals no more than k are wanted


@triton.jit
def _drawn_from(here, vocab, k, bound, largest, listed, count, drawn, bits, SIZE: tl.constexpr):
    """A token drawn from the k likeliest of those listed, of equals the first."""
    place = tl.arange(0, SIZE)
    there = place < count
    at = tl.load(listed + place, mask=there, other=0)
    z = tl.load(here + at, mask=there, other=-float("inf"))
    key = tl.where(there, _ordered(z), LOWEST)
    bound, reached = _reached(key, k, k, bound, _ordered(largest), count, 8 if SIZE <= 1024 else 4)
    kept = key >= bound
    if reached > k:                                            # too many equals
        left = k - tl.sum((key > bound).to(tl.int32), 0)
        kept = (key > bound) | ((key == bound) & (tl.cumsum((key == bound).to(tl.int32), 0) <= left))
    weight = _weights(tl.where(kept, z, -float("inf")), largest, bits)
    so_far = tl.cumsum(weight, 0)
    drawn *= tl.max(so_far, 0)
    token = tl.min(tl.where((so_far > drawn) & (weight > 0), at, vocab), 0)
    return tl.minimum(token, tl.max(tl.where(weight > 0, at, 0), 0))


@triton.jit(do_not_specialize=["bits"])
def _of_all(log_probs, noise, positions, chosen, vocab, bits, SLOTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    here = log_probs + row * vocab
    slot = tl.arange(0, SLOTS)
    most = tl.full((SLOTS,), -float("inf"), tl.float32)
    for first in range(0, vocab, SLOTS):
        at = first + slot
        most = tl.maximum(most, tl.load(here + at, mask=at < vocab, other=-float("inf")))
    largest = tl.max(most, 0)
    sums = tl.zeros((SLOTS,), tl.float64)
    for first in range(0, vocab, SLOTS):
        at = first + slot
        sums += _weights(tl.load(here + at, mask=at < vocab, other=-float("inf")), largest, bits)
    drawn = _uniform(tl.load(noise + row), tl.load(positions + row)) * tl.sum(sums, 0)
    before, place, last = tl.sum(tl.zeros((SLOTS,), tl.float64), 0), vocab, 0
    for first in range(0, vocab, SLOTS):
        at = first + slot
        weight = _weights(tl.load(here + at, mask=at < vocab, other=-float("inf")), largest, bits)
        last = tl.maximum(last, tl.max(tl.where(weight > 0, at, 0), 0))
        so_far = before + tl.cumsum(weight, 0)
        place = tl.minimum(place, tl.min(tl.where((so_far > drawn) & (weight > 0), at, vocab), 0))
        before += tl.sum(weight, 0)
    tl.store(chosen + row, tl.minimum(place, last).to(tl.int64))


@triton.jit
def _keys(here, at, vocab):
    """Log-probabilities as whole numbers in the same order; what lies beyond the vocabulary is below them all."""
    return tl.where(at < vocab, _ordered(tl.load(here + at, mask=at < vocab, other=0.0)), LOWEST)


@triton.jit
def _ordered(z):
    bits = (z + 0.0).to(tl.int32, bitcast=True)                # there is a -0.0, which is equal to 0.0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _counted(numbers):
    """Sums so far, and of all: within 32 first, which a warp adds up alone."""
    lines = tl.reshape(numbers, (numbers.shape[0] // 32, 32))
    sums = tl.sum(lines, 1)
    before = tl.cumsum(sums, 0) - sums
    return tl.reshape(before[:, None] + tl.cumsum(lines, 1), (numbers.shape[0],)), tl.sum(sums, 0)


@triton.jit
def _reached(keys, k, most, low, high, count, EDGES: tl.constexpr):
    """A number that k to `most` keys reach, or where equals forbid it the k-th largest; and how many reach it.

    It is sought from `low`, which `count` keys reach, k or more, to `high`, which none exceeds. A round tries EDGES
    numbers: more of them for few keys, where comparing takes less time than waiting does."""
    column, edge = keys[:, None], tl.arange(1, EDGES + 1)
    low, high, count = tl.cast(low, tl.int64), tl.cast(high, tl.int64), tl.cast(count, tl.int32)
    while (low < high) & (count > most):
        width = (high - low + EDGES - 1) // EDGES
        tried = tl.minimum(low + width * edge, high).to(tl.int32)
        reach = tl.sum((column >= tried[None, :]).to(tl.int32), 0)
        count = tl.min(tl.where(reach >= k, reach, count), 0)
        start = low + width * tl.sum((reach >= k).to(tl.int32), 0)          # the last that k reach: edges ascend
        low, high = tl.minimum(start, high), tl.minimum(start + width - 1, high)
    return low.to(tl.int32), count


@triton.jit
def _weights(z, largest, bits):
    temperature = bits.to(tl.float64, bitcast=True)
    return tl.exp((z.to(tl.float64) - largest.to(tl.float64)) / temperature)


@triton.jit
def _uniform(noise, position):
    """As sampling.uniform has it."""
    x = (noise ^ position) + GOLDEN
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    x = x ^ _shifted(x, 31)
    return _shifted(x, 11).to(tl.float64) * 1.1102230246251565e-16         # 2^-53


@triton.jit
def _shifted(x, bits: tl.constexpr):
    return (x >> bits) & ((1 << (64 - bits)) - 1)
