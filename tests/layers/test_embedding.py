"""Embeddings and sinusoids: what every family adds up is the equation of Vaswani et al. 2017, sections 3.4 and 3.5."""

import numpy as np
import pytest
import torch

from regard.contract import Source
from regard.families import FAMILIES
from regard.families.caption import CAPTION
from regard.families.masked_encoders import MASKED
from regard.families.translate import TRANSLATE, Vocabularies
from regard.layers.embedding import Embedding
from regard.layers.stack import Block

V, D = 11, 8
SIZES = dict(layers=2, width=D, heads=2, context=32, dropout=0.0)
KINDS = {
    "lm-transformer": (FAMILIES["transformer"], V, SIZES), "lm-hybrid": (FAMILIES["hybrid"], V, SIZES),
    "masked": (MASKED["transformer"], V, SIZES), "translate": (TRANSLATE["transformer"], Vocabularies(V, V), SIZES),
    "translate-shared": (TRANSLATE["transformer"], Vocabularies(V, V, shared=True), SIZES),
    "prefix": (TRANSLATE["prefix"], Vocabularies(V, V), SIZES),
    "caption": (CAPTION["transformer"], V, dict(SIZES, image=8, patch=4)),
}
TOKENS = torch.tensor([[4, 9, 7, 4, 5]])
SOURCE = torch.tensor([[6, 8, 10, 2]])


def built(name, table=None, **choices):
    family, vocab, sizes = KINDS[name]
    torch.manual_seed(0)
    table = {**sizes, "positions": "sinusoidal", **choices} if table is None else table
    return family.build(family.settings(**table), vocab).double().eval()


def sinusoids(length):
    """p_2i(t) = sin(t / 10000^(2i/D)), p_2i+1(t) = cos(t / 10000^(2i/D))."""
    p = np.zeros((length, D))
    for t in range(length):
        for i in range(D // 2):
            p[t, 2 * i], p[t, 2 * i + 1] = (f(t / 10000 ** (2 * i / D)) for f in (np.sin, np.cos))
    return p


def read_by_the_first_block(stack, read):
    """(T, D): what enters the first block of a stack while `read` is run."""
    found = []
    block = next(each for each in stack.modules() if isinstance(each, Block))
    handle = block.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0].detach()[0].numpy()))
    read()
    handle.remove()
    return found[0]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_with_sinusoids_every_family_reads_embeddings_times_the_root_of_the_width(name, tied):
    model = built(name, tied=tied)
    source = None
    if getattr(model, "needs_source", False):
        pixels = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
        source = Source(pixels if name == "caption" else SOURCE)
    own = getattr(model, "embedding", None) or model.encoder.embedding
    e = own.weight.detach().numpy()
    if name == "masked":
        found = read_by_the_first_block(model.encoder, lambda: model.encode(TOKENS))
    elif name == "prefix":
        found = read_by_the_first_block(model.stack, lambda: model.encode(TOKENS, model.start(1, None, source)))
        sides = model.sides.weight.detach().numpy()
        words = np.concatenate((e[SOURCE[0]] + sides[0], e[TOKENS[0]] + sides[1]))
        np.testing.assert_allclose(found, words * np.sqrt(D) + sinusoids(len(words)), atol=1e-6)
        return
    else:
        state = None if source is None else model.start(1, None, source)
        found = read_by_the_first_block(model.stack, lambda: model.encode(TOKENS, state))
    np.testing.assert_allclose(found, e[TOKENS[0]] * np.sqrt(D) + sinusoids(5), atol=1e-6)
    if name.startswith("translate"):
        e = model.encoder.embedding.weight.detach().numpy()
        found = read_by_the_first_block(model.encoder, lambda: model.encoder(Source(SOURCE)))
        np.testing.assert_allclose(found, e[SOURCE[0]] * np.sqrt(D) + sinusoids(4), atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_an_older_run_and_other_positions_read_embeddings_as_they_are(name):
    family, vocab, sizes = KINDS[name]
    older = family.settings_of_run({**sizes, "positions": "sinusoidal"})
    assert older.embedding_scale == "none"
    models = [family.build(older, vocab), built(name, positions="learned"), built(name, positions="rotary")]
    assert {each.scale for model in models for each in model.modules() if isinstance(each, Embedding)} == {1.0}
    newer = family.settings_of_run({**sizes, "positions": "sinusoidal", "embedding_scale": "auto"})
    scales = {each.scale for each in family.build(newer, vocab).modules() if isinstance(each, Embedding)}
    assert scales == {D**0.5}


@pytest.mark.parametrize("tied", [False, True])
def test_no_sinusoid_is_four_times_as_long_as_an_embedding_at_the_start(tied):
    """Without the scale it is 8.0 to 1.1, and 8.0 to 0.23 where the output matrix is the embedding."""
    family = FAMILIES["transformer"]
    model = family.build(family.settings(layers=1, width=128, heads=2, positions="sinusoidal", tied=tied), 500)
    long = model.embedding(torch.arange(500)).norm(dim=-1).mean().item()
    assert long > 128**0.5 / 2**0.5 / 4


def test_the_setting_is_checked():
    with pytest.raises(Exception, match=r"model.embedding_scale = 'widht': did you mean width"):
        FAMILIES["transformer"].settings(embedding_scale="widht")
