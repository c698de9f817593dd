"""How well hidden tokens are told, in numpy: log p of each hidden token, and whether it is the likeliest."""

import math

import numpy as np
import pytest
import torch

from regard.data.batching.text_batches import SparseBatch
from regard.families.masked_encoders import MASKED, MaskedTransformerSettings
from regard.metrics.filling import FillQuality, guess_batches

VOCAB = 9


def model_and_batches():
    torch.manual_seed(1)
    settings = MaskedTransformerSettings(layers=1, width=8, heads=2, context=8)
    model = MASKED["transformer"].build(settings, VOCAB).double()
    with torch.no_grad():
        model.head.weight.normal_()
    tokens = torch.randint(4, VOCAB, (5, 6))
    targets = torch.where(torch.rand(5, 6) < 0.5, torch.randint(4, VOCAB, (5, 6)), 0)
    lengths = torch.tensor([6, 6, 4, 6, 6])
    targets[2, 4:] = 0
    whole = SparseBatch(tokens, targets, lengths)
    return model, [whole.rows(0, 2), whole.rows(2, 5)]


def test_loss_and_accuracy_are_those_of_the_hidden_tokens():
    model, batches = model_and_batches()
    nats, right, blanks = 0.0, 0, 0
    for batch in batches:
        with torch.no_grad():
            logits = (model.eval().encode(batch.tokens, batch.lengths).vectors @ model.head.weight.T).numpy()
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for row, time in zip(*np.nonzero(batch.targets.numpy()), strict=True):
            target = int(batch.targets[row, time])
            nats -= log_probs[row, time, target]
            right += target == log_probs[row, time].argmax()
            blanks += 1
    model.train()
    found = guess_batches(model, batches)
    assert (found.blanks, found.right) == (blanks, right) and 0 < right < blanks and not model.training
    loss = nats / blanks
    assert found.as_dict() == {"loss": pytest.approx(loss), "perplexity": pytest.approx(math.exp(loss)),
                               "accuracy": pytest.approx(right / blanks), "blanks": blanks}


def test_of_nothing_hidden_nothing_is_told():
    assert FillQuality(0.0, 0, 0).as_dict() == {"loss": 0.0, "perplexity": 1.0, "accuracy": 0.0, "blanks": 0}
