import numpy as np
import pytest
import torch

from regard.data.batching.text_batches import Batch
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.tokens.vocabulary import EOS, FIRST, PAD, UNK
from regard.errors import SettingError
from regard.tasks import TASKS, task_named
from regard.tasks.masked.hiding import Hiding, MaskedHeldOut, batches, mask_id
from regard.training.settings import TrainingSettings

MASK = 300
TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))


def text_of(rows=64, time=100, lengths=None):
    tokens = torch.from_numpy(np.random.default_rng(0).integers(FIRST, MASK, (rows, time)))
    if lengths is not None:
        for row, n in enumerate(lengths):
            tokens[row, n:] = PAD
        lengths = torch.tensor(lengths)
    return Batch(tokens, tokens, lengths)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(TEXT)
    return prepare(DataSettings((str(tmp_path / "text.txt"),)), TokenizerSettings("word"), say=lambda line: None)


# -------------------------------------------------------------------------------------------- hiding


def test_fifteen_in_a_hundred_are_hidden_by_the_three_fates():
    text = text_of(rows=400)
    hidden = Hiding(MASK).hide(text, key=1)
    asked = hidden.is_real()
    assert (asked.sum(1) == 15).all() and hidden.real == 15 * 400 and hidden.read == 100 * 400
    assert torch.equal(hidden.targets[asked], text.targets[asked]) and (hidden.targets[~asked] == PAD).all()
    assert torch.equal(hidden.tokens[~asked], text.targets[~asked])
    seen, was = hidden.tokens[asked], hidden.targets[asked]
    masked, kept = (seen == MASK).double().mean(), (seen == was).double().mean()
    assert masked == pytest.approx(0.8, abs=0.02) and kept == pytest.approx(0.1, abs=0.02)
    drawn = seen[(seen != MASK) & (seen != was)]
    assert drawn.min() >= FIRST and drawn.max() < MASK and len(drawn.unique()) > 200       # random words, all sorts


def test_the_three_fates_have_the_shares_that_are_asked_for():
    hidden = Hiding(MASK, to_mask=0.5, to_random=0.4).hide(text_of(rows=400), key=1)
    seen, was = hidden.tokens[hidden.is_real()], hidden.targets[hidden.is_real()]
    assert (seen == MASK).double().mean() == pytest.approx(0.5, abs=0.02)
    assert (seen == was).double().mean() == pytest.approx(0.1, abs=0.02)


def test_every_place_is_hidden_as_often_as_any_other():
    counts = sum(Hiding(MASK).hide(text_of(rows=200), key=key).is_real().sum(0) for key in range(10))
    assert counts.double().mean() == 300 and counts.min() > 230 and counts.max() < 370


def test_only_what_stands_for_text_is_hidden_one_token_at_least():
    tokens = torch.full((3, 8), EOS)
    tokens[0, 3], tokens[1, :2], tokens[1, 2:], tokens[2] = 9, UNK, PAD, UNK
    hidden = Hiding(MASK).hide(Batch(tokens, tokens, torch.tensor([8, 2, 8])), key=5)
    assert hidden.is_real().nonzero().tolist() == [[0, 3]]


def test_hiding_is_a_function_of_the_key_and_of_the_rows_number():
    text, hiding = text_of(), Hiding(MASK)
    again, other = hiding.hide(text, 1), hiding.hide(text, 2)
    assert torch.equal(hiding.hide(text, 1).tokens, again.tokens)
    assert (other.is_real() != again.is_real()).any(1).all()                               # every row differs
    part = hiding.hide(text.rows(8, 16), 1, np.arange(8, 16))
    assert torch.equal(part.tokens, again.tokens[8:16]) and torch.equal(part.targets, again.targets[8:16])


def test_pieces_and_wider_rows_of_a_masked_batch_stay_masked_batches():
    hidden = Hiding(MASK).hide(text_of(4, 6, [6, 3, 1, 5]), 1)
    piece = hidden.rows(1, 3)
    assert type(piece) is type(hidden) and piece.real == 2 and piece.read == 4
    wide = hidden.widened(8, 16)
    assert wide.tokens.shape == (4, 8) and wide.real == hidden.real and wide.read == hidden.read
    scores = torch.ones(4, 8)
    assert wide.mask(scores).sum() == hidden.real


# -------------------------------------------------------------------------------------------- batches


def test_a_step_can_be_taken_again_and_the_same_line_is_hidden_differently_each_epoch(corpus):
    made = [batches(corpus, how("documents", 8, 3), 16) for _ in range(2)]
    for step in (0, 5, 12):
        first, second = (each.batch(step) for each in made)
        assert torch.equal(first.tokens, second.tokens) and torch.equal(first.targets, second.targets)
    seen: dict[tuple, set] = {}
    for step in range(4 * len(made[0])):
        hidden = made[0].batch(step)
        whole = torch.where(hidden.is_real(), hidden.targets, hidden.tokens)
        for row, asked in zip(whole.tolist(), hidden.is_real().tolist(), strict=True):
            seen.setdefault(tuple(row), set()).add(tuple(asked))
    assert sum(len(ways) > 1 for ways in seen.values()) > 0.9 * len(seen)
    other = batches(corpus, how("documents", 8, 4), 16)
    assert not torch.equal(other.batch(0).tokens, made[0].batch(0).tokens)


def test_rows_are_lines_with_their_end_or_windows(corpus):
    line = batches(corpus, how("documents", 4, 0), 16).batch(0)
    ends = line.tokens[torch.arange(4), (line.lengths if line.lengths is not None else torch.full((4,), 9)) - 1]
    assert (ends == EOS).all()
    assert batches(corpus, how("windows", 4, 0), 16).batch(0).tokens.shape == (4, 16)
    with pytest.raises(SettingError, match=r"training.reading = 'streams' carries a state on"):
        batches(corpus, how("streams", 4, 0), 16)


def how(reading, batch, seed=0):
    return TrainingSettings(reading=reading, batch=batch, seed=seed)


def held_out(corpus, batch, every=1):
    return MaskedHeldOut(corpus.valid, 16, batch, 1, True, every=every, mask=mask_id(corpus.tokenizer))


def rows_of(batches):
    found = []
    for each in batches:
        lengths = [each.tokens.shape[1]] * len(each.tokens) if each.lengths is None else each.lengths.tolist()
        for tokens, targets, n in zip(each.tokens.tolist(), each.targets.tolist(), lengths, strict=True):
            found.append((tokens[:n], targets[:n]))
    return found


def test_what_is_held_out_is_hidden_alike_each_time_whatever_the_batch_and_all_behind_mask(corpus):
    once = rows_of(held_out(corpus, 3))
    assert once == rows_of(held_out(corpus, 3)) == rows_of(held_out(corpus, 5)) and len(once) == 8
    for tokens, targets in once:
        assert all((token == mask_id(corpus.tokenizer)) == (target != PAD)
                   for token, target in zip(tokens, targets, strict=True)) and any(targets)
    assert rows_of(held_out(corpus, 2, every=2)) == [once[i] for i in (0, 1, 4, 5)]


def test_no_text_holds_a_mask_and_the_models_vocabulary_has_one_more(corpus):
    tokenizer = corpus.tokenizer
    assert mask_id(tokenizer) == tokenizer.vocab_size
    assert TASKS["masked"].vocab(tokenizer) == tokenizer.vocab_size + 1 == TASKS["lm"].vocab(tokenizer) + 1
    for text in ("<mask>", "[MASK]", "the cat <mask> sat"):
        assert tokenizer.encode(text).max() < mask_id(tokenizer)
    assert corpus.train.tokens.max() < mask_id(tokenizer)


def test_a_task_and_a_family_that_do_not_exist_are_told_from_those_that_do():
    with pytest.raises(SettingError, match="unknown task mask: did you mean masked"):
        task_named("mask")
    with pytest.raises(SettingError, match=r"unknown family ngram \(there are: rnn, transformer\)"):
        TASKS["masked"].family("ngram")
