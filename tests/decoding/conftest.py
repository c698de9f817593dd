import pytest
import torch

from regard.contract import LanguageModel
from regard.families import FAMILIES, randomised
from regard.families.transformer import TransformerSettings, build_transformer


class Counted(LanguageModel):
    """A model that remembers how many tokens each reading gave it."""

    def __init__(self, model):
        self.model, self.vocab, self.context = model, model.vocab, model.context
        self.reads = []

    @property
    def device(self):
        return self.model.device

    def start(self, batch, capacity=None, source=None):
        return self.model.start(batch, capacity, source)

    def score(self, tokens, targets, state=None, lengths=None):
        return self.model.score(tokens, targets, state, lengths)

    def step(self, tokens, state, lengths=None):
        self.reads.append(tokens.numel() if lengths is None else int(lengths.sum()))
        return self.model.step(tokens, state, lengths)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def counted():
    return Counted


@pytest.fixture(params=FAMILIES)
def any_model(request):
    return FAMILIES[request.param].example(torch.float64)


@pytest.fixture
def bounded():
    """A Transformer that reads at most so many tokens."""

    def make(context, positions="learned"):
        torch.manual_seed(0)
        settings = TransformerSettings(layers=2, width=8, heads=2, context=context, positions=positions)
        return randomised(build_transformer(settings, 11)).double().eval()

    return make
