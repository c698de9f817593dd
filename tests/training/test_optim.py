"""The optimisers: plain descent by its equation, what is decayed, and that a saved state goes on as if never saved."""

import pytest
import torch
from torch import nn

from regard.layers.embedding import Embedding
from regard.layers.roles import MATRIX
from regard.training.optim import Optimizers
from regard.training.run import TrainRequest, run_training
from regard.training.settings import TrainingSettings


class Declared(nn.Linear):
    def parameter_roles(self):
        return {"weight": MATRIX}


def small():
    torch.manual_seed(0)
    model = nn.Module()
    model.embedding, model.stack = Embedding(5, 4, std=1.0), Declared(4, 4)
    return model.double()


def stepped(model, optimizers, steps, first=0):
    for step in range(first, first + steps):
        optimizers.zero_grad()
        x = torch.randint(5, (8,), generator=torch.Generator().manual_seed(step))
        model.stack(model.embedding(x)).square().sum().backward()
        optimizers.step()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_plain_descent_is_its_equation(momentum):
    model, theirs = small(), small()
    settings = TrainingSettings(optimizer="sgd", learning_rate=0.01, momentum=momentum, weight_decay=0.1)
    optimizers, speed = Optimizers(model, settings), {}
    stepped(model, optimizers, 3)
    for step in range(3):
        x = torch.randint(5, (8,), generator=torch.Generator().manual_seed(step))
        loss = theirs.stack(theirs.embedding(x)).square().sum()
        for (name, w), g in zip(theirs.named_parameters(), torch.autograd.grad(loss, theirs.parameters()), strict=True):
            g = g + (0.1 * w.detach() if name == "stack.weight" else 0)               # of matrices only
            speed[name] = momentum * speed.get(name, 0) + g
            w.data -= 0.01 * speed[name]
    for ours, own in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours, own)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd"])
def test_a_saved_state_goes_on_as_if_never_saved(optimizer, momentum):
    settings = TrainingSettings(optimizer=optimizer, learning_rate=0.01, momentum=momentum)
    through, before, after = small(), small(), small()
    stepped(through, Optimizers(through, settings), 5)
    first, second = Optimizers(before, settings), Optimizers(after, settings)
    stepped(before, first, 3)
    after.load_state_dict(before.state_dict())
    second.load({name: value.clone() for name, value in first.tensors().items()})
    stepped(after, second, 2, first=3)
    for one, other in zip(through.parameters(), after.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("said", "rate"), [({}, 0.3), ({"learning_rate": 0.05}, 0.05)], ids=["chosen", "said"])
def test_plain_descent_has_a_rate_of_its_own(said, rate, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 60)
    training = {"optimizer": "sgd", "steps": 4, "batch": 4, **said}
    model = run_training(TrainRequest((str(text),), family="lstm", out=str(tmp_path / "run"), device="cpu", params=5000,
                                      settings={"tokenizer": {"kind": "char"}, "training": training}))
    assert model.tables["training"]["learning_rate"] == rate
    assert f"SGD {rate:g}, " in capsys.readouterr().err
