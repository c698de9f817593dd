"""Recurrent decoders: each way to read the source obeys the laws and is its equation."""

import pytest
import torch

from regard.contract import Memory
from regard.errors import SettingError
from regard.laws import check_layer
from regard.layers.attentive import CELLS, AttentiveRecurrence
from regard.layers.scores import SCORES
from regard.watching import watch

S, L, D, N, M = 2, 5, 4, 6, 8
EXACT = {"rtol": 0, "atol": 1e-12}
WAYS = [dict(reader="none"), dict(reader="mean"), dict(reader="mean", when="before"), dict(), dict(when="before"),
        dict(feeding=True), dict(heads=2, score="dot"), dict(cell="lstm", layers=2, when="before"),
        dict(cell="lstm", layers=2, feeding=True)]


def memory():
    return Memory(torch.randn(S, L, M, dtype=torch.float64), torch.tensor([5, 3]),
                  torch.randn(S, M, dtype=torch.float64))


def made(**options):
    torch.manual_seed(0)
    return AttentiveRecurrence(D, N, d_memory=M, d_summary=M, places=9, **options).double()


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_every_way_to_read_obeys_the_laws(options):
    report = check_layer(made(**options), memory=memory())
    assert report.ok, report.text()


@pytest.mark.parametrize("options", [*(dict(cell=cell) for cell in CELLS), *(dict(score=score) for score in SCORES)],
                         ids=str)
def test_every_cell_and_every_score_obeys_the_laws(options):
    report = check_layer(made(**options), memory=memory())
    assert report.ok, report.text()


def by_hand(layer, x, source):
    """One row, one step after another, straight from the equations at the top of the file."""
    keys = layer.reader.start(Memory(source.vectors[:1], source.lengths[:1], source.summary[:1]))
    h = torch.tanh(layer.bridge(source.summary[:1])).view(1, 1, N)
    fed, outputs = torch.zeros(1, 1, N, dtype=torch.float64), []
    for now in x[:1].split(1, 1):
        if layer.when == "before":
            context = layer.reader(torch.cat((now, h), -1), keys, None)
            now = torch.relu(layer.combine(torch.cat((now, context), -1)))
        if layer.feeding:
            now = torch.cat((now, fed), -1)
        (h,) = layer.cell.equation(now[:, 0], (h[:, 0],), layer.cell.weights(0))
        h = y = h[:, None]
        if layer.when == "after":
            y = fed = torch.tanh(layer.combine(torch.cat((h, layer.reader(h, keys, None)), -1)))
        outputs.append(y)
    return torch.cat(outputs, 1)


@pytest.mark.parametrize(
    "options", [dict(), dict(when="before"), dict(feeding=True), dict(cell="rnn", score="bilinear")], ids=str)
def test_a_decoder_is_its_equations(options):
    layer, source = made(**options), memory()
    x = torch.randn(S, 7, D, dtype=torch.float64)
    y, _ = layer(x, layer.start(S, None, source))
    torch.testing.assert_close(y[:1], by_hand(layer, x, source), **EXACT)


def test_without_attention_the_source_passes_through_its_summary_alone():
    layer, source = made(reader="none"), memory()
    x = torch.randn(S, 7, D, dtype=torch.float64)
    other = Memory(torch.randn_like(source.vectors), source.lengths, source.summary)
    one, two = (layer(x, layer.start(S, None, each))[0] for each in (source, other))
    torch.testing.assert_close(one, two, **EXACT)


@pytest.mark.parametrize("options", [dict(), dict(when="before"), dict(feeding=True)], ids=str)
def test_a_watcher_sees_one_map_of_all_steps(options):
    layer, source = made(**options), memory()
    with watch() as seen:
        layer(torch.randn(S, 7, D, dtype=torch.float64), layer.start(S, None, source))
    (reading,) = seen.of("weights")
    assert reading.values.shape == (S, 1, 7, L) and reading.layer is layer


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(SettingError, match=r"model.reader.*atention"):
        made(reader="atention")
    with pytest.raises(SettingError, match=r"model.when.*during"):
        made(when="during")
    with pytest.raises(SettingError, match=r"model.feeding"):
        made(feeding=True, when="before")
    with pytest.raises(SettingError, match="start it with one"):
        made().start(1)
