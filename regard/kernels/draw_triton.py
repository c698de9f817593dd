"""Drawing a token, in Triton: a program takes one row of log-probabilities.

The k likeliest are found in two steps. Tokens are dealt out to SLOTS groups, and the k-th largest of the groups' maxima
is a bound: less than k groups have anything above it, so that few tokens are candidates, and these are written down in
their order. Among them the k-th largest is found by halving, as is the bound; of equals the first are taken. Then
chances are added up, in float64, until they pass what was drawn.
Import this only where Triton is to be used: `draw.can` knows.   V vocabulary
"""

from __future__ import annotations

import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels import draw as front

LOWEST = tl.constexpr(-(2**31))        # below every float, in their order
GOLDEN = tl.constexpr(0x9E3779B97F4A7C15 - 2**64)
FIRST = tl.constexpr(0xBF58476D1CE4E5B9 - 2**64)
SECOND = tl.constexpr(0x94D049BB133111EB - 2**64)


def draw(log_probs: Tensor, noise: Tensor, positions: Tensor, temperature: float, room: int, top_k: int) -> Tensor:
    rows, vocab = log_probs.shape
    chosen = torch.empty(rows, dtype=torch.long, device=log_probs.device)
    slots = min(front.SLOTS, max(16, triton.next_power_of_2(vocab)))
    warps = max(1, min(16, slots // 256))
    (bits,) = struct.unpack("q", struct.pack("d", temperature))        # an argument that is a float has 32 bits
    each = log_probs, noise.contiguous(), positions.contiguous(), chosen, vocab, bits
    if room:
        size = triton.next_power_of_2(room)
        candidates = torch.empty(rows, size, dtype=torch.int32, device=log_probs.device)
        _of_the_likeliest[(rows,)](*each, candidates, top_k, slots, size, num_warps=warps)
    else:
        _of_all[(rows,)](*each, slots, num_warps=warps)
    return chosen


@triton.jit(do_not_specialize=["bits", "k"])
def _of_the_likeliest(
    log_probs, noise, positions, chosen, vocab, bits, candidates, k, SLOTS: tl.constexpr, ROOM: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    here, own = log_probs + row * vocab, candidates + row * ROOM
    slot = tl.arange(0, SLOTS)
    most = tl.full((SLOTS,), LOWEST, tl.int32)
    for first in range(0, vocab, SLOTS):
        most = tl.maximum(most, _keys(here, first + slot, vocab))
    bound = _largest(most, k)
    above, equal = 0, 0                                        # written down so far
    for first in range(0, vocab, SLOTS):
        at = first + slot
        key = _keys(here, at, vocab)
        both = tl.where(key > bound, 65536, tl.where(key == bound, 1, 0))
        so_far = tl.cumsum(both, 0)                            # two counts in one number
        place = above + (so_far >> 16) + tl.minimum(equal + (so_far & 65535), k) - 1
        taken = (both == 65536) | ((both == 1) & (equal + (so_far & 65535) <= k))
        tl.store(own + place, at, mask=taken)
        counted = tl.sum(both, 0)
        above += counted >> 16
        equal += counted & 65535
    tl.debug_barrier()                                         # what other threads wrote is to be read
    candidate = tl.arange(0, ROOM)
    there = candidate < above + tl.minimum(equal, k)
    at = tl.load(own + candidate, mask=there, other=0)
    z = tl.load(here + at, mask=there, other=-float("inf"))
    key = tl.where(there, _ordered(z), LOWEST)
    least = _largest(key, k)
    larger = key > least
    left = k - tl.sum(larger.to(tl.int32), 0)
    kept = larger | ((key == least) & there & (tl.cumsum((key == least).to(tl.int32), 0) <= left))
    weight = _weights(tl.where(kept, z, -float("inf")), tl.max(z, 0), bits)
    so_far = tl.cumsum(weight, 0)
    drawn = _uniform(tl.load(noise + row), tl.load(positions + row)) * tl.max(so_far, 0)
    place = tl.min(tl.where((so_far > drawn) & (weight > 0), candidate, ROOM), 0)
    place = tl.minimum(place, tl.max(tl.where(weight > 0, candidate, 0), 0))
    tl.store(chosen + row, tl.sum(tl.where(candidate == place, at, 0), 0).to(tl.int64))


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
def _largest(keys, k):
    """The k-th largest, by halving: the largest number that k keys reach."""
    low, high = tl.min(keys, 0).to(tl.int64), tl.max(keys, 0).to(tl.int64)
    while low < high:
        middle = (low + high + 1) >> 1
        enough = tl.sum((keys >= middle.to(tl.int32)).to(tl.int32), 0) >= k
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle - 1)
    return low.to(tl.int32)


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
