"""The laws over every registered family, in every code path: eval, train, cached, compiled."""

import pytest
import torch

from regard.contract import Learner
from regard.laws import MODEL_LAWS
from regard.laws.law import bit_equal, same

from .registered import hold, model_reader, names, trials


@pytest.mark.parametrize(("law", "dtype"), trials(MODEL_LAWS))
@pytest.mark.parametrize("name", names("FAMILIES"))
def test_the_family_keeps_the_law(name, law, dtype):
    hold(MODEL_LAWS[law], model_reader(name, dtype))


@pytest.mark.parametrize("name", names("FAMILIES"))
def test_in_train_mode_too_a_cut_changes_nothing(name):
    reader = model_reader(name, "float64")
    inputs = reader.draw(reader.batch, reader.time)
    with reader.mode(training=True):
        whole, cut = reader.whole(inputs), reader.in_chunks(inputs, [1, 2, reader.time - 3])
    same("cuts", cut, whole, "in train mode", dtype=reader.dtype)


@pytest.mark.parametrize("name", names("FAMILIES"))
def test_a_compiled_score_gives_the_same_and_sees_no_future(name):
    torch._dynamo.reset()
    reader = model_reader(name, "float64", time=4)                     # a recurrence is written out step by step
    if not isinstance(reader.thing, Learner):
        pytest.skip("it is not compiled: it does not learn by gradients")
    inputs = reader.draw(reader.batch, reader.time)
    changed = inputs.clone()
    changed[:, -1] = (changed[:, -1] + 1) % reader.thing.vocab
    compiled = torch.compile(reader.whole, backend="aot_eager")
    with reader.mode(training=True):
        scores = compiled(inputs)
        same("compiled", scores, reader.whole(inputs), "compiled, in train mode", dtype=reader.dtype)
        bit_equal("causality", compiled(changed)[:, :-1], scores[:, :-1], "compiled, after the last token changed")
