"""Every neural family steps with static shapes: one graph, compiled once, serves a whole generation."""

import pytest
import torch

from regard.families import FAMILIES

NEURAL = [name for name, family in FAMILIES.items() if family.build is not None]


@pytest.mark.parametrize("name", NEURAL)
def test_a_step_compiles_once_as_one_graph_and_gives_the_same(name):
    torch._dynamo.reset()
    model = FAMILIES[name].example(torch.float64)
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model.step, fullgraph=True, backend=count, dynamic=False)
    with torch.no_grad():
        ours, theirs = model.start(3, 8), model.start(3, 8)
        for _ in range(6):
            tokens = torch.randint(model.vocab, (3, 1))
            expected, ours = model.step(tokens, ours)
            got, theirs = compiled(tokens, theirs)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    assert len(graphs) == 1
