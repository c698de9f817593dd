"""The compiled step of a model that was drawn, beside its eager one."""

import torch


@torch.no_grad()
def difference_compiled(reader):
    """What differs between the steps, or nothing. The graph is traced and run without a compiler's arithmetic."""
    torch._dynamo.reset()
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

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
