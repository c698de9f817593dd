"""Watching closely changes no number, of anything that is registered; and without it nothing more is recorded."""

import pytest
import torch

from regard.layers.attend import attend_by_definition
from regard.layers.self_attention import SelfAttention
from regard.watching import watch
from tests.laws.registered import layer_reader, model_reader, names


def hold(reader):
    for _, training, read in reader.ways_to_read():
        inputs = reader.draw(reader.batch, reader.time)
        with reader.mode(training=training):
            unseen = read(inputs)
            with watch(closely=True):
                seen = read(inputs)
            assert torch.equal(seen, unseen) and torch.equal(read(inputs), unseen)


@pytest.mark.parametrize("name", names("LAYERS"))
def test_a_layer_watched_closely_says_the_same(name):
    hold(layer_reader(name, "float32"))


@pytest.mark.parametrize("name", names("FAMILIES"))
def test_a_model_watched_closely_says_the_same(name):
    hold(model_reader(name, "float32"))


@pytest.mark.parametrize("name", names("LAYERS"))
def test_what_is_recorded_besides_is_recorded_closely_only(name):
    reader = layer_reader(name, "float32")
    inputs = reader.draw(reader.batch, reader.time)
    with reader.mode(training=False):
        with watch() as plain:
            reader.whole(inputs)
        with watch(closely=True) as close:
            reader.whole(inputs)
    assert len(plain.readings) == len(close.readings)
    for one, other in zip(plain.readings, close.readings, strict=True):
        assert torch.equal(one.values, other.values)
        assert set(one.about) < set(other.about) or one.kind == "back-off"
        assert not {"q", "scores", "delta", "output"} & set(one.about)


@pytest.mark.parametrize("beams", [1, 3])
def test_rows_that_read_one_source_side_by_side_are_recorded_each_by_itself(beams):
    from regard.contract import Memory
    from regard.layers.cross_attention import CrossAttention

    torch.manual_seed(0)
    layer = CrossAttention(8, 8, heads=2).eval()
    memory = Memory(torch.randn(2, 5, 8), torch.tensor([5, 3]))
    with torch.no_grad(), watch(closely=True) as seen:
        layer(torch.randn(2 * beams, 4, 8), layer.start(2 * beams, 4, memory))
    about = seen.readings[0].about
    again = attend_by_definition(about["q"], about["k"], about["v"], mask=about["allowed"])
    torch.testing.assert_close(again, about["output"])


def test_what_is_recorded_of_a_cache_stays_when_the_cache_is_written_on():
    torch.manual_seed(0)
    layer, x = SelfAttention(8, heads=2, window=2).eval(), torch.randn(1, 4, 8)
    state = layer.start(1, 4)
    with torch.no_grad(), watch(closely=True) as seen:
        for t in range(4):
            _, state = layer(x[:, t:t + 1], state)
    first = seen.readings[0].about
    again = attend_by_definition(first["q"], first["k"], first["v"], mask=first["allowed"])
    torch.testing.assert_close(again, first["output"])
