"""An n-gram's answer is the sum of what its orders give, whatever the smoothing; a matrix recurrence has its norm."""

import numpy as np
import pytest
import torch

from regard.layers.linear_recurrence import MatrixRecurrence
from regard.look import Request, look
from regard.look.arithmetic import arithmetic
from regard.look.arithmetic_kernel import kernel_sheet
from regard.models.ngram import NGram
from regard.tasks.lm.trained import Trained
from regard.watching import watch
from tests.look import models
from tests.look.redoing import largest_difference, redo


def counted(**how):
    t = models.tokenizer()
    ids = t.encode(models.TEXT)
    model = NGram.fit(np.append(ids, t.eos), np.array([len(ids) + 1]), vocab=t.vocab_size, order=3, **how)
    return Trained(model, t, {"run": {"family": "ngram", "task": "lm"}, "model": {}})


@pytest.mark.parametrize("how", [{"smoothing": "kneser-ney"}, {"smoothing": "add-k", "k": 0.5}, {"smoothing": "none"},
                                 {"smoothing": "kneser-ney", "counts": False},
                                 {"smoothing": "kneser-ney", "prune": (0, 0, 1)}])
@pytest.mark.parametrize("text", ["the cat sat on the mat", "zebra cat the", "dog by cat"])
def test_the_shares_of_all_orders_are_the_probability(how, text):
    trained = counted(**how)
    seen = look(trained, Request(text=text))
    for row, said in enumerate(seen.predictions):
        told = arithmetic(trained, seen, "back-off", 1, 1, row, 0)
        assert largest_difference(told) < 1e-6
        assert redo(told)["p"] == pytest.approx(said.p, abs=1e-6)
        assert len(told.names["orders"]) == 3
    if how["smoothing"] == "kneser-ney" and how.get("counts", True):
        found = told.quantities
        assert found["share"].values.sum() + found["rest"].values == pytest.approx(said.p, abs=1e-6)
        assert [step.title for step in told.steps] == ["Counts", "Discount", "Back-off", "Shares, added up"]


def test_counts_are_those_of_the_text():
    trained = counted()
    seen = look(trained, Request(text="the cat sat"))
    told = arithmetic(trained, seen, "back-off", 1, 1, 2, 0)         # after `the cat`
    read = trained.tokenizer.encode(models.TEXT).tolist()
    context = [token.id for token in seen.sides["text"].tokens[1:3]]
    target = seen.predictions[2].id
    assert told.quantities["count"].values[2] == sum(
        read[at:at + 3] == [*context, target] for at in range(len(read) - 2))
    assert told.quantities["total"].values[2] == sum(
        read[at:at + 2] == context for at in range(len(read) - 1))


def test_a_matrix_recurrence_shows_the_size_of_its_powers():
    torch.manual_seed(0)
    layer = MatrixRecurrence(3, 4)
    with torch.no_grad(), watch(closely=True) as seen:
        layer(torch.randn(1, 6, 3))
    sheet = kernel_sheet(seen.readings[0], 0, 4, 1)
    expected = torch.linalg.norm(layer.w_h @ layer.w_h @ layer.w_h @ layer.w_c)
    assert float(sheet.quantities["size"].values) == pytest.approx(float(expected.detach()), abs=1e-5)
    assert largest_difference(sheet) < 1e-5
    assert kernel_sheet(seen.readings[0], 0, 1, 4).quantities["size"].values == 0
