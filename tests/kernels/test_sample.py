"""Drawing the next token by one kernel: what is drawn is what sampling.py defines."""

import importlib.util

import pytest
import torch

from regard.decoding.sampling import Sampling, choose_by, choose_next, row_noise, uniform
from regard.kernels import sample
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl

    from regard.kernels.cuda.sample import _reached

    @triton.jit
    def seek(keys, answer, k, most, low, high, count, SIZE: tl.constexpr, EDGES: tl.constexpr):
        bound, reached = _reached(tl.load(keys + tl.arange(0, SIZE)), k, most, low, high, count, EDGES)
        tl.store(answer, bound)
        tl.store(answer + 1, reached)


def keys_of_all_kinds(size):
    """As kernels see them: in the order of floats, below them all where there is no token; and such as no float has."""
    lowest, highest = -2**31, 2**31 - 1
    bits = torch.randn(size).log_softmax(-1).view(torch.int32)
    plain = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    padded, coarse = plain.clone(), plain // 2**20 * 2**20
    padded[size // 3:] = lowest
    return [plain, padded, coarse, torch.full((size,), -7), torch.full((size,), highest), torch.full((size,), lowest),
            torch.where(torch.arange(size) % 3 == 0, highest, lowest), torch.where(torch.rand(size) < 0.5, 5, 4),
            torch.arange(size) - size // 2, torch.randint(lowest, highest, (size,))]


def the_right_ones_reach_it(device, sizes):
    torch.manual_seed(0)
    for size, edges in sizes:
        for keys in keys_of_all_kinds(size):
            for k, most in ((1, 1), (2, 5), (size // 3, size // 3), (size // 3, size // 2), (size, size)):
                wide, narrow = (-2**31, 2**31 - 1), (int(keys.min()), int(keys.max()))
                for low, high in (wide, narrow):
                    sought(keys.to(device, torch.int32), k, most, low, high, edges)


def sought(keys, k, most, low, high, edges):
    answer = torch.empty(2, dtype=torch.int32, device=keys.device)
    seek[(1,)](keys, answer, k, most, low, high, len(keys), len(keys), edges)
    bound, count = answer.tolist()
    kth = int(keys.topk(k).values[-1])
    told_apart = int((keys >= kth).sum()) <= most
    assert k <= count <= most if told_apart else bound == kth, (keys, k, most, low, high)
    assert int((keys >= bound).sum()) == count, (keys, k, most, low, high)


def hard_rows(vocab, slots, top_k):
    """Rows for which the short ways are not enough, each in another way."""
    token, full = torch.arange(vocab), vocab // slots * slots
    slot, heaps = token % slots, max(16, 2 * triton.next_power_of_2(top_k))
    larger = (token // slots == 1) & (slot >= slots - 3)
    late = (token >= full) | ((token // slots == full // slots - 1) & (slot >= vocab - full))
    return torch.stack((
        -slot - token // slots / 1000.0,                       # the likeliest are crowded in few groups,
        token % heaps - heaps - token / 2e6,                   # or in few heaps of groups
        torch.where(larger, -1.0, -2.0),                       # nearly all are equal
        torch.where(late, -1.0, -2.0),                         # groups reach their maxima late, and not in their order
        torch.where(token % 3 == 0, 0.0, -0.0),
        torch.where(slot == 5, -1.5, -torch.inf),              # most are forbidden
    ))


def what_is_defined_is_drawn(vocab, top_k, device="cpu"):
    from regard.kernels.cuda import sample as sample_triton

    values, how = hard_rows(vocab, sample.SLOTS, top_k).to(device), Sampling(3.0, top_k)
    noise, room = row_noise(1, torch.arange(len(values), device=device)), sample.room(vocab, top_k)
    for position in range(2):
        positions = torch.full((len(values),), position, device=device)
        ours = sample_triton.sample_tokens(values, noise, positions, how.temperature, room, top_k)
        assert torch.equal(ours, choose_by(values, how, uniform(noise, positions))), (top_k, position)


@needs_triton
@without_gpu
def test_the_likeliest_are_found_in_the_interpreter():
    interpret(__file__)


@needs_triton
@needs_gpu
def test_the_likeliest_are_found_on_the_gpu():
    the_right_ones_reach_it("cuda", [(64, 8), (512, 8), (4096, 4)])
    for vocab, top_k in ((50_257, 200), (50_304, 40), (50_257, 300), (50_257, 600), (65, 5)):
        what_is_defined_is_drawn(vocab, top_k, "cuda")


@needs_triton
@without_gpu
@pytest.mark.parametrize("trial", ["likeliest", "everything"])
def test_they_draw_the_same_in_the_interpreter(trial):
    interpret("sample_interpreted.py", trial)


def test_there_is_room_for_every_candidate_or_the_kernel_is_not_asked():
    assert sample.room(50_304, 200) == 200 * 13                  # 13 to a group
    assert sample.room(100, 0) == sample.room(100, 100) == 0       # everything is kept
    assert sample.room(8_000, 4096) == 2 * 4096 == sample.MOST     # the most that a group can give
    assert sample.room(50_304, 5000) > sample.MOST
    assert not sample.can(torch.zeros(1, 10), 0, 1.0)            # on a CPU


@needs_triton
@needs_gpu
@pytest.mark.parametrize("vocab, top_k",
                         [(50_304, 200), (50_257, 40), (50_304, 0), (1000, 999), (65, 5), (300_000, 50)])
@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_they_draw_the_same_on_the_gpu(vocab, top_k, temperature):
    torch.manual_seed(0)
    values = (3 * torch.randn(64, vocab, device="cuda")).log_softmax(-1)
    values[::2] = values[::2].bfloat16().float()               # with ties
    values[3, 10:] = -torch.inf
    how, noise = Sampling(temperature, top_k), row_noise(1, torch.arange(64, device="cuda"))
    assert sample.can(values, top_k, 1.0)
    for position in range(20):
        positions = torch.full((64,), position, device="cuda")
        expected = choose_by(values, how, uniform(noise, positions))
        assert torch.equal(choose_next(values, how, noise, positions), expected)


@needs_triton
@needs_gpu
@pytest.mark.parametrize("options", [dict(top_k=3, top_p=0.5), dict(top_k=4000)], ids=str)
def test_what_they_cannot_do_is_left_to_torch(options):
    values = torch.randn(2, 50_000, device="cuda").log_softmax(-1)
    assert not sample.can(values, Sampling(**options).top_k, Sampling(**options).top_p)
    chosen = choose_next(values, Sampling(**options), *torch.zeros(2, 2, dtype=torch.long, device="cuda"))
    assert chosen.shape == (2,)


if __name__ == "__main__":                                     # in the interpreter, which is for a whole process
    the_right_ones_reach_it("cpu", [(32, 8), (64, 4)])
    sample.SLOTS = 32
    for vocab, top_k in ((33, 1), (100, 7), (130, 31)):
        what_is_defined_is_drawn(vocab, top_k)
