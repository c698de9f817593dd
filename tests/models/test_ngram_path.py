"""The back-off path of a watched n-gram: what the definition says; and the n-gram that makes a text impossible."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.data.batching.text_batches import Batch
from regard.metrics.perplexity import impossible
from regard.models.ngram import NGram, read_arpa, write_arpa
from regard.models.ngram.counting import BOS, EOS, PAD
from regard.watching import watch
from tests.models.ngram_definition import Definition

VOCAB = 16


def texts(count: int = 150, seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [[*(4 + draw.zipf(1.5, size=draw.integers(0, 10)) % (VOCAB - 4)).tolist(), EOS] for _ in range(count)]


def fit(some: list[list[int]] | None = None, **options) -> NGram:
    some = some or texts()
    tokens, ends = np.concatenate(some).astype(np.uint16), np.cumsum([len(text) for text in some])
    return NGram.fit(tokens, ends, **{"vocab": VOCAB, "order": 3, "dtype": torch.float64, **options})


def watched(model: NGram, read: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor | None = None):
    with watch() as seen:
        scores, _ = model.score(read, targets, None, lengths)
    return scores, seen.of("back-off")[0]


def test_the_path_of_a_small_text_is_what_one_finds_by_hand():
    """a b c, a b c, a b d: after `a b`, `d` was seen once of 3 times, with a discount of 1/3, and so on down."""
    a, b, c, d = 4, 5, 6, 7
    model = fit([[a, b, c, EOS], [a, b, c, EOS], [a, b, d, EOS]], vocab=8)
    scores, reading = watched(model, torch.tensor([[BOS, a, b]]), torch.tensor([[a, b, d]]))
    about = {name: value[0, 2].tolist() for name, value in reading.about.items() if torch.is_tensor(value)}
    assert reading.values.tolist() == [[2, 3, 3]] and about["seen"] == [True, True, True]
    assert about["count"] == [1, 1, 1]                     # after 1 different word; after 1 different word; once
    assert about["total"] == [6, 2, 3]
    assert about["discount"] == pytest.approx([2 / 3, 1 / 2, 1 / 3])
    weights = [5 * 2 / 3 / 6, (1 / 2 + 1 / 2) / 2, (3 / 2 + 1 / 3) / 3]
    assert about["weight"] == pytest.approx(weights)
    shares = [weights[2] * weights[1] * (1 - 2 / 3) / 6, weights[2] * (1 - 1 / 2) / 2, (1 - 1 / 3) / 3]
    assert about["share"] == pytest.approx(shares)
    assert about["rest"] == pytest.approx(math.prod(weights) / 6)
    assert scores[0, 2].exp().item() == pytest.approx(sum(shares) + math.prod(weights) / 6)
    assert reading.about["seen"][0, 0].tolist() == [True, True, False]         # a text begins with one word of context


@pytest.mark.parametrize("order, prune", [(1, ()), (3, ()), (5, ()), (3, (0, 0, 1)), (4, (0, 1, 2))])
def test_every_path_is_that_of_the_definition(order, prune):
    model = fit(order=order, prune=prune)
    slow = Definition([[BOS, *text] for text in texts()], vocab=VOCAB, order=order, prune=model.prune)
    for text in [*texts(12), *texts(12, seed=1)]:
        read = [BOS, *text[:-1]]
        scores, reading = watched(model, torch.tensor([read]), torch.tensor([text]))
        about = reading.about
        assert not about["missing"]
        torch.testing.assert_close(about["share"].sum(-1) + about["rest"], scores.exp(), rtol=1e-10, atol=0)
        for t, word in enumerate(text):
            rows = slow.path(word, read[:t + 1])
            followed = [len(slow.after.get(tuple(read[t + 1 - k:t + 1]), ())) > 0 for k in range(len(rows))]
            for k, row in enumerate(rows):
                if not about["seen"][0, t, k]:
                    assert row["weight"] == pytest.approx(1) and row["share"] == 0
                    assert prune or not followed[k]
                    continue
                for name, value in row.items():
                    assert float(about[name][0, t, k]) == pytest.approx(value, rel=1e-9), (name, k)
            assert not about["seen"][0, t, len(rows):].any()


def test_pads_have_an_empty_path_and_a_carried_state_is_part_of_it():
    model = fit()
    read, targets = torch.tensor([[BOS, 4, 5, 6], [BOS, 5, PAD, PAD]]), torch.tensor([[4, 5, 6, 4], [5, 4, PAD, PAD]])
    _, reading = watched(model, read, targets, torch.tensor([4, 2]))
    assert reading.about["share"].shape == (2, 4, 3)
    assert not reading.about["share"][1, 2:].any() and not reading.values[1, 2:].any()
    with watch() as seen:
        state = model.score(read[:1, :2], targets[:1, :2], model.start(1))[1]
        model.score(read[:1, 2:], targets[:1, 2:], state)
    parts = [each.about for each in seen.of("back-off")]
    for name in ("seen", "count", "total", "discount", "weight", "share", "rest"):
        assert torch.equal(torch.cat([part[name] for part in parts], 1)[0], reading.about[name][0]), name


@pytest.mark.parametrize("smoothing", ["none", "add-k"])
def test_the_shares_of_other_smoothings_are_the_probability_too(smoothing):
    model = fit(smoothing=smoothing, k=0.5, order=3)
    for text in [*texts(5), *texts(5, seed=1)]:
        scores, reading = watched(model, torch.tensor([[BOS, *text[:-1]]]), torch.tensor([text]))
        torch.testing.assert_close(reading.about["share"].sum(-1) + reading.about["rest"] * (smoothing == "add-k"),
                                   scores.exp())
        assert not reading.about["rest"].any() and not reading.about["discount"].any()


def test_a_model_without_counts_says_so_and_still_tells_the_shares(tmp_path):
    text = texts(3)[2]
    read, targets = torch.tensor([[BOS, *text[:-1]]]), torch.tensor([text])
    model, without = fit(), fit(counts=False)
    assert without.nbytes() < model.nbytes()
    _, full = watched(model, read, targets)
    _, bare = watched(without, read, targets)
    assert bare.about["missing"].startswith("this model has kept no counts: train it with counts = true")
    assert (bare.about["count"] == -1).all() and bare.about["discount"].isnan().all()
    torch.testing.assert_close(bare.about["share"][..., 1:], full.about["share"][..., 1:], rtol=1e-9, atol=1e-12)
    write_arpa(model, ["<pad>", "<bos>", "<eos>", "<unk>", *(f"w{id}" for id in range(4, VOCAB))], tmp_path / "m.arpa")
    arpa = read_arpa(tmp_path / "m.arpa", torch.float64)[0]
    assert watched(arpa, read, targets)[1].about["missing"]


def test_watching_changes_no_number():
    model, text = fit(dtype=torch.float32), torch.tensor([[BOS, *texts(1, seed=5)[0], 4, 5]])
    unwatched, _ = model.score(text[:, :-1], text[:, 1:])
    assert torch.equal(watched(model, text[:, :-1], text[:, 1:])[0], unwatched)


# ------------------------------------------------------------------------------------------- impossible


def test_the_ngram_that_makes_a_text_impossible_is_named():
    """Of the contexts, the longest that was seen decides: `a b x` if `a b` was, else `b x`."""
    a, b, c = 4, 5, 6
    model = fit([[a, b, c, EOS], [a, b, c, EOS], [b, a, EOS]], smoothing="none")
    assert model.impossible(torch.tensor([BOS, a, b]), a) == (a, b, a)
    assert model.impossible(torch.tensor([BOS, c, b]), b) == (b, b)              # `c b` was never seen
    assert model.impossible(torch.tensor([BOS]), c) == (BOS, c)
    assert model.impossible(torch.tensor([9]), 10) == (10,)
    assert model.impossible(torch.tensor([a, b]), BOS) == (BOS,)
    read, targets = torch.tensor([[BOS, a, b]]), torch.tensor([[a, b, a]])
    assert model.score(read, targets)[0].isneginf().tolist() == [[False, False, True]]


def test_the_measure_counts_them_and_spells_the_first():
    a, b, c = 4, 5, 6
    model = fit([[a, b, c, EOS], [a, b, c, EOS], [b, a, EOS]], smoothing="none")
    good = Batch(torch.tensor([[BOS, a, b]]), torch.tensor([[a, b, c]]))
    bad = Batch(torch.tensor([[BOS, a, b], [BOS, c, PAD]]), torch.tensor([[a, b, a], [c, b, PAD]]),
                torch.tensor([3, 2]))
    assert impossible(model, [good], "w{}".format) is None
    found = impossible(model, [good, bad, bad], "w{}".format)
    assert found.as_dict() == {"impossible": 6, "first_impossible": ["w4", "w5", "w4"]}
    assert str(found) == "`w4 w5 w4` was never seen: its probability is zero, the first of 6 such tokens"
    assert impossible(fit(), [good, bad], "w{}".format) is None
