"""A static-shape step compiles as one graph, once, and never again."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from .static_decoder import StaticDecoder

STEPS = 8


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def generate(step, model, batch=2):
    """Log-probabilities of each of a few greedy steps."""
    state, token, said = model.start(batch, STEPS), torch.zeros(batch, 1, dtype=torch.long), []
    for _ in range(STEPS):
        following, state = step(token, state)
        token = following.argmax(-1, keepdim=True)
        said.append(following)
    return torch.stack(said, 1), state


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_step_compiles_whole_and_only_once(backend):
    torch.manual_seed(0)
    model = StaticDecoder().double()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model.step, fullgraph=True, backend=counter)
    with torch.no_grad():
        expected, _ = generate(model.step, model)
        got, state = generate(compiled, model)
        again, _ = generate(compiled, model)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(again, expected, rtol=0, atol=1e-12)
    assert counter.frame_count == 1, f"compiled {counter.frame_count} times"
    assert state.count.tolist() == [STEPS, STEPS]


def test_a_prefill_of_rows_of_different_lengths_compiles_whole():
    torch.manual_seed(0)
    model = StaticDecoder().double()
    tokens, lengths = torch.randint(7, (3, 5)), torch.tensor([5, 0, 2])
    compiled = torch.compile(model.step, fullgraph=True, backend="eager")
    with torch.no_grad():
        expected, _ = model.step(tokens, model.start(3, 8), lengths)
        got, _ = compiled(tokens, model.start(3, 8), lengths)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
