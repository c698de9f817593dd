"""cuBLASLt, the library in which torch itself multiplies on NVIDIA's GPUs, asked directly: for one of its
algorithms for matrices of some shape, and for GELU in its epilogue.

For each shape the library lists algorithms, the one it thinks best first. The fastest is found once, by timing them on
the very matrices that have come; while a CUDA graph is being recorded nothing can be timed, and the first is taken, as
it is where the same bits are wanted every time.
Numbers in the library's calls are those of its header. Its matrices stand column by column: a product in rows, C = A B,
is to it C^T = B^T A^T.   m, n, k: rows and columns of C^T, and what is summed over
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")         # as torch has loaded it already
TYPES = {torch.bfloat16: 14, torch.float16: 2}
FLOAT32, IN_FLOAT32 = 0, 68                               # the type of a scale, and of sums
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, AUX, AUX_LD = 3, 4, 7, 11, 12
MOST_WORKSPACE, ALIGNED = 1, (5, 6, 7, 8)                 # of a preference
PLAIN, GELU, SLOPE = 1, 32 | 128, 64 | 128                # epilogues; the last two with a matrix beside
ROOM = 64 * 2**20                                         # bytes of workspace that a product may use
MOST_HEURISTICS, ROUNDS, TRIES = 16, 5, 3


class Shape(NamedTuple):
    """The sizes and types that a plan is made for."""

    m: int
    n: int
    k: int
    turned: tuple[bool, bool]                             # whether the library is to transpose its A and its B
    leading: tuple[int, int]                              # from one column to the next, of both
    dtype: torch.dtype
    epilogue: int
    aligned: int                                          # bytes that all addresses are multiples of
    device: int
    timed: bool = True                                    # algorithms are tried out; else the first one is taken


# ------------------------------------------------------------------------------------------ what others call


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    return _run(a, b, PLAIN, None, out)


def sum_of_products(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """a[0] b[0] + a[1] b[1] + ...: each is added to what is there."""
    c = a[0].new_empty(a[0].shape[0], b[0].shape[1])
    for number, (left, right) in enumerate(zip(a, b, strict=True)):
        _run(left, right, PLAIN, None, c, add=number > 0)
    return c


def products_in_rows(a: Sequence[Tensor], b: Tensor) -> Tensor:
    """a[0]^T b above a[1]^T b above ..."""
    sizes = [each.shape[1] for each in a]
    c = b.new_empty(sum(sizes), b.shape[1])
    for left, part in zip(a, c.split(sizes), strict=True):
        _run(left.t(), b, PLAIN, None, part)
    return c


def product_gelu(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    pre = a.new_empty(a.shape[0], b.shape[1])
    return _run(a, b, GELU, pre), pre


def product_slope(a: Tensor, b: Tensor, pre: Tensor) -> Tensor:
    return _run(a, b, SLOPE, pre.contiguous())


@cache
def why_not(device: torch.device) -> str:
    """Why the library is not to be used; empty where it is. Small products are tried out once."""
    try:
        with torch.cuda.device(device):
            return "" if _right(device) else "cuBLASLt's products are wrong here"
    except (OSError, AttributeError, RuntimeError) as error:
        return f"cuBLASLt cannot be used ({str(error).splitlines()[0]})"


def _right(device: torch.device) -> bool:
    generator = torch.Generator(device).manual_seed(0)
    a, b, pre = (torch.randn(size, device=device, generator=generator).bfloat16()
                 for size in ((64, 32), (32, 48), (64, 48)))
    act, ours = product_gelu(a, b)
    x = pre.float().requires_grad_()
    (slope,) = torch.autograd.grad(torch.nn.functional.gelu(x, approximate="tanh").sum(), x)
    pairs = ((product(a, b), a @ b), (product(a, b.t().contiguous().t()), a @ b),
             (product(a.t().contiguous().t(), b), a @ b), (ours, a @ b),
             (act, torch.nn.functional.gelu((a @ b).float(), approximate="tanh")),
             (product_slope(a, b, pre), (a @ b).float() * slope), (sum_of_products((a, a), (b, b)), 2 * (a @ b)),
             (products_in_rows((a, pre), a), torch.cat((a, pre), 1).t() @ a))
    return all(torch.allclose(x.float(), y.float(), rtol=0.02, atol=0.05) for x, y in pairs)


# ------------------------------------------------------------------------------------------------ a product


def _run(
    a: Tensor, b: Tensor, epilogue: int, beside: Tensor | None, c: Tensor | None = None, add: bool = False
) -> Tensor:
    """a (M, K) times b (K, N): (M, N), with what the epilogue does to it or reads from beside it; in the place of what
    is in c, or added to it."""
    (a, turn_a, lead_a), (b, turn_b, lead_b) = _in_lines(a), _in_lines(b)
    c = a.new_empty(a.shape[0], b.shape[1]) if c is None else c
    aligned = _alignment(a, b, c, *(() if beside is None else (beside,)))
    shape = Shape(b.shape[1], a.shape[0], a.shape[1], (turn_b, turn_a), (lead_b, lead_a), a.dtype, epilogue, aligned,
                  a.device.index, not torch.are_deterministic_algorithms_enabled())
    plan = _plan(shape)
    if plan.heuristic is None:
        plan.choose(b, a, torch.empty_like(c) if add else c, beside)
    plan(b, a, c, beside, add)
    return c


def _in_lines(x: Tensor) -> tuple[Tensor, bool, int]:
    """A matrix whose rows or columns are whole lines of memory, whether it is the columns, and from line to line."""
    rows, columns = x.shape
    if x.stride(1) == 1 and x.stride(0) >= columns:
        return x, False, x.stride(0)
    if x.stride(0) == 1 and x.stride(1) >= rows:
        return x, True, x.stride(1)
    return x.contiguous(), False, columns


def _alignment(*tensors: Tensor) -> int:
    together = 256
    for each in tensors:
        together |= each.data_ptr()
    return together & -together


@lru_cache(4096)
def _plan(shape: Shape) -> Plan:
    return Plan(shape)


class Heuristic(ctypes.Structure):
    """The library's description of one of its algorithms."""

    _fields_ = [("algorithm", c_uint64 * 8), ("room", c_size_t), ("state", c_int), ("waves", c_float),
                ("reserved", c_int * 4)]


class Plan:
    """The algorithm by which matrices of one shape are multiplied."""

    def __init__(self, shape: Shape):
        self.shape, self.heuristic = shape, None
        self.lt = _library()
        self.handle = _handle(shape.device)
        self.about = c_void_p()
        self.check(self.lt.cublasLtMatmulDescCreate(byref(self.about), c_int(IN_FLOAT32), c_int(FLOAT32)))
        self.set(TRANSPOSE_A, c_int(shape.turned[0]))
        self.set(TRANSPOSE_B, c_int(shape.turned[1]))
        self.set(EPILOGUE, c_int(shape.epilogue))
        if shape.epilogue != PLAIN:
            self.set(AUX_LD, c_int64(shape.m))
        m, n, k = shape[:3]
        self.a = self.layout(k, m, shape.leading[0]) if shape.turned[0] else self.layout(m, k, shape.leading[0])
        self.b = self.layout(n, k, shape.leading[1]) if shape.turned[1] else self.layout(k, n, shape.leading[1])
        self.c = self.layout(m, n, m)
        self.one, self.zero = c_float(1.0), c_float(0.0)

    heuristic: Heuristic | None

    def __call__(self, a: Tensor, b: Tensor, c: Tensor, beside: Tensor | None, add: bool = False) -> None:
        assert self.heuristic is not None
        self.check(self.multiply(self.heuristic, a, b, c, beside, add))

    def multiply(
        self, heuristic: Heuristic, a: Tensor, b: Tensor, c: Tensor, beside: Tensor | None, add: bool = False
    ) -> int:
        stream = torch.cuda.current_stream(c.device).cuda_stream
        if beside is not None:
            self.set(AUX, c_void_p(beside.data_ptr()))
        return self.lt.cublasLtMatmul(                                                # type: ignore[no-any-return]
            self.handle, self.about, byref(self.one), c_void_p(a.data_ptr()), self.a, c_void_p(b.data_ptr()), self.b,
            byref(self.one if add else self.zero), c_void_p(c.data_ptr()), self.c, c_void_p(c.data_ptr()), self.c,
            byref(heuristic.algorithm), c_void_p(_room(c.device, stream).data_ptr()), c_size_t(ROOM), c_void_p(stream))

    def choose(self, a: Tensor, b: Tensor, c: Tensor, beside: Tensor | None) -> None:
        """Choose the fastest algorithm on these matrices; c is overwritten. They take turns, as a GPU that works
        hard grows hot, and slower."""
        heuristics = self.list_heuristics(beside)
        if torch.cuda.is_current_stream_capturing() or not self.shape.timed:
            self.heuristic = heuristics[0]
            return
        rounds = [[self.time(each, a, b, c, beside) for each in heuristics] for _ in range(ROUNDS)]
        taken = [statistics.median(times) for times in zip(*rounds, strict=True)]
        self.heuristic = heuristics[taken.index(min(taken))]

    def time(self, heuristic: Heuristic, a: Tensor, b: Tensor, c: Tensor, beside: Tensor | None) -> float:
        """Milliseconds; without end if the library cannot do it after all."""
        if self.multiply(heuristic, a, b, c, beside):
            return float("inf")
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(TRIES):
            self.multiply(heuristic, a, b, c, beside)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / TRIES

    def list_heuristics(self, beside: Tensor | None) -> list[Heuristic]:
        if beside is not None:
            self.set(AUX, c_void_p(beside.data_ptr()))
        preference, results, count = c_void_p(), (Heuristic * MOST_HEURISTICS)(), c_int()
        self.check(self.lt.cublasLtMatmulPreferenceCreate(byref(preference)))
        room, aligned = c_size_t(ROOM), c_uint32(self.shape.aligned)
        prefer = self.lt.cublasLtMatmulPreferenceSetAttribute
        self.check(prefer(preference, c_int(MOST_WORKSPACE), byref(room), c_size_t(8)))
        for each in ALIGNED:
            self.check(prefer(preference, c_int(each), byref(aligned), c_size_t(4)))
        self.check(self.lt.cublasLtMatmulAlgoGetHeuristic(
            self.handle, self.about, self.a, self.b, self.c, self.c, preference, c_int(MOST_HEURISTICS), results,
            byref(count)))
        self.check(self.lt.cublasLtMatmulPreferenceDestroy(preference))
        return list(results)[:count.value]

    def set(self, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        self.check(self.lt.cublasLtMatmulDescSetAttribute(self.about, c_int(attribute), byref(value), size))

    def layout(self, rows: int, columns: int, leading: int) -> c_void_p:
        made, kind = c_void_p(), c_int(TYPES[self.shape.dtype])
        self.check(self.lt.cublasLtMatrixLayoutCreate(
            byref(made), kind, c_uint64(rows), c_uint64(columns), c_int64(leading)))
        return made

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"cuBLASLt gives status {status} for {self.shape}")


# --------------------------------------------------------------------------------------------- the library


@cache
def _library() -> Any:
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


@cache
def _handle(device: int) -> c_void_p:
    handle = c_void_p()
    with torch.cuda.device(device):
        if status := _library().cublasLtCreate(byref(handle)):
            raise RuntimeError(f"cuBLASLt gives status {status} at its start")
    return handle


@lru_cache(64)
def _room(device: torch.device, stream: int) -> Tensor:
    """Each stream's own: products of one stream follow one another."""
    return torch.empty(ROOM, dtype=torch.uint8, device=device)
