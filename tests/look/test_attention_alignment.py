"""What a target reads of its source: the same at once and step by step, in its place, and only of the source."""

import pytest
import torch

from regard.contract import Source
from regard.decoding.source_attention import reads_source, source_weights
from regard.errors import RunError
from regard.families.family import randomised
from regard.families.translate import (
    TRANSLATE,
    AttentionSettings,
    PairTransformerSettings,
    PrefixSettings,
    Vocabularies,
    build_prefix,
    build_recurrent,
    build_transformer,
)
from regard.look.attention_alignment import AttentionErrors, read_of_source, stacked, word_links
from regard.metrics.alignment_error import Gold
from regard.watching import watch

SMALL = dict(layers=2, width=8, heads=2, context=32, dropout=0.0)
MADE = {
    "transformer": (build_transformer, PairTransformerSettings(**SMALL)),
    "additive": (build_transformer, PairTransformerSettings(score="additive", **SMALL)),
    "mamba": (build_transformer, PairTransformerSettings(mixer="mamba", **SMALL)),
    "prefix": (build_prefix, PrefixSettings(**SMALL)),
    "after": (build_recurrent, AttentionSettings(width=6, hidden=8, dropout=0.0)),
    "before": (build_recurrent, AttentionSettings(width=6, hidden=8, when="before", heads=2, dropout=0.0)),
    "feeding": (build_recurrent, AttentionSettings(width=6, hidden=8, feeding=True, dropout=0.0)),
}
HEADS = {"after": (1, 1), "before": (1, 2), "feeding": (1, 1)}
SOURCE = Source(torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]]), torch.tensor([5, 3]))
TOKENS, LENGTHS = torch.tensor([[1, 5, 9, 4], [1, 7, 0, 0]]), torch.tensor([4, 2])


@pytest.fixture(params=MADE)
def named(request):
    torch.manual_seed(0)
    build, settings = MADE[request.param]
    return request.param, randomised(build(settings, Vocabularies(11, 11))).double().eval()


def test_there_is_a_map_for_every_layer_and_head(named):
    name, model = named
    layers = read_of_source(model, SOURCE, TOKENS, LENGTHS)
    count, heads = HEADS.get(name, (2, 2))
    assert [each for each, _ in layers] == [f"layer {number}" for number in range(1, count + 1)]
    assert stacked(layers).shape == (count, 2, heads, 4, 5)
    for _, weights in layers:
        sums = weights[0].sum(-1)
        assert (weights >= 0).all() and (sums <= 1 + 1e-9).all()
        assert (weights[1, :, :2, 3:] == 0).all()                      # pads of the source
        if name != "prefix":
            torch.testing.assert_close(sums, torch.ones_like(sums))


def test_a_row_is_what_was_read_at_the_step_that_predicts_its_token(named):
    _, model = named
    at_once = stacked(read_of_source(model, SOURCE, TOKENS, LENGTHS))
    with torch.no_grad():
        state = model.start(2, 8, SOURCE)
        for t in range(TOKENS.shape[1]):
            with watch() as seen:
                _, state = model.step(TOKENS[:, t:t + 1], state)
            step = source_weights(model, SOURCE, seen.readings, rows=2, whole=False)
            for layer, weights in enumerate(step):
                torch.testing.assert_close(weights[0, :, 0], at_once[layer, 0, :, t])
                if t < LENGTHS[1]:
                    torch.testing.assert_close(weights[1, :, 0], at_once[layer, 1, :, t])


def test_company_changes_nothing_and_the_mode_is_put_back(named):
    _, model = named
    model.train()
    together = stacked(read_of_source(model, SOURCE, TOKENS, LENGTHS))
    assert model.training
    alone = stacked(read_of_source(model, Source(SOURCE.items[1:, :3], None), TOKENS[1:, :2]))
    torch.testing.assert_close(together[:, 1:, :, :2, :3], alone)


def test_beams_of_one_source_read_it_side_by_side(named):
    _, model = named
    tokens = TOKENS.repeat_interleave(2, 0)
    both = stacked(read_of_source(model, SOURCE, tokens, LENGTHS.repeat_interleave(2)))
    torch.testing.assert_close(both[:, ::2], stacked(read_of_source(model, SOURCE, TOKENS, LENGTHS)))


@pytest.mark.parametrize("reader", ["none", "mean"])
def test_a_model_without_attention_is_told_from_others(reader):
    model = build_recurrent(AttentionSettings(width=6, hidden=8, reader=reader), Vocabularies(11, 11))
    assert not reads_source(model)
    with pytest.raises(RunError, match="this model has no attention to its source"):
        read_of_source(model, SOURCE, TOKENS, LENGTHS)


def test_every_family_says_whether_it_reads():
    reading = {name: reads_source(family.example(torch.float32)) for name, family in TRANSLATE.items()}
    assert reading == {"transformer": True, "rnn-attention": True, "rnn": False, "prefix": True}


# ------------------------------------------------------------------------------------------- words and rates


def test_links_are_between_words_and_a_word_without_pieces_has_none():
    weights = torch.tensor([[0.4, 0.1, 0.1, 0.4], [0.0, 0.3, 0.4, 0.3], [0.5, 0.1, 0.2, 0.2], [0.1, 0.0, 0.0, 0.9]])
    # The first source word is one piece, the second two; target words 0 (two pieces) and 2 are there, and 1 is not.
    assert word_links(weights, [0, 1, 1, -1], [0, 0, 2, -1]) == {(1, 0), (0, 2)}
    assert word_links(weights, [-1] * 4, [0, 0, 2, -1]) == set()


def test_error_rates_are_kept_for_every_head_and_pooled_before_they_are_counted():
    right, wrong = torch.eye(3), torch.eye(3).flip(0)
    errors, gold = AttentionErrors(), Gold(frozenset({(0, 0), (1, 1), (2, 2)}))
    weights = torch.stack([torch.stack([right, 0.4 * wrong]), torch.stack([wrong, wrong])])
    for _ in range(2):
        errors.add(weights, range(3), range(3), gold)
    told = errors.as_dict()
    assert errors.best == (1, 1) and told["aer_best"] == 0 and told["aligned_pairs"] == 2
    assert told["aer_heads"][0][0] == 0 and told["aer_heads"][1] == pytest.approx([2 / 3, 2 / 3])
    assert told["aer_layers"] == pytest.approx([0, 2 / 3]) and told["aer"] == pytest.approx(2 / 3)
