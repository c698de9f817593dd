"""Claims about distance, parallelism, cost, memory, masking, scaling and averages: their measures on known cases."""

import math

import pytest
import torch
from torch import nn

from regard.kernels.scan import scan, scan_loop
from regard.lab.claims import (
    exclusive_or,
    generation_memory,
    interaction_distance,
    masking,
    nonlinearity,
    parallelism,
    quadratic,
    scaling,
)
from regard.lab.experiment import Experiment, Setting
from regard.lab.in_the_open import OpenDot, depth_of
from regard.lab.stopwatch import crossover, exponent, kept_bytes, law, seconds
from regard.lab.tiny import language_model
from regard.lab.verdict import HOLDS, judge
from regard.layers.self_attention import SelfAttention


def verdict(experiment: Experiment, *, flipped: str = "", seeds: int = 1) -> str:
    ran = [{arm.name: arm.run(Setting(seed, quick=True, flipped=flipped)) for arm in experiment.arms}
           for seed in range(seeds)]
    return judge(experiment, ran)[0]


# ------------------------------------------------------------------------------------------- the instruments


def test_operations_in_a_chain_are_counted_and_those_side_by_side_are_not() -> None:
    x = torch.ones(4)
    assert depth_of(lambda: ((x + 1) * 2).exp()) == 3
    assert depth_of(lambda: [x + 1, x + 2, x + 3]) == 1
    assert depth_of(lambda: (x + 1).view(2, 2)[0].sum()) == 2             # looking at a part is no operation


def test_a_loop_waits_for_each_of_its_steps() -> None:
    a, b = torch.rand(1, 40, 3), torch.rand(1, 40, 3)
    assert depth_of(lambda: scan_loop(a, b)) == 2 * 40 + 2               # a product and a sum each; zeros, the stack


def test_a_result_written_into_a_part_of_a_tensor_is_waited_for() -> None:
    room, x = torch.zeros(3), torch.ones(3)

    def work() -> None:
        room[0:1] = (x + 1)[:1]                                           # 2 deep
        room.exp()                                                        # 3

    assert depth_of(work) == 3


def test_exponents_and_crossovers_of_laws_that_are_known() -> None:
    x = [1.0, 2.0, 4.0]
    assert exponent(x, [3 * each**2 for each in x]) == pytest.approx(2)
    square, line = law(x, [each**2 for each in x]), law(x, [100 * each for each in x])
    assert crossover(square, line) == pytest.approx(100)
    assert crossover(line, square) == math.inf


def test_memory_for_the_way_back_counts_each_storage_once() -> None:
    weight = nn.Parameter(torch.ones(8, 8))
    x = torch.ones(16, 8)
    assert kept_bytes(lambda: x @ weight, "cpu") == 4 * 16 * 8           # the input, for the weight's gradient
    assert kept_bytes(lambda: (x @ weight).exp(), "cpu") == 2 * 4 * 16 * 8
    assert kept_bytes(lambda: (x @ weight) + (x.T.T @ weight), "cpu") == 4 * 16 * 8


def test_a_stopwatch_warms_up_and_repeats() -> None:
    calls = []
    assert seconds(lambda: calls.append(1), "cpu", repeats=3, warm=2) >= 0
    assert len(calls) == 5


def test_attention_in_the_open_is_the_same_attention() -> None:
    torch.manual_seed(0)
    layer, x = SelfAttention(8, heads=2).double(), torch.randn(2, 7, 8, dtype=torch.float64)
    fused, _ = layer(x)
    layer.score = OpenDot()
    torch.testing.assert_close(layer(x)[0], fused, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------- claims


def test_masking_holds_and_without_the_mask_does_not() -> None:
    assert verdict(masking.EXPERIMENT) == HOLDS
    assert verdict(masking.EXPERIMENT, flipped="mask") != HOLDS


def test_operations_of_an_rnn_follow_the_text_and_those_of_a_transformer_do_not() -> None:
    tokens = torch.ones(1, 64, dtype=torch.long)
    rnn = language_model("rnn", 8, width=8, hidden=8)
    transformer = language_model("transformer", 8, width=8, layers=1, heads=1, context=64)
    assert depth_of(lambda: rnn.encode(tokens)) - depth_of(lambda: rnn.encode(tokens[:, :32])) >= 32
    assert depth_of(lambda: transformer.encode(tokens)) == depth_of(lambda: transformer.encode(tokens[:, :32]))
    assert parallelism.scans(Setting(quick=True))["apart"] < 1e-10


def test_writing_waits_for_each_word_and_layers_side_by_side_do_not_wait() -> None:
    models = [language_model("transformer", 8, width=8, layers=layers, heads=1, context=64) for layers in (1, 3)]
    short, long = (parallelism.operations_of_writing(models[0], n) for n in (8, 16))
    assert long - short == 8 * (short // 8)
    stacked = [parallelism.operations(each, 16) for each in models]
    beside = [parallelism.operations_side_by_side(each, 16) for each in models]
    assert beside[1] == beside[0] and stacked[1] > 2 * stacked[0]
    linear = language_model("linear-rnn", 8, width=8, layers=1)
    assert parallelism.operations_by_loop(linear, 64) > parallelism.operations(linear, 64) + 60


def test_pieces_that_are_not_carried_equal_the_scan_in_the_first_piece_alone() -> None:
    a, b = torch.rand(2, 64, 3).double(), torch.randn(2, 64, 3).double()
    pieces, whole = parallelism.scan_pieces(a, b), scan(a, b)
    torch.testing.assert_close(pieces[:, :32], whole[:, :32])
    assert (pieces[:, 32] - whole[:, 32]).abs().max() > 1e-3
    torch.testing.assert_close(pieces[:, 32], b[:, 32])                   # begins at zero


def test_a_sum_over_all_pairs_is_the_scan() -> None:
    a, b = torch.rand(2, 20, 3).double(), torch.randn(2, 20, 3).double()
    torch.testing.assert_close(quadratic.sum_over_pairs(a, b), scan_loop(a, b))
    layer, x = quadratic.LAYERS["linear-rnn"]("cpu"), torch.randn(1, 20, quadratic.WIDTH)
    torch.testing.assert_close(quadratic.without_state(layer, x), quadratic.whole(layer, x), rtol=1e-4, atol=1e-5)
    held = [kept_bytes(lambda n=n: quadratic.without_state(layer, torch.randn(1, n, quadratic.WIDTH)), "cpu")
            for n in (64, 256)]
    assert exponent((64, 256), held) > 1.7


def test_prefixes_whose_keys_are_kept_cost_no_more_than_one_product() -> None:
    layer, x = SelfAttention(8, heads=2, positions="none").double(), torch.randn(1, 16, 8, dtype=torch.float64)
    layer.score = OpenDot()
    once, kept, anew = (masking.counted(work) for work in (
        lambda: layer(x), lambda: masking.word_by_word(layer, x), lambda: masking.every_prefix(layer, x)))
    assert kept <= 1.1 * once < anew / 4


def test_the_shortest_way_through_an_rnn_grows_by_the_same_number_for_each_word() -> None:
    model = language_model("rnn", 8, width=interaction_distance.WIDTH, hidden=8)
    ways = [interaction_distance.operations_between(model, k) for k in (1, 2, 3, 10)]
    step = ways[1] - ways[0]
    assert step > 0 and ways == [ways[0] + step * (k - 1) for k in (1, 2, 3, 10)]


def test_the_gradient_over_a_distance_is_that_of_a_known_decay() -> None:
    model = language_model("linear-rnn", 40, width=interaction_distance.WIDTH, layers=1, form="matrix").double()
    layer = model.stack.layers[0].mixer
    model.stack = layer                                                   # nothing but the recurrence
    model.norm = nn.Identity()
    with torch.no_grad():
        layer.w_h.copy_(0.5 * torch.eye(len(layer.w_h)))
        layer.out.weight.copy_(torch.eye(len(layer.w_h)))
    near, far = (interaction_distance.gradient(model, torch.full((2, k + 1), 5)) for k in (1, 4))
    assert far / near == pytest.approx(0.5**3)


def test_the_cache_of_a_transformer_grows_and_a_recurrent_state_does_not() -> None:
    own = generation_memory.SETTINGS["transformer"] | {"context": 512}
    transformer = language_model("transformer", 8, width=8, **own)
    sizes = [transformer.start(1, n).nbytes() for n in (64, 128, 256)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0]) > 0
    windowed = language_model("transformer", 8, width=8, window=32, **own)
    assert windowed.start(1, 64).nbytes() == windowed.start(1, 256).nbytes()
    state = generation_memory.after(transformer, 100, 8)
    said, state = transformer.step(torch.full((1, 1), 4), state)
    assert torch.isfinite(said).all() and int(state.tensors()["layers.0.count"]) == 101


def test_naive_attention_keeps_a_square_and_fused_attention_and_windows_a_line() -> None:
    def held(layer: SelfAttention, read: object, length: int) -> int:
        x = torch.randn(1, length, quadratic.WIDTH, requires_grad=True)
        return kept_bytes(lambda: read(layer, x), "cpu")                  # type: ignore[operator]

    naive, fused = quadratic.LAYERS["naive"]("cpu"), quadratic.LAYERS["fused"]("cpu")
    assert exponent((256, 1024), [held(naive, quadratic.whole, n) for n in (256, 1024)]) > 1.5     # type: ignore[arg-type]
    assert exponent((256, 1024), [held(fused, quadratic.whole, n) for n in (256, 1024)]) < 1.05    # type: ignore[arg-type]
    assert exponent((256, 1024), [held(naive, quadratic.in_windows, n) for n in (256, 1024)]) < 1.05   # type: ignore[arg-type]


def test_the_variance_of_a_product_is_its_width_and_with_the_scale_one() -> None:
    plain, scaled = (scaling.drawn(Setting(), scaled) for scaled in (False, True))
    assert plain["variance"][-1] == pytest.approx(1024, rel=0.05)
    assert scaled["variance"][-1] == pytest.approx(1, rel=0.05)
    assert plain["gradient"][-1] < scaled["gradient"][-1]


def test_a_stack_of_attention_is_an_average_and_with_feed_forward_layers_it_is_not() -> None:
    assert nonlinearity.averages(Setting(), False)["largest"] < 1e-12
    assert min(nonlinearity.averages(Setting(), False)["least"]) >= 0
    assert nonlinearity.averages(Setting(), True)["largest"] > 1e-3


def test_the_best_matrix_is_found_where_there_is_one_and_feed_forward_layers_leave_none() -> None:
    average, matrix = torch.randn(4, 10, 8).double(), torch.randn(8, 8).double()
    torch.testing.assert_close(nonlinearity.best_matrix(average @ matrix, average), matrix)
    with_feed, linear = (nonlinearity.averages(Setting(), True, linear)["least_apart"] for linear in (False, True))
    assert linear < 1e-10 and with_feed > 1e-3


def test_the_answer_is_the_exclusive_or_of_the_two_bits_in_the_text() -> None:
    batch = exclusive_or.exclusive_or(200, 0, 0)
    a = (batch.tokens == exclusive_or.A1).any(1)
    b = (batch.tokens == exclusive_or.B1).any(1)
    assert batch.targets[batch.counts].tolist() == (exclusive_or.A0 + (a ^ b).long()).tolist()
    assert ((batch.tokens == exclusive_or.A1) | (batch.tokens == exclusive_or.A0)).sum(1).tolist() == [1] * 200
    assert 0.35 < float((a ^ b).float().mean()) < 0.65
