"""Forward and backward: what they add to the gradients, eager, compiled and recorded. Recording needs a GPU; its rules
do not."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from regard.training import recorded_step, step
from regard.training.recorded_step import RecordedForwardBackward, tensors_of
from regard.training.settings import TrainingSettings
from regard.training.step import ForwardBackward, make_forward_backward
from tests import toy_pairs
from tests.toy_pairs import pairs, tokenizers, translator

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def batch(number=6, seed=0):
    from regard.data.batching.pair_batches import Pairs
    from regard.tasks.translate.trained import shard_of

    t = tokenizers()
    source, target = zip(*pairs(number, seed), strict=True)
    return Pairs(shard_of(t.source, source), shard_of(t.target, target), budget=200, widths=8).batch(0)


def make(model, wish):
    return make_forward_backward(model, TrainingSettings(compile=wish, precision="float32"), print)


def recording(model, say, bfloat16=False, compiled=False):
    eager = ForwardBackward(model, bfloat16=bfloat16, compiled=compiled, cast_once=False)
    return RecordedForwardBackward(eager, model, say, compiled=compiled)


def gradients(model):
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def batches():
    """One of each kind, with rows of unequal lengths or tokens hidden."""
    from regard.data.batching.text_batches import Batch, SparseBatch

    tokens, targets = torch.tensor([[1, 4, 5], [1, 6, 0]]), torch.tensor([[4, 5, 2], [6, 2, 0]])
    return [Batch(tokens, targets, torch.tensor([3, 2])), SparseBatch(tokens, targets), batch()]


@pytest.mark.parametrize("piece", batches(), ids=lambda piece: type(piece).__name__)
def test_a_piece_masks_by_the_inputs_it_was_given(piece):
    inputs = {name: None if each is None else each.flip(0) for name, each in tensors_of(piece).items()}
    ones = torch.ones_like(piece.targets, dtype=torch.float32)
    found = replace(piece, **inputs).mask(ones)
    assert torch.equal(found, piece.mask(ones).flip(0)) and not torch.equal(found, piece.mask(ones))


def test_pieces_add_up_to_the_whole():
    model, whole = translator("transformer").model, batch()
    run = ForwardBackward(model, bfloat16=False)
    loss, state = run(whole, None, 1 / whole.real)
    expected, both = gradients(model), 0.0
    model.zero_grad()
    for first in (0, 3):
        part, _ = run(whole.rows(first, first + 3), None, 1 / whole.real)
        both += part
    assert state is None and torch.allclose(both, loss, atol=1e-12)
    for name, found in gradients(model).items():
        assert torch.allclose(found, expected[name], atol=1e-12), name


def test_the_wish_decides_and_capture_needs_a_gpu():
    model = translator("transformer").model
    made = {wish: make(model, wish) for wish in ("capture", "no", "auto", "yes")}
    assert all(type(run) is ForwardBackward and not run.recorded for run in made.values())
    assert all((run.loss != model.loss) == run.compiled == (wish == "yes") for wish, run in made.items())


@pytest.mark.parametrize("wish, small, recorded, compiled", [
    ("auto", True, True, True), ("auto", False, False, True), ("capture", False, True, False),
    ("graphs", False, True, True), ("yes", True, False, True), ("no", True, False, False)])
def test_on_a_gpu_small_models_are_recorded_and_all_compiled_unless_one_says(
        wish, small, recorded, compiled, monkeypatch):
    model = translator("transformer").model
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    monkeypatch.setattr(step, "MOST_RECORDED", 10**9 if small else 10)
    monkeypatch.setattr(step.products, "prepare", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    run = make(model, wish)
    eager = run.eager if recorded else run
    assert isinstance(run, RecordedForwardBackward) == run.recorded == recorded and eager.cast_once != recorded
    assert (eager.loss != model.loss) == eager.compiled == run.compiled == compiled


class Stream:
    def wait_stream(self, other):
        pass


@pytest.fixture
def recorded(monkeypatch):
    """A recorded pass whose graphs are only noted down."""
    from contextlib import nullcontext

    made, said = [], []

    class Graph:
        def __init__(self, owner, batch):
            made.append(batch.tokens.shape)
            self.owner = owner

        def __call__(self, batch, share):
            return self.owner.eager(batch, None, share)[0]

    monkeypatch.setattr(recorded_step, "Graph", Graph)
    monkeypatch.setattr(recorded_step, "half_is_free", lambda device: True)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    model = translator("transformer").model
    return SimpleNamespace(run=recording(model, said.append), model=model, made=made, said=said)


def test_a_shape_is_recorded_when_it_has_come_often_enough(recorded):
    piece = batch()
    for time in range(4):
        recorded.model.zero_grad(set_to_none=True)
        recorded.run(piece, None, 1.0)
        assert len(recorded.made) == (time >= recorded_step.RECORDED_AFTER)


def test_nothing_is_recorded_where_memory_is_short_and_what_was_is_given_up(recorded, monkeypatch):
    def often(piece):
        for _ in range(recorded_step.RECORDED_AFTER + 2):
            recorded.model.zero_grad(set_to_none=True)
            recorded.run(piece, None, 1.0)

    often(batch(12, 0))
    monkeypatch.setattr(recorded_step, "half_is_free", lambda device: False)
    often(batch(14, 0))
    assert len(recorded.run.graphs) == len(recorded.made) == 1 and len(recorded.said) == 1
    recorded.run.free_graphs()
    assert not recorded.run.graphs


@pytest.mark.parametrize("held, most", [(1, 1), (2**32, 2)])
def test_graphs_of_a_large_model_are_few_as_each_holds_its_gradients(held, most, recorded, monkeypatch):
    monkeypatch.setattr(recorded_step, "MOST_HELD", held)
    run = recording(recorded.model, print)
    for piece in (batch(12, 0), batch(14, 0)):
        for _ in range(recorded_step.RECORDED_AFTER + 1):
            recorded.model.zero_grad(set_to_none=True)
            run(piece, None, 1.0)
    assert len(run.graphs) == most


def test_gradients_that_are_there_already_are_added_to_and_not_overwritten(recorded):
    piece = batch()
    for _ in range(3):
        recorded.model.zero_grad(set_to_none=True)
        recorded.run(piece, None, 1.0)
    once = gradients(recorded.model)
    recorded.run(piece, None, 1.0)                                 # as in the second piece of a batch
    for name, found in gradients(recorded.model).items():
        assert torch.allclose(found, 2 * once[name]), name


def test_what_cannot_be_recorded_goes_on_as_it_is_and_is_said_once(recorded, monkeypatch):
    def refuses(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(recorded_step, "Graph", refuses)
    piece, losses = batch(), set()
    for _ in range(5):
        recorded.model.zero_grad(set_to_none=True)
        losses.add(recorded.run(piece, None, 1.0)[0].item())
    assert len(losses) == 1 and len(recorded.said) == 1
    assert "not permitted when stream is capturing)" in recorded.said[0]


@CUDA
@pytest.mark.parametrize("name", ["transformer", "rnn-attention", "prefix"])
def test_a_recorded_pass_equals_the_pass_as_it_is(name):
    model = translator(name, dtype=torch.float32).model.cuda().train()      # cuDNN goes back in training only
    plain, run = ForwardBackward(model, bfloat16=False), recording(model, print)
    for seed in (0, 1, 2, 0, 1, 2, 3, 4):
        piece = batch(12, seed).to(torch.device("cuda"))
        model.zero_grad(set_to_none=True)
        expected, _ = plain(piece, None, 1 / piece.real)
        wanted = gradients(model)
        model.zero_grad(set_to_none=True)
        found, _ = run(piece, None, 1 / piece.real)
        assert torch.allclose(found, expected, atol=1e-5)
        for weight, own in gradients(model).items():
            assert torch.allclose(own, wanted[weight], atol=1e-4), weight
    assert run.graphs and not run.refused


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "swiglu"])
def test_what_is_worked_out_again_is_the_same_and_is_not_kept(activation):
    from regard.data.batching.text_batches import Batch
    from regard.families.transformer import TransformerSettings, build_transformer
    from regard.lab.stopwatch import kept_bytes

    torch.manual_seed(0)
    settings = TransformerSettings(layers=4, width=16, heads=2, context=32, activation=activation)
    model, tokens = build_transformer(settings, 20).double(), torch.randint(20, (4, 32))
    piece, found, kept = Batch(tokens, tokens.roll(-1, 1)), {}, {}
    for recompute in ("no", "some", "activations"):
        run = ForwardBackward(model, bfloat16=False, recompute=recompute)
        kept[recompute] = kept_bytes(lambda: model.loss(piece.tokens, piece.targets, torch.ones(4, 32))[0], "cpu")
        model.zero_grad(set_to_none=True)
        run(piece, None, 1 / 128)
        found[recompute] = gradients(model)
    for name, gradient in found["no"].items():
        torch.testing.assert_close(found["some"][name], gradient, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found["activations"][name], gradient, rtol=1e-10, atol=1e-12)
    layer = 4 * 32 * model.stack.layers[-1].feed.down.in_features * 8                 # positions x inner
    assert kept["no"] - kept["activations"] >= 4 * layer
    assert 4 * (kept["no"] - kept["some"]) == kept["no"] - kept["activations"]        # of one layer of four


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="needs a C++ compiler")
def test_a_compiled_pass_on_a_cpu_equals_the_pass_as_it_is(monkeypatch):
    monkeypatch.setitem(toy_pairs.SETTINGS, "prefix", replace(toy_pairs.SETTINGS["prefix"], layers=1))
    model, piece = translator("prefix", dtype=torch.float32).model.train(), batch(12)
    loss, _ = ForwardBackward(model, bfloat16=False)(piece, None, 1 / piece.real)
    wanted = gradients(model)
    model.zero_grad(set_to_none=True)
    found, _ = ForwardBackward(model, bfloat16=False, compiled=True)(piece, None, 1 / piece.real)
    assert torch.allclose(found, loss, rtol=1e-5)
    for name, gradient in gradients(model).items():
        assert torch.allclose(gradient, wanted[name], rtol=1e-3, atol=1e-6), name


@CUDA
def test_a_compiled_pass_recorded_equals_the_pass_as_it_is():
    model = translator("transformer", dtype=torch.float32).model.cuda().train()
    plain = ForwardBackward(model, bfloat16=False)
    run = recording(model, pytest.fail, compiled=True)
    for _ in range(recorded_step.RECORDED_AFTER + 3):
        piece = batch(12).to(torch.device("cuda"))
        model.zero_grad(set_to_none=True)
        expected, _ = plain(piece, None, 1 / piece.real)
        wanted = gradients(model)
        model.zero_grad(set_to_none=True)
        found, _ = run(piece, None, 1 / piece.real)
        assert torch.allclose(found, expected, rtol=1e-4)
        for name, gradient in gradients(model).items():
            assert torch.allclose(gradient, wanted[name], rtol=1e-3, atol=1e-5), name
    assert len(run.graphs) == 1


@CUDA
@pytest.mark.parametrize("compiled", [False, True])
def test_random_numbers_go_on_after_recordings_and_after_one_that_failed(compiled, monkeypatch):
    """Dropout is drawn anew in every replay, and a recording that fails changes no number."""
    def losses(refuse):
        model, said = translator("transformer", dtype=torch.float32).model.cuda().train(), []
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.5
        run = recording(model, said.append, bfloat16=True, compiled=compiled)
        with monkeypatch.context() as patch:
            if refuse:
                real = run.eager

                def waits(*given):
                    loss, after = real(*given)
                    if torch.cuda.is_current_stream_capturing():
                        loss.item()
                    return loss, after

                patch.setattr(run, "eager", waits)
            torch.manual_seed(0)
            piece, found = batch(12).to(torch.device("cuda")), []
            for _ in range(7):
                model.zero_grad(set_to_none=True)
                found.append(run(piece, None, 1 / piece.real)[0].item())
        assert (len(run.graphs), len(said)) == ((0, 1) if refuse else (1, 0))
        return found

    recorded, refused = losses(False), losses(True)
    assert recorded == pytest.approx(refused, rel=2e-3) and len(set(recorded)) == len(recorded)
