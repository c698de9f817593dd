"""The step of a model that was drawn, compiled or recorded, beside its eager one."""

from contextlib import contextmanager
from unittest.mock import patch

import torch

from regard.decoding.fast import recorded_stream
from regard.decoding.fast.recorded_stream import RecordedSteps
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens


@torch.no_grad()
def difference_compiled(reader):
    """What differs between the steps, or nothing. On a CPU the graph is traced and run without a compiler's arithmetic.
    """
    torch._dynamo.reset()
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        if reader.device.type == "cpu":
            return graph.forward
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(graph, inputs)

    model, tokens = reader.thing, reader.draw(reader.batch, reader.time)[..., 0]
    step = torch.compile(model.step, fullgraph=True, backend=keep, dynamic=False)
    ours, theirs = reader.start(reader.batch, reader.time), reader.start(reader.batch, reader.time)
    for at in range(reader.time):
        token = tokens[:, at:at + 1].contiguous()
        expected, ours = model.step(token, ours)
        got, theirs = step(token, theirs)
        if not torch.allclose(got, expected, rtol=0, atol=1e-12):
            return f"step {at + 1} differs by {(got - expected).abs().max():.1e}"
    return "" if len(graphs) == 1 else f"{len(graphs)} graphs were compiled"


@contextmanager
def all_recorded(device):
    """Every model and length is recorded; without a GPU the step itself stands in for its recording."""
    with patch.object(recorded_stream, "fits", lambda model, new_tokens: True):
        if device.type == "cuda":
            yield
        else:
            with patch.object(RecordedSteps, "record", lambda self: None):
                yield


def difference_recorded(model, choose):
    """What differs between texts written by recorded steps and plain ones, or nothing."""
    prompts = [[choose(range(model.vocab)) for _ in range(choose((1, 2, 5)))] for _ in range(choose((1, 2, 3)))]
    sampling = choose((Sampling(temperature=0), Sampling(seed=3), Sampling(0.8, top_k=2, seed=5),
                       Sampling(0.9, top_p=0.8, seed=4)))
    told = []

    def texts(notice):
        return list(generate_tokens(model, prompts, new_tokens=20, sampling=sampling, notice=notice))

    with all_recorded(model.device):
        recorded, again = texts(told.append), texts(told.append)
    if refused := [line for line in told if "one by one" in line]:
        return refused[0]
    with patch.object(recorded_stream, "fits", lambda model, new_tokens: False):
        plain = texts(told.append)
    return "" if recorded == again == plain else f"other tokens after {prompts}, {sampling}"
