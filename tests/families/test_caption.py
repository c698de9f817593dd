"""Captioners: every choice builds, obeys the laws that choices could break, learns, or is refused in one line."""

import pytest
import torch

from regard.config import fill
from regard.contract import Source
from regard.errors import SettingError
from regard.families.caption import (
    CAPTION,
    CaptionAttentionSettings,
    CaptionTransformerSettings,
    build_recurrent,
    build_transformer,
    example_source,
)
from regard.families.family import randomised
from regard.families.fit import TOLERANCE, fit_parameters, parameters
from regard.families.hybrid import MIXERS
from regard.families.sizes import Scale
from regard.laws import ModelReader
from regard.laws.model_laws import MODEL_LAWS
from regard.layers.scores import SCORES
from regard.models.vision import GRIDS, STEMS
from regard.training.optim import Optimizers
from regard.training.settings import TrainingSettings
from regard.watching import watch

PICTURE = dict(image=8, patch=4, context=32, dropout=0.0)
RECURRENT = dict(PICTURE, width=8, hidden=8)
ATTENTIVE = dict(PICTURE, layers=1, encoder_layers=1, width=8, heads=2)
CHOICES = [
    *((build_recurrent, CaptionAttentionSettings(**RECURRENT, cell=cell)) for cell in ("rnn", "relu", "lstm")),
    *((build_recurrent, CaptionAttentionSettings(**RECURRENT, score=score)) for score in SCORES),
    (build_recurrent, CaptionAttentionSettings(**RECURRENT, when="before")),
    (build_recurrent, CaptionAttentionSettings(**RECURRENT, feeding=True, heads=2)),
    (build_recurrent, CaptionAttentionSettings(**RECURRENT, reader="mean", stem="linear")),
    (build_recurrent, CaptionAttentionSettings(**RECURRENT, reader="none")),
    (build_recurrent, CaptionAttentionSettings(**RECURRENT, layers=2, encoder_layers=2, heads=2)),
    *((build_transformer, CaptionTransformerSettings(**ATTENTIVE, score=score)) for score in SCORES),
    *((build_transformer, CaptionTransformerSettings(**ATTENTIVE, stem=stem, grid=grid))
      for stem in STEMS for grid in GRIDS),
    *((build_transformer, CaptionTransformerSettings(**ATTENTIVE, positions=positions))
      for positions in ("learned", "sinusoidal", "alibi", "none")),
    *((build_transformer, CaptionTransformerSettings(**ATTENTIVE, mixer=mixer)) for mixer in MIXERS),
    (build_transformer, CaptionTransformerSettings(**(ATTENTIVE | dict(encoder_layers=0)), placement="post")),
]


@pytest.mark.parametrize("build, settings", CHOICES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("law", ["cuts", "causality", "padding", "source"])
def test_every_choice_obeys_the_laws(build, settings, law):
    torch.manual_seed(0)
    model = randomised(build(settings, 11)).double().eval()
    MODEL_LAWS[law].check(ModelReader(model, example_source()))


@pytest.mark.parametrize("name", CAPTION)
def test_another_picture_gives_other_scores_and_gradients_reach_every_weight(name):
    model = CAPTION[name].example(torch.float64)
    tokens, targets = torch.tensor([[1, 4, 5], [1, 6, 0]]), torch.tensor([[4, 5, 2], [6, 2, 0]])
    pixels, lengths = example_source().items, torch.tensor([3, 2])
    scores, state = model.learn(tokens, targets, None, lengths, pixels, None)
    assert state is None and not torch.equal(scores, model.learn(tokens, targets, None, lengths, 255 - pixels, None)[0])
    scores.sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", CAPTION)
def test_without_a_picture_nothing_is_said(name):
    model, tokens = CAPTION[name].example(torch.float64), torch.tensor([[1, 4]])
    for unread in (lambda: model.start(1), lambda: model.score(tokens, tokens)):
        with pytest.raises(SettingError, match=r"needs something to read, a text or a picture: start it with a source"):
            unread()


@pytest.mark.parametrize("name", CAPTION)
def test_every_word_says_which_patches_it_was_read_from(name):
    model = CAPTION[name].example(torch.float64)
    tokens = torch.tensor([[1, 4, 5], [1, 6, 7]])
    with watch() as seen:
        model.score(tokens, tokens, model.start(2, None, example_source()))
    rows, columns = model.encoder.grid
    maps = [each.values for each in seen.of("weights") if each.values.shape[-2:] == (3, rows * columns)]
    assert maps
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


# A square of one of three colours in one of two halves: who learns it has read colours and places.
COLOURS = torch.tensor([[230, 30, 30], [30, 200, 40], [40, 60, 230]], dtype=torch.uint8)


def squares(number, seed):
    random = torch.Generator().manual_seed(seed)
    colour, side, top, left = (torch.randint(0, most, (number,), generator=random) for most in (3, 2, 11, 3))
    pixels = torch.randint(90, 130, (number, 3, 16, 16), generator=random, dtype=torch.uint8)
    for picture, c, s, y, x in zip(pixels, colour, side, top, left, strict=True):
        picture[:, y:y + 5, x + 8 * s:x + 8 * s + 5] = COLOURS[c][:, None, None]
    tokens = torch.stack((torch.ones_like(colour), 4 + colour, 7 + side), 1)
    return pixels, tokens, torch.cat((tokens[:, 1:], torch.full((number, 1), 2)), 1)


@pytest.mark.parametrize("name", CAPTION)
@pytest.mark.parametrize("stem", STEMS)
def test_it_learns_to_say_what_is_to_be_seen_and_where(name, stem):
    torch.manual_seed(0)
    small = dict(image=16, patch=4, width=32, heads=2, layers=1, dropout=0.0, stem=stem)
    model = CAPTION[name].build(CAPTION[name].settings(**small), 9)
    settings = TrainingSettings(steps=100, optimizer="muon", learning_rate=5e-3)
    optimizers = Optimizers(model, settings)
    pixels, tokens, targets = squares(512, 0)
    for step in range(settings.steps):
        rows = torch.arange(64 * step, 64 * step + 64) % 512
        optimizers.zero_grad()
        scores, _ = model.learn(tokens[rows], targets[rows], None, None, pixels[rows], None)
        (-scores.mean()).backward()
        optimizers.step()
    pixels, tokens, targets = squares(200, 1)
    with torch.no_grad():
        said, _ = model.score(tokens, targets, model.start(200, None, Source(pixels)))
    assert (said.sum(1) > -0.7).double().mean() > 0.9      # one in two is given, at least, to the right caption


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("name", CAPTION)
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("minutes", [0.01, 4.0, 60.0])
@pytest.mark.parametrize("wanted", [{}, {"model": {"width": "36"}}])
def test_every_scale_gets_settings_that_are_allowed(name, gpu, minutes, wanted):
    family = CAPTION[name]
    sizes = family.sizes(Scale(tokens=10**5, vocab=40, gpu=gpu, minutes=minutes), wanted)
    fill(TrainingSettings, sizes.training, "training")
    settings = fill(family.settings, {**sizes.model, **wanted.get("model", {})}, "model")
    assert settings.width % settings.heads == 0


@pytest.mark.parametrize("name", CAPTION)
def test_a_family_has_the_parameters_asked_for(name):
    family = CAPTION[name]
    settings = fit_parameters(family, family.settings(), 40, 1_000_000)
    assert abs(parameters(family, settings, 40) - 1_000_000) <= TOLERANCE * 1_000_000


@pytest.mark.parametrize("name", CAPTION)
@pytest.mark.parametrize("wrong, message", [
    (dict(score="aditive"), "did you mean additive"), (dict(stem="linaer"), "did you mean linear"),
    (dict(grid="lerned"), "did you mean learned"), (dict(image=50), "model.patch = 8: a picture of 50 x 50"),
    (dict(patch=0), "model.patch = 0"), (dict(image=8192), "model.image = 8192: must be at most"),
    (dict(encoder_layers=-1), "model.encoder_layers = -1"), (dict(heads=5), "heads"), (dict(context=0), "context"),
    (dict(dropout=1.0), "model.dropout"), (dict(patch=12), "model.patch = 12.*model.stem = linear")])
def test_what_cannot_be_is_refused_in_one_line(name, wrong, message):
    with pytest.raises(SettingError, match=message) as caught:
        CAPTION[name].settings(**wrong)
    assert "\n" not in str(caught.value)
