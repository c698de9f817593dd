"""The laws over every registered layer, in every code path: eval, train, cached, compiled."""

import pytest
import torch

from regard.laws import LAYER_LAWS
from regard.laws.law import same

from .registered import hold, layer_reader, names, trials


@pytest.mark.parametrize(("law", "dtype"), trials(LAYER_LAWS))
@pytest.mark.parametrize("name", names("LAYERS"))
def test_the_layer_keeps_the_law(name, law, dtype):
    hold(LAYER_LAWS[law], layer_reader(name, dtype))


@pytest.mark.parametrize("name", names("LAYERS"))
def test_in_train_mode_too_a_cut_changes_nothing(name):
    reader = layer_reader(name, "float64")
    inputs = reader.draw(reader.batch, reader.time)
    with reader.mode(training=True):
        whole, cut = reader.whole(inputs), reader.in_chunks(inputs, [1, 2, reader.time - 3])
    same("cuts", cut, whole, "in train mode")


@pytest.mark.parametrize("name", names("LAYERS"))
def test_a_compiled_whole_read_gives_the_same(name):
    torch._dynamo.reset()
    reader = layer_reader(name, "float64", time=4)                     # a recurrence is written out step by step
    inputs = reader.draw(reader.batch, reader.time)
    compiled = torch.compile(reader.whole, backend="aot_eager")
    with reader.mode(training=True):
        same("compiled", compiled(inputs), reader.whole(inputs), "compiled, in train mode")
