"""Cross-attention: every score obeys the laws, beams share their source, and nothing beyond its end is read."""

import pytest
import torch

from regard.contract import Memory
from regard.errors import SettingError
from regard.laws import check_layer
from regard.layers.cross_attention import CrossAttention
from regard.layers.scores import SCORES
from regard.watching import watch

S, L, D, M = 2, 5, 8, 6


def memory(dtype=torch.float64):
    return Memory(torch.randn(S, L, M, dtype=dtype), torch.tensor([5, 3]))


def made(score="scaled-dot"):
    torch.manual_seed(0)
    return CrossAttention(D, M, heads=2, score=score, places=9).double()


@pytest.mark.parametrize("score", SCORES)
def test_every_score_obeys_the_laws(score):
    report = check_layer(made(score), memory=memory())
    assert report.ok, report.text()


@pytest.mark.parametrize("score", SCORES)
def test_the_beams_of_a_source_read_what_rows_of_their_own_would(score):
    layer, source = made(score), memory()
    x = torch.randn(3 * S, 4, D, dtype=torch.float64)
    together, _ = layer(x, layer.start(3 * S, None, source))
    for row in range(3 * S):
        own = Memory(source.vectors[row // 3][None], source.lengths[row // 3][None])
        alone, _ = layer(x[row:row + 1], layer.start(1, None, own))
        torch.testing.assert_close(together[row:row + 1], alone, rtol=0, atol=1e-12)
    with watch() as seen:
        watched, _ = layer(x, layer.start(3 * S, None, source))
    torch.testing.assert_close(watched, together, rtol=0, atol=1e-12)
    assert seen.of("weights")[0].values.shape == (3 * S, 2, 4, L)


def test_nothing_beyond_the_end_of_a_source_is_read():
    layer, source = made(), memory()
    with watch() as seen:
        layer(torch.randn(S, 4, D, dtype=torch.float64), layer.start(S, None, source))
    read = seen.of("weights")[0].values
    assert (read[1, :, :, 3:] == 0).all() and (read[0] > 0).all()
    torch.testing.assert_close(read.sum(-1), torch.ones(S, 2, 4, dtype=torch.float64))


def test_without_a_source_it_refuses():
    with pytest.raises(SettingError, match="start it with one"):
        made().start(1)
    with pytest.raises(SettingError, match="start it with one"):
        made()(torch.zeros(1, 1, D, dtype=torch.float64))
