import math

import numpy as np
import pytest
import torch

from regard.errors import DataError
from regard.look import Request, look
from regard.tasks.masked import look as looking
from regard.watching import watch
from tests.look.models import CONTEXT, TEXT, masked_model

BLANKS = "the cat ___ on the [MASK], as cats do"


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def ids(seen):
    return torch.tensor([[token.id for token in seen.sides["text"].tokens]])


def test_the_numbers_are_those_that_the_layers_recorded_to_the_last_bit():
    model, seen = masked_model(), look(masked_model(), BLANKS)
    with torch.no_grad(), watch() as recorded:
        model.model.encode(ids(seen))
    track = seen.track("self")
    for values, place in zip(track.values, track.places, strict=True):
        np.testing.assert_array_equal(values, recorded.readings[place].values[0].numpy())
    np.testing.assert_allclose(track.values.sum(-1), 1, atol=1e-5)
    assert len(recorded.readings) == 2 and not track.causal and np.triu(track.values, 1).any()


@pytest.mark.parametrize("name", ["transformer", "rnn"])
def test_a_row_says_what_stands_in_its_place_when_it_is_hidden(name):
    model = masked_model(name)
    seen = look(model, BLANKS)
    tokens = seen.sides["text"].tokens
    for at, (token, each) in enumerate(zip(tokens, seen.predictions, strict=True)):
        row = ids(seen)
        row[0, at] = model.model.mask
        with torch.no_grad():
            log_probs = model.model.predict(row, torch.tensor([[at]]))[0, 0]
        assert each.bits == pytest.approx(-float(log_probs[each.id]) / math.log(2), abs=1e-5)
        assert each.rank == int((log_probs > log_probs[each.id]).sum()) + 1
        assert each.guess == (token.piece == "<mask>")
        if each.guess:
            log_probs[[0, 1, 2, 3, model.model.mask]] = -math.inf
            assert each.id == int(log_probs.argmax())
        else:
            assert each.id == token.id
    assert {track.name for track in seen.tracks} >= {"influence-gradient", "influence-sensitivity",
                                                     "influence-occlusion"}


def test_blanks_are_masks_where_they_stand():
    tokens = look(masked_model(), BLANKS).sides["text"].tokens
    blanks = [token for token in tokens if token.piece == "<mask>"]
    assert [BLANKS[token.start:token.end] for token in blanks] == ["___", "[MASK]"]
    assert tokens[-1].piece == "<eos>" and tokens[-1].special
    assert look(masked_model(framed=False), BLANKS).sides["text"].tokens == tokens[:-1]
    words = [token.word for token in tokens if token.word >= 0]
    assert words == sorted(words) and len(set(words)) == 10
    assert [token.piece for token in tokens[:2]] == ["the", " cat"]


def test_influence_is_of_every_token_on_the_hidden_one():
    model = masked_model()
    seen = look(model, BLANKS)
    place, other = 1, 4
    gradient, occlusion = seen.track("influence-gradient"), seen.track("influence-occlusion")
    row = ids(seen)
    row[0, place] = model.model.mask

    def log_p(tokens):
        with torch.no_grad():
            return float(model.model.predict(tokens, torch.tensor([[place]]))[0, 0, seen.predictions[place].id])

    both = row.clone()
    both[0, other] = model.model.mask
    assert occlusion.values[0, 0, place, other] == pytest.approx(log_p(row) - log_p(both), abs=1e-5)
    assert occlusion.values[0, 0, place, place] == pytest.approx(0, abs=1e-6)
    embedding = model.model.encoder.embedding
    x = embedding(row).detach().requires_grad_()
    handle = embedding.register_forward_hook(lambda *_: x)
    model.model.predict(row, torch.tensor([[place]]))[0, 0, seen.predictions[place].id].backward()
    handle.remove()
    np.testing.assert_allclose(gradient.values[0, 0, place], (x.grad * x).sum(-1)[0].detach(), atol=1e-5)
    np.testing.assert_allclose(seen.track("influence-sensitivity").row(place)[0, 0], x.grad.norm(dim=-1)[0], atol=1e-5)


def test_in_a_long_text_several_tokens_are_hidden_at_once_and_that_is_said(monkeypatch):
    monkeypatch.setattr(looking, "ONE_BY_ONE", 8)
    model = masked_model()
    seen = look(model, TEXT)
    assert "the text is long: what a row says is told with every 16th token hidden at once" in seen.notes
    row = ids(seen)
    row[0, 3::16] = model.model.mask
    with torch.no_grad():
        log_probs = model.model.predict(row, torch.tensor([[3]]))[0, 0]
    assert seen.predictions[3].bits == pytest.approx(-float(log_probs[seen.predictions[3].id]) / math.log(2), abs=1e-5)
    assert sorted(place for hidden in looking.hidden_together(50) for place in hidden) == list(range(50))


def test_what_is_too_long_is_cut_and_said():
    seen = look(masked_model(), " ".join(["cat"] * 60))
    assert len(seen.predictions) == CONTEXT
    assert seen.notes[0] == f"the text has 61 tokens, and {CONTEXT} are read at once at most: the first are read"


def test_mistakes_are_one_clear_line():
    with pytest.raises(DataError, match=r"^a masked model reads a text: give one$"):
        look(masked_model(), Request(source="x"))
    with pytest.raises(DataError, match=r"^there is no text to read: it is empty$"):
        look(masked_model(framed=False), "")
