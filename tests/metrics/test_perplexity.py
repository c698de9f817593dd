"""Surprise by hand: a model that knows nothing gives each of V tokens 1/V, so that every ratio can be counted."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.data.tokens.tokenizers import train_tokenizer
from regard.errors import DataError
from regard.families.caption import CAPTION, CaptionAttentionSettings
from regard.metrics.perplexity import Surprise
from regard.tasks.caption.trained import TrainedCaptioner
from tests.toy_pairs import CONTEXT, translator

SIDE = 8


def ignorant(model):
    """All weights are zero, so that every token is as likely as any other."""
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.zero_()
    return model


def by_hand(targets, vocab):
    """Bits per byte and perplexity a word of these targets, each with its end, under 1/V."""
    bits = sum(len(text.split()) + 1 for text in targets) * np.log2(vocab)
    return bits / sum(len(text.encode()) for text in targets), 2 ** (bits / sum(len(text.split()) for text in targets))


@pytest.mark.parametrize("name", ["rnn-attention", "transformer", "prefix"])
def test_words_and_bytes_are_those_of_the_pairs_that_were_scored(name):
    model = translator(name)
    ignorant(model.model)
    sources, targets = ["un deux", "été", "trois"], ["two one", "summer", "three"]
    too_long = "one " * (10 * CONTEXT)
    for more in ([], [("un", too_long)], [("un " * CONTEXT, "one"), ("deux", too_long)]):
        found = model.score_pairs([*sources, *(each[0] for each in more)], [*targets, *(each[1] for each in more)])
        assert (found.tokens, found.words, found.bytes, found.unknown) == (7, 4, 18, 0)
        expected = by_hand(targets, model.model.vocab)
        assert (found.bits_per_byte, found.word_perplexity) == pytest.approx(expected, rel=1e-6)
        assert found.loss == pytest.approx(math.log(model.model.vocab))


def test_dropout_is_off_while_a_text_is_scored():
    """A model that comes from training, with half of everything dropped, scores as one that does not."""
    model = translator("transformer")
    for module in model.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
    sources, targets = ["un deux trois", "quatre"], ["three two one", "four"]
    expected = model.score_pairs(sources, targets).loss
    model.model.train()
    assert model.score_pairs(sources, targets).loss == expected and not model.model.training
    assert any(isinstance(module, nn.Dropout) for module in model.model.modules())


@pytest.fixture
def captioner():
    tokenizer = train_tokenizer("word", ["a red square"], None)
    settings = CaptionAttentionSettings(image=SIDE, patch=4, width=6, hidden=8, context=4)
    model = ignorant(CAPTION["rnn-attention"].build(settings, tokenizer.vocab_size).double().eval())
    return TrainedCaptioner(model, tokenizer, {"run": {"family": "rnn-attention", "task": "caption"},
                                               "model": {"context": 4, "image": SIDE, "patch": 4}})


def test_captions_that_are_too_long_are_neither_scored_nor_counted_and_that_is_said(captioner):
    captions, told = ["a red square", "a red square a red square", "red"], []
    images = np.zeros((3, SIDE, SIDE, 3), np.uint8)
    found = captioner.score_captions(images, captions, told.append)
    assert (found.tokens, found.words, found.bytes) == (6, 4, 15)
    assert found.bits_per_byte == pytest.approx(by_hand(["a red square", "red"], captioner.model.vocab)[0])
    assert told == ["1 of 3 captions are longer than the 4 tokens that the model writes, and not in the loss"]
    with pytest.raises(DataError, match="every caption is longer than the 4 tokens"):
        captioner.score_captions(images[:1], captions[1:2])


def test_unknown_words_of_targets_are_counted_and_warned_of(captioner):
    model = translator("rnn-attention")
    found = model.score_pairs(["un", "Zorglub", "Zorglub " * 99], ["one", "Zorglub one", "Zorglub " * 99])
    assert (found.unknown, found.tokens, found.comparable) == (1, 5, False)
    assert found.warning == ("1 of the 5 tokens are <unk>, and the words behind them cost nothing: bits per byte and "
                             "perplexity a word cannot be compared with those of another vocabulary")
    assert found.as_dict()["oov"] == 1 and found.as_dict()["warning"] == found.warning
    said = captioner.score_captions(np.zeros((1, SIDE, SIDE, 3), np.uint8), ["a blue square"])
    assert (said.unknown, said.comparable) == (1, False)


def test_where_every_word_is_known_there_is_nothing_to_warn_of():
    found = translator("rnn-attention").score_pairs(["Zorglub"], ["one"])            # a source is not scored
    assert found.comparable and not found.warning
    assert found.as_dict()["comparable"] is True and "warning" not in found.as_dict()


def test_an_unknown_word_is_cheap_which_is_why_it_is_warned_of():
    """A thousand words, each as likely: with a vocabulary of one hundred of them, the other nine hundred are <unk>."""
    words, known = 1000, 100
    every = Surprise(words * math.log(words), words, words, 4 * words)
    few = -(known * math.log(1 / words) + (words - known) * math.log((words - known) / words))
    cheap = Surprise(few, words, words, 4 * words, unknown=words - known)
    assert cheap.bits_per_byte < 0.2 * every.bits_per_byte
    assert every.comparable and not cheap.comparable
