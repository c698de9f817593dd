import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import regard
from regard.decoding.sampling import Sampling
from regard.errors import DataError, SettingError
from regard.layers.self_attention import SelfAttention
from regard.look import Request, look
from regard.look.look import look_id
from regard.tasks.lm import look as looking
from regard.tasks.lm.look import staircase
from regard.watching import watch
from tests.look.models import CONTEXT, LANGUAGE, TEXT, language_model, tokenizer

CUT = len("the cat sat on the mat and the")                 # ends with a word: its tokens are the first of the whole
TRACKS = {"transformer": {"self"}, "linear-rnn": {"kernel"}, "mamba": {"kernel"}, "mamba2": {"kernel"},
          "ngram": {"back-off"}, "hybrid": {"self", "kernel", "kernel-2"}}
INFLUENCE = {"influence-gradient", "influence-sensitivity", "influence-occlusion"}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def read(model, seen):
    return torch.tensor([[token.id for token in seen.sides["text"].tokens]])


# ------------------------------------------------------------------------------------------- the numbers


@pytest.mark.parametrize("name", LANGUAGE)
def test_every_family_has_its_map_and_its_badge(name):
    seen = look(language_model(name), TEXT)
    own = INFLUENCE if name != "ngram" else {"influence-occlusion"}
    assert {track.name for track in seen.tracks} == TRACKS.get(name, set()) | own
    for track in seen.tracks:
        assert track.badge and track.about and track.values.dtype == np.float32
        assert track.values.shape == track.shape == (len(track.layer_names), len(track.head_names), *track.shape[2:])
        assert track.shape[2:] == (len(seen.predictions),) * 2
        assert not np.triu(track.values, 1).any() and track.causal, "nothing later is read"
        assert (track.values >= 0).all() or track.signed


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_numbers_are_those_that_the_layers_recorded_to_the_last_bit(name):
    model = language_model(name)
    seen = look(model, TEXT)
    tokens, targets = read(model, seen), torch.tensor([[each.id for each in seen.predictions]])
    with torch.no_grad(), watch() as recorded:
        model.language_model.score(tokens, targets)
    places = []
    for track in seen.tracks:
        if track.kind in ("weights", "kernel"):
            for values, place in zip(track.values, track.places, strict=True):
                np.testing.assert_array_equal(values, recorded.readings[place].values[0].numpy())
        places += track.places
    assert sorted(places) == list(range(len(recorded.readings))), "nothing that was recorded is left out"


@pytest.mark.parametrize("name", ["transformer", "hybrid"])
def test_rows_of_weights_sum_to_one(name):
    weights = look(language_model(name), TEXT).track("self")
    np.testing.assert_allclose(weights.values.sum(-1), 1, atol=1e-5)
    assert weights.badge == "weights, rows sum to 1" and weights.top == 1


@pytest.mark.parametrize("name", LANGUAGE)
def test_what_a_row_says_is_what_a_step_says(name):
    model = language_model(name)
    seen = look(model, TEXT)
    tokens, lm = read(model, seen)[0], model.language_model
    with torch.no_grad():
        scores = lm.score(tokens[None], torch.tensor([[each.id for each in seen.predictions]]))[0][0]
    bits = (-scores / math.log(2)).tolist()
    assert [each.bits for each in seen.predictions] == pytest.approx(bits, abs=1e-5, rel=1e-6)
    state = lm.start(1, len(tokens))
    for at, (token, each) in enumerate(zip(tokens, seen.predictions, strict=True)):
        with torch.no_grad():
            log_probs, state = lm.step(token.view(1, 1), state)
        own = float(log_probs[0, each.id])
        assert each.bits == pytest.approx(-own / math.log(2), abs=1e-4, rel=1e-5)     # steps are rounded otherwise
        assert each.p == pytest.approx(math.exp(own), abs=1e-4)
        tied = int((log_probs[0] - own).abs().lt(1e-3).sum()) - 1
        assert abs(each.rank - 1 - int((log_probs[0] > own).sum())) <= tied
        assert each.piece == model.tokenizer.token(each.id)
        if at + 1 < len(tokens):
            assert each.id == tokens[at + 1] and not each.guess
        else:
            log_probs[0, [0, 1, 3]] = -torch.inf
            assert each.guess and log_probs[0, each.id] == pytest.approx(float(log_probs.max()), abs=1e-5)


@pytest.mark.parametrize("how", ["gradient", "sensitivity", "occlusion"])
def test_influence_is_worked_out_when_it_is_first_asked_for_and_a_row_is_a_row_of_all(how):
    model = language_model("rnn")
    seen, other = look(model, TEXT), look(model, TEXT)
    track = seen.track(f"influence-{how}")
    assert track.lazy and track.top is None and track.nbytes() == 0
    expected = regard.influence(model.language_model, read(model, seen)[0],
                                torch.tensor([each.id for each in seen.predictions]), how)
    np.testing.assert_array_equal(track.values[0, 0], expected.numpy())
    assert not track.lazy and track.top == pytest.approx(float(expected.abs().max()))
    np.testing.assert_allclose(other.track(track.name).row(5), track.values[:, :, 5], atol=1e-6)
    assert other.track(track.name).lazy


def test_of_many_rows_one_is_worked_out_at_a_time():
    track = look(language_model("rnn"), TEXT).track("influence-occlusion")
    track.most = 5
    assert track.row_by_row and track.row(7).shape == (1, 1, track.shape[3])
    with pytest.raises(SettingError, match=r"^influence-occlusion of \d+ rows would take long: ask for one"):
        _ = track.values
    with pytest.raises(SettingError, match=r"^row = 99: there are \d+, counted from 0$"):
        track.row(99)


# -------------------------------------------------------------------------------------------- the law


def assert_prefix_reads_the_same(model):
    """What a row reads and says does not depend on what comes after it."""
    whole, part = look(model, TEXT), look(model, TEXT[:CUT])
    rows = len(part.predictions)
    assert part.sides["text"].tokens == whole.sides["text"].tokens[:rows] and rows < len(whole.predictions)
    for own, other in zip(part.predictions[:-1], whole.predictions, strict=False):
        assert (own.id, own.piece) == (other.id, other.piece) and own.bits == pytest.approx(other.bits, abs=1e-4)
    for track in part.tracks:
        for row in range(rows - (track.row_label == "writes")):   # the last one predicts another token
            np.testing.assert_allclose(track.row(row)[..., :rows], whole.track(track.name).row(row)[..., :rows],
                                       atol=1e-4 * max(1.0, whole.track(track.name).top or 1.0))


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_look_at_the_beginning_shows_the_same_rows_as_one_at_the_whole(name):
    assert_prefix_reads_the_same(language_model(name))


def test_a_layer_that_reads_what_comes_after_is_caught(monkeypatch):
    monkeypatch.setattr(SelfAttention, "who_reads_whom", lambda self, queries, keys, whole: (None, None))
    with pytest.raises(AssertionError):
        assert_prefix_reads_the_same(language_model("transformer"))


def test_a_model_left_in_training_is_looked_at_as_it_is_used():
    model = language_model("transformer", seed=1)
    before = look(model, TEXT)
    model.language_model.train()
    model.language_model.dropout.p = 0.5
    np.testing.assert_array_equal(look(model, TEXT).track("self").values, before.track("self").values)
    assert model.language_model.training
    model.language_model.eval()


# --------------------------------------------------------------------------------------------- the n-gram


def test_the_staircase_is_the_context_of_the_ngram_that_answered():
    track = look(language_model("ngram"), TEXT).track("back-off")
    matched = track.details["matched"]
    for row, length in enumerate(matched):
        context = set(range(row - length + 2, row + 1))
        assert {column for column in range(track.shape[3]) if track.values[0, 0, row, column]} == context
    assert 1 < max(matched) <= 4 and track.kind == "back-off" and track.row_label == "writes"
    np.testing.assert_array_equal(staircase([1, 2, 3]), np.array([[[[0, 0, 0], [0, 1, 0], [0, 1, 1]]]]))


def test_the_path_of_the_ngram_adds_up_to_what_was_said():
    seen = look(language_model("ngram"), TEXT)
    details = seen.track("back-off").details
    p = [each.p for each in seen.predictions]
    np.testing.assert_allclose(details["share"].sum(-1) + details["rest"], p, atol=1e-5)
    assert details["count"].shape == (len(seen.predictions), 4) and details["smoothing"] == "kneser-ney"


# ----------------------------------------------------------------------------------------------- the text


@pytest.mark.parametrize("kind", ["bpe", "word", "char", "byte", "whitespace"])
def test_tokens_stand_for_their_characters_and_words(kind):
    text = "Zoë's cat, the 🐈 sat  on\tmats"
    model = language_model("transformer", kind) if kind != "byte" else language_model("transformer", "byte")
    tokens = look(model, text).sides["text"].tokens
    assert (tokens[0].piece, tokens[0].special, tokens[0].start, tokens[0].word) == ("<bos>", True, -1, -1)
    words = {}
    for token in tokens[1:]:
        assert 0 <= token.start < token.end <= len(text) and not token.special
        words.setdefault(token.word, set()).add(text[token.start:token.end].strip())
    if kind in ("word", "char"):
        named = {"".join(text[token.start:token.end] for token in tokens if token.word == word)
                 for word in words if word >= 0}
        assert {"cat", ",", "the", "🐈", "sat", "on", "mats"} <= named
    if kind in ("bpe", "byte"):                           # four bytes of one character all stand for it
        assert sum(text[token.start:token.end].strip() == "🐈" for token in tokens[1:]) >= 1
        assert max(token.end for token in tokens) == len(text)


def test_a_blank_text_shows_what_the_model_begins_with():
    seen = look(language_model("transformer"), "")
    assert len(seen.predictions) == 1 and seen.predictions[0].guess
    assert seen.track("self").values.tolist() == [[[[1]], [[1]]]] * 2


@pytest.mark.parametrize("name, read", [("transformer", CONTEXT), ("rnn", 50)])
def test_what_is_too_long_is_cut_and_said(name, read, monkeypatch):
    monkeypatch.setattr(looking, "MOST_TOKENS", 50)
    seen = look(language_model(name, "char"), TEXT)
    assert len(seen.predictions) == read and not seen.predictions[-1].guess, "what follows the last row is known"
    assert seen.predictions[-1].piece == TEXT[read - 1] and seen.sides["text"].text == TEXT
    why = f"the model reads at most {read} at once" if name == "transformer" else f"{read} are shown at most"
    assert seen.notes == (f"the text has {len(TEXT) + 1} tokens with <bos>, and {why}: the first {read} are read",)


def test_maps_that_cannot_be_held_are_cut_and_said(monkeypatch):
    monkeypatch.setattr(looking, "MOST_NUMBERS", 4 * 10**2 + 3)
    seen = look(language_model("transformer"), TEXT)
    assert seen.track("self").shape == (2, 2, 10, 10)
    assert seen.notes[0].endswith("and 4 maps of more than 10 are more than can be held: the first 10 are read")
    monkeypatch.undo()
    monkeypatch.setattr(looking, "MOST_KERNEL", 7)
    assert look(language_model("mamba"), TEXT).track("kernel").shape[2:] == (7, 7)


@pytest.mark.parametrize("name", ["transformer", "ngram"])
def test_what_the_model_writes_is_looked_at_too(name):
    model = language_model(name)
    seen = look(model, Request(text="the cat", new_tokens=6))
    written = model.generate("the cat", new_tokens=6, temperature=0)
    assert seen.sides["text"].text == "the cat" + written
    plain = look(model, "the cat")
    assert seen.sides["text"].tokens[:3] == plain.sides["text"].tokens
    assert all(each.rank == 1 or each.id != other.id or name == "ngram" for each, other in zip(
        seen.predictions[2:-1], plain.predictions[2:], strict=False))
    drawn = look(model, Request(text="the cat", new_tokens=6, sampling=Sampling(seed=3)))
    assert drawn.sides["text"].text == "the cat" + model.generate("the cat", new_tokens=6, seed=3)
    tokens = seen.sides["text"].tokens
    assert all(later.start == earlier.end for earlier, later in pairwise(tokens[3:]))


def test_a_text_that_the_model_ends_is_followed_by_its_end(monkeypatch):
    model = language_model("ngram")
    seen = look(model, Request(text=TEXT, new_tokens=5))
    assert seen.sides["text"].text == TEXT
    assert seen.predictions[-1].piece == "<eos>" and not seen.predictions[-1].guess


def test_readings_that_are_no_maps_are_not_shown_and_that_is_said():
    from regard.watching import Recorder

    model, notes, seen = language_model("transformer").language_model, [], Recorder()
    seen.add(model, "weights", torch.ones(1, 2, 5, 5))
    seen.add(model, "weights", torch.ones(1, 2, 5, 3))
    (track,) = looking.read_tracks(model, seen, 5, notes)
    assert track.places == (0,) and track.layer_names == ("layer 1",)
    assert notes == ["1 readings of NeuralLM are no maps of 5 by 5 positions, and not shown"]


def test_layers_of_a_hybrid_keep_their_numbers():
    seen = look(language_model("hybrid"), TEXT)
    assert seen.track("self").layer_names == ("layer 2",)
    assert seen.track("kernel").layer_names == ("layer 1", "layer 4")
    assert seen.track("kernel-2").layer_names == ("layer 3",)
    assert seen.track("kernel-2").head_names[0] == "channels 1 to 2" and seen.track("kernel").head_names == ("head 1",)


# -------------------------------------------------------------------------------------------- the look


def test_the_same_request_of_the_same_weights_has_the_same_name_and_no_other_has():
    model, asked = language_model("rnn"), Request(text=TEXT)
    assert look(model, asked).id == look_id(model, asked) == look_id(language_model("rnn"), Request(text=TEXT))
    others = [look_id(model, asked, "named"), look_id(model, Request(text=TEXT + ".")),
              look_id(model, Request(text=TEXT, new_tokens=1)), look_id(language_model("rnn", seed=1), asked),
              look_id(language_model("rnn", "char"), asked)]
    assert len({look_id(model, asked), *others}) == 6


def test_a_look_can_be_run_again_and_closely():
    seen = look(language_model("transformer"), TEXT)
    track = seen.track("self")
    again = seen.watched(closely=True).readings[track.places[1]]
    np.testing.assert_array_equal(again.values[0].numpy(), track.values[1])
    assert "q" in again.about and "q" not in seen.watched().readings[0].about


def test_a_look_is_told_as_json():
    import json

    seen = look(language_model("ngram"), TEXT)
    told = json.loads(json.dumps(seen.as_dict(), allow_nan=False))
    assert told["tracks"][0]["name"] == "back-off" and told["tracks"][1]["lazy"] and told["tracks"][1]["top"] is None
    assert told["sides"]["text"]["tokens"][1][1] == "the" and told["said"][0]["piece"] == "the"


def test_mistakes_are_one_clear_line():
    model = language_model("transformer")
    with pytest.raises(DataError, match=r"^a language model reads a text: give one$"):
        look(model, Request(source="the cat"))
    with pytest.raises(SettingError, match=r"^unknown track slef: did you mean self\?$"):
        look(model, TEXT).track("slef")
    with pytest.raises(DataError, match="half a surrogate pair"):
        look(model, "\ud800")


def test_an_unsmoothed_ngram_holds_some_words_to_be_impossible():
    from regard.models.ngram import NGram
    from regard.tasks.lm.trained import Trained

    t = tokenizer()
    ids = t.encode(TEXT)
    lm = NGram.fit(np.append(ids, t.eos), np.array([len(ids) + 1]), vocab=t.vocab_size, order=3, smoothing="none")
    seen = look(Trained(lm, t, {"run": {"family": "ngram"}}), "the dog on cats")
    assert any(math.isinf(each.bits) for each in seen.predictions)
    assert all(each["bits"] is None or each["bits"] >= 0 for each in seen.as_dict()["said"])
    track = seen.track("influence-occlusion")
    assert track.values.shape == track.shape and math.isfinite(track.top)
