"""The laws over every label model there is, and the bugs that each law is there for."""

import os

import pytest
import torch
from torch import nn

from regard.families.label_families import average_family, label_families
from regard.laws.answer_laws import ANSWER_LAWS, LabelReader, check_answers
from regard.laws.encoder_laws import ENCODER_LAWS, EncoderReader
from regard.laws.law import LawBroken
from regard.layers.bidirectional import Bidirectional
from regard.layers.recurrent import Elman
from regard.layers.whole import mean_of_real
from regard.models.encoders import MeanEncoder
from regard.models.label_models import TextLabelModel, TokenLabelModel
from regard.watching import watching

DEVICE = torch.device(os.environ.get("REGARD_TEST_DEVICE", "cpu"))
DTYPES = {"float64": torch.float64, "float32": torch.float32}
MODELS = {**{f"text-{name}": family for name, family in label_families(TextLabelModel, average_family()).items()},
          **{f"token-{name}": family for name, family in label_families(TokenLabelModel).items()}}
TRIALS = [(law, dtype) for law in ANSWER_LAWS for dtype in DTYPES if law != "gradients" or dtype == "float64"]


@pytest.mark.parametrize(("law", "dtype"), TRIALS)
@pytest.mark.parametrize("name", MODELS)
def test_the_label_model_keeps_the_law(name, law, dtype):
    ANSWER_LAWS[law].check(LabelReader(MODELS[name].example(DTYPES[dtype]).to(DEVICE)))


@pytest.mark.parametrize("law", ENCODER_LAWS)
@pytest.mark.parametrize("name", ["text-average", "text-window"])
def test_an_encoder_that_only_label_models_have_keeps_the_laws_of_encoders(name, law):
    encoder = MODELS[name].example(torch.float64).encoder
    ENCODER_LAWS[law].check(EncoderReader(encoder.to(DEVICE), vocab=11))


# ----------------------------------------------------------------------------------------- planted bugs


class Honest(TextLabelModel):
    """Small enough to plant one bug at a time in it."""

    def __init__(self, vocab=11, labels=4):
        encoder = MeanEncoder([Bidirectional(Elman(3, 2), Elman(3, 2))], vocab=vocab)
        super().__init__(encoder, vocab=vocab, labels=labels)
        nn.init.normal_(self.head.weight)


class HonestOfTokens(TokenLabelModel):
    def __init__(self, vocab=11, labels=4):
        encoder = MeanEncoder([Bidirectional(Elman(3, 2), Elman(3, 2))], vocab=vocab)
        super().__init__(encoder, vocab=vocab, labels=labels)
        nn.init.normal_(self.head.weight)


class GivesTwoAnswers(Honest):
    def vectors(self, tokens, lengths=None):
        return super().vectors(tokens, lengths).expand(-1, 2, -1)


class ScoresWhatNobodyAskedFor(HonestOfTokens):
    def score(self, tokens, targets, state=None, lengths=None):
        return super().score(tokens, targets.clamp(min=1), state, lengths)


class GivesLogits(Honest):
    def predict(self, tokens, lengths=None):
        return self.vectors(tokens, lengths) @ self.head.weight.T


class CountsLabelsFromNothing(Honest):
    """Takes the target for the label's id, which is one less."""

    def score(self, tokens, targets, state=None, lengths=None):
        return self.head.score(self.vectors(tokens, lengths), targets.clamp(max=self.labels - 1)), None


class AveragesThePads(Honest):
    def vectors(self, tokens, lengths=None):
        return self.encode(tokens, lengths).vectors.mean(1, keepdim=True)


class ForgetsTheLengths(HonestOfTokens):
    def vectors(self, tokens, lengths=None):
        return super().vectors(tokens, None)


class ComparesWithTheFirst(Honest):
    def vectors(self, tokens, lengths=None):
        found = super().vectors(tokens, lengths)
        return found - found[:1]


class ActsForTheWatcher(Honest):
    def vectors(self, tokens, lengths=None):
        found = super().vectors(tokens, lengths)
        return found if watching() is None else found * 1.0001


class NormalisesOverTheBatch(Honest):
    def __init__(self):
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(4)

    def vectors(self, tokens, lengths=None):
        return self.batch_norm(super().vectors(tokens, lengths)[:, 0])[:, None]


class CutsTheGradient(Honest):
    def vectors(self, tokens, lengths=None):
        found = super().vectors(tokens, lengths)
        return found.detach() * 0.5 + found * 0.5


class PullsAtThePads(HonestOfTokens):
    """The mean of a row, pads and all, is added where it changes no score but pulls at the embedding."""

    def vectors(self, tokens, lengths=None):
        mean = self.encoder.embedding(tokens).mean(1, keepdim=True).sum(-1, keepdim=True)
        return super().vectors(tokens, lengths) + mean - mean.detach()


class KeepsAMatrixNobodyReads(Honest):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)


class SavesNoHead(Honest):
    def saved_tensors(self):
        return {name: tensor for name, tensor in super().saved_tensors().items() if name != "head.weight"}


PLANTED = {
    "shapes": [GivesTwoAnswers, ScoresWhatNobodyAskedFor],
    "probabilities": [GivesLogits],
    "targets": [CountsLabelsFromNothing],
    "padding": [AveragesThePads, ForgetsTheLengths],
    "order": [ComparesWithTheFirst],
    "watching": [ActsForTheWatcher],
    "train is eval": [NormalisesOverTheBatch],
    "gradients": [CutsTheGradient, PullsAtThePads],
    "parameters": [KeepsAMatrixNobodyReads],
    "saved tensors": [SavesNoHead],
}


@pytest.mark.parametrize(("law", "bug"), [pytest.param(law, bug, id=f"{law}-{bug.__name__}")
                                          for law, bugs in PLANTED.items() for bug in bugs])
def test_the_law_catches_the_label_model(law, bug):
    torch.manual_seed(0)
    with pytest.raises(LawBroken) as caught:
        ANSWER_LAWS[law].check(LabelReader(bug().double()))
    assert caught.value.law == law


def test_every_law_has_a_planted_bug_and_the_honest_ones_pass():
    assert set(PLANTED) == set(ANSWER_LAWS)
    for honest in (Honest(), HonestOfTokens()):
        report = check_answers(LabelReader, honest.double())
        assert report.ok and len(report) == len(ANSWER_LAWS), report.text()


def test_the_vector_of_a_text_is_the_mean_of_its_own_tokens():
    model = Honest().double().eval()
    tokens, lengths = torch.randint(1, 11, (2, 5)), torch.tensor([5, 3])
    own = model.encode(tokens[1:, :3]).vectors.mean(1)
    torch.testing.assert_close(model.vectors(tokens, lengths)[1], own)
    torch.testing.assert_close(mean_of_real(model.encode(tokens, lengths).vectors, lengths)[1:], own)
