"""The Transformer in full: every choice builds, reads, saves and obeys the laws that choices could break."""

import pytest
import torch

from regard.errors import SettingError
from regard.families.family import randomised
from regard.families.transformer import POSITIONS, TransformerSettings, build_transformer
from regard.laws import ModelReader
from regard.laws.model_laws import MODEL_LAWS
from regard.watching import watch

SMALL = dict(layers=2, width=16, heads=4, context=32)
CHOICES = [
    *({"positions": positions} for positions in POSITIONS), {"placement": "post"}, {"norm": "rms"}, {"kv_heads": 2},
    {"activation": "relu"}, {"activation": "swiglu"}, {"f": "tanh"}, {"f": "relu", "positions": "none"},
    {"window": 3}, {"window": 3, "positions": "alibi", "kv_heads": 1}, {"window": 4, "positions": "learned"},
    {"head_width": 6}, {"heads": 3, "head_width": 4, "value_width": 5, "f": "gelu"},
    {"kv_heads": 2, "head_width": 3, "value_width": 7, "positions": "alibi", "window": 3}, {"value_width": 3},
    {"qk_norm": True}, {"softcap": 2.0, "tied": True}, {"attention_softcap": 2.0},
    {"bias": "all"}, {"bias": "qkv", "norm": "rms", "activation": "swiglu"}, {"parallel": True, "bias": "all"},
    {"rotary_share": 0.5, "rotary_base": 100.0}, {"positions": "alibi", "heads": 3, "head_width": 4},
    {"activation": "silu", "eps": 1e-2}, {"logit_bias": True, "tied": True, "softcap": 3.0},
]


def built(**choices):
    torch.manual_seed(0)
    return randomised(build_transformer(TransformerSettings(**SMALL | choices), 11)).double().eval()


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("law", ["cuts", "steps", "causality", "padding", "probabilities", "parameters", "watching"])
def test_every_choice_obeys_the_laws(choices, law):
    MODEL_LAWS[law].check(ModelReader(built(**choices)))


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_choice_starts_by_knowing_nothing_and_learns_by_gradient(choices):
    model = build_transformer(TransformerSettings(**SMALL | choices), 11)
    tokens = torch.randint(4, 11, (8, 33), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(12):
        loss = -model.score(tokens[:, :-1], tokens[:, 1:])[0].mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert abs(losses[0] - torch.log(torch.tensor(11.0))) < 0.1 and losses[-1] < losses[0]


def test_the_logits_stay_within_the_cap():
    model = built(softcap=2.0)
    with torch.no_grad():
        model.head.weight.mul_(1000)
    log_probs, _ = model.step(torch.tensor([[5, 6]]), model.start(1, 8))
    assert log_probs.max() - log_probs.min() <= 4.0 + 1e-9


def test_a_window_over_distances_reads_on_for_ever_and_other_models_do_not():
    assert built(window=3).context is None and built(window=3, positions="alibi").context is None
    assert built(window=3, positions="learned").context == 32 and built().context == 32


def test_post_norm_ends_with_a_norm_and_has_no_other():
    tokens = torch.tensor([[4, 5, 6]])
    vectors, _ = build_transformer(TransformerSettings(**SMALL, placement="post"), 11).encode(tokens)
    torch.testing.assert_close(vectors.mean(-1), torch.zeros(1, 3), rtol=0, atol=1e-5)


def test_watching_gives_the_weights_of_every_layer():
    with watch() as seen:
        built(kv_heads=2, window=3).score(torch.tensor([[4, 5, 6]]), torch.tensor([[5, 6, 7]]))
    assert [reading.values.shape for reading in seen.of("weights")] == [(1, 4, 3, 3)] * 2


@pytest.mark.parametrize("wrong, message", [
    ({"positions": "rotory"}, "did you mean rotary"), ({"placement": "middle"}, "model.placement"),
    ({"placement": "post", "parallel": True}, "choose model.placement = pre, or model.parallel = false"),
    ({"bias": "some"}, "model.bias = 'some'"), ({"eps": 0.0}, "model.eps = 0.0: must be at least 1e-12"),
    ({"rotary_share": 0.3}, r"^model.rotary_share = 0.3 of 4 channels is no whole number of pairs: try "
     r"model.rotary_share = 0.5, or 1 for all of them$"),
    ({"rotary_base": 0.0}, "model.rotary_base = 0.0"), ({"rotary_share": 1.5}, "must be at most 1"),
    ({"f": "sin"}, "model.f"), ({"window": -1}, "model.window = -1"), ({"kv_heads": 3}, "try model.kv_heads = 2"),
])
def test_a_choice_that_does_not_exist_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        TransformerSettings(**SMALL, **wrong)
