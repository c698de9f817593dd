import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.contract import Source
from regard.data.tokens.characters import ByteTokenizer
from regard.errors import DataError
from regard.layers.self_attention import SelfAttention
from regard.look import Request, look
from regard.watching import watch
from tests.look.models import TRANSLATORS, pair_model
from tests.toy_pairs import CONTEXT, SETTINGS, tokenizers, translator

SOURCE, TARGET = "un deux trois quatre", "four three two one"
ATTENTIVE = ("rnn-attention", "before", "feeding", "transformer", "prefix")
BOTH = {"cross", "self", "encoder"}
TRACKS = {"transformer": BOTH, "wide": BOTH, "prefix": {"cross", "self"}, "rnn": set(), "mean": set()}
INFLUENCE = {f"{on}-{how}" for on in ("source", "influence") for how in ("gradient", "sensitivity", "occlusion")}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def given(name, target=TARGET, **options):
    return look(pair_model(name, **options), Request(source=SOURCE, target=target))


def framed(model, seen):
    source = torch.tensor([[token.id for token in seen.sides["source"].tokens]])
    return source, torch.tensor([[token.id for token in seen.sides["target"].tokens]])


# ---------------------------------------------------------------------------------------------- the numbers


@pytest.mark.parametrize("name", TRANSLATORS)
def test_every_translator_has_its_maps(name):
    seen = given(name)
    assert {track.name for track in seen.tracks} == TRACKS.get(name, {"cross"}) | INFLUENCE
    assert [token.piece for token in seen.sides["source"].tokens] == ["un", "deux", "trois", "quatre", "<eos>"]
    assert [token.piece for token in seen.sides["target"].tokens] == ["<bos>", "four", "three", "two", "one"]
    assert [each.piece for each in seen.predictions] == ["four", "three", "two", "one", "<eos>"] and not seen.notes
    for track in seen.tracks:
        sizes = len(seen.sides[track.rows].tokens), len(seen.sides[track.columns].tokens)
        assert track.values.shape[2:] == track.shape[2:] == sizes and track.values.dtype == np.float32
        assert not track.causal or not np.triu(track.values, 1).any()


@pytest.mark.parametrize("name", ATTENTIVE)
def test_the_numbers_are_those_that_the_layers_recorded_to_the_last_bit(name):
    model = pair_model(name)
    seen = given(name)
    source, tokens = framed(model, seen)
    with torch.no_grad(), watch() as recorded:
        state = model.model.start(1, None, Source(source))
        model.model.score(tokens, torch.zeros_like(tokens), state)
    places = []
    for track in seen.tracks:
        first = track.details.get("offset", 0)
        for values, place in zip(track.values, track.places, strict=False):
            own = recorded.readings[place].values[0, :, first:, :track.shape[3]]
            np.testing.assert_array_equal(values, own.numpy())
        places += track.places if not first else ()
    assert sorted(places) == list(range(len(recorded.readings))), "nothing that was recorded is left out"


@pytest.mark.parametrize("name", ATTENTIVE)
def test_what_a_word_read_is_what_the_translator_says_it_read(name):
    model, seen = pair_model(name), given(name)
    source, tokens = framed(model, seen)
    (read,) = model.reads(source.tolist(), [tokens[0, 1:].tolist()])
    np.testing.assert_allclose(seen.track("cross").values[:, :, :-1, :-1], read, atol=1e-6)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_rows_of_weights_sum_to_one_but_for_what_falls_on_the_source_alone(name):
    for track in given(name).tracks:
        if track.kind == "weights" and "less" not in track.badge:
            np.testing.assert_allclose(track.values.sum(-1), 1, atol=1e-5)
    if name == "prefix":
        sums = given(name).track("cross").values.sum(-1)
        assert (sums < 1).all() and (sums > 0).all()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_what_a_row_says_is_what_the_model_scores(name):
    model, seen = pair_model(name), given(name)
    source, tokens = framed(model, seen)
    targets = torch.tensor([[each.id for each in seen.predictions]])
    with torch.no_grad():
        scores = model.model.score(tokens, targets, model.model.start(1, None, Source(source)))[0][0]
    assert [each.bits for each in seen.predictions] == pytest.approx((-scores / math.log(2)).tolist(), abs=1e-5)
    assert all(1 <= each.rank <= model.model.vocab and not each.guess for each in seen.predictions)


# ------------------------------------------------------------------------------------------------- the law


def assert_prefix_reads_the_same(name):
    whole, part = given(name), given(name, "four three")
    for track in part.tracks:
        rows, columns = track.shape[2:]
        for row in range(rows - 1):
            np.testing.assert_allclose(track.row(row), whole.track(track.name).row(row)[..., :columns], atol=1e-5)
    for own, other in zip(part.predictions[:-1], whole.predictions, strict=False):
        assert own.id == other.id and own.bits == pytest.approx(other.bits, abs=1e-5)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_beginning_of_a_target_reads_what_it_reads_in_the_whole(name):
    assert_prefix_reads_the_same(name)


def test_a_decoder_that_reads_what_comes_after_is_caught(monkeypatch):
    monkeypatch.setattr(SelfAttention, "who_reads_whom", lambda self, queries, keys, whole: (None, None))
    with pytest.raises(AssertionError):
        assert_prefix_reads_the_same("transformer")


# ----------------------------------------------------------------------------------------------- influence


def log_p(model, embedded, row, source, tokens, targets, at, by):
    """log p of a row's target, with the embedding of source token `at` moved by `by` (D,)."""
    def move(_module, _inputs, output):
        output = output.clone()
        output[:, at] += by
        return output

    handle = embedded.register_forward_hook(move)
    try:
        with torch.no_grad():
            return float(model.score(tokens, targets, model.start(1, None, Source(source)))[0][0, row])
    finally:
        handle.remove()


@pytest.mark.parametrize("name", ["rnn", "rnn-attention", "transformer", "prefix"])
def test_the_gradient_on_the_source_is_what_a_small_change_of_it_does(name):
    model = translator(name)                                # in float64
    seen = look(model, Request(source=SOURCE, target=TARGET))
    source, tokens = framed(model, seen)
    targets = torch.tensor([[each.id for each in seen.predictions]])
    embedded = model.model.embedding if name == "prefix" else model.model.encoder.embedding
    for row, at in ((0, 0), (3, 2), (4, 4)):
        x = embedded.weight[source[0, at]].detach()
        step = 1e-5
        up, down = (log_p(model.model, embedded, row, source, tokens, targets, at, sign * step * x) for sign in (1, -1))
        assert seen.track("source-gradient").values[0, 0, row, at] == pytest.approx((up - down) / 2 / step, abs=1e-5)
        norm = seen.track("source-sensitivity").row(row)[0, 0, at]
        assert norm * float(x.norm()) >= abs(up - down) / 2 / step - 1e-5, "no change of that size does more"


@pytest.mark.parametrize("name", TRANSLATORS)
def test_occlusion_of_the_source_is_what_is_lost_without_a_token(name):
    model, seen = pair_model(name), given(name)
    source, tokens = framed(model, seen)
    targets = torch.tensor([[each.id for each in seen.predictions]])

    def scores(items):
        with torch.no_grad():
            return model.model.score(tokens, targets, model.model.start(1, None, Source(items)))[0][0]

    without = source.clone()
    without[0, 1] = model.tokenizer.unk
    np.testing.assert_allclose(seen.track("source-occlusion").values[0, 0, :, 1], scores(source) - scores(without),
                               atol=1e-5)
    np.testing.assert_allclose(given(name).track("source-occlusion").row(2), seen.track("source-occlusion").row(2),
                               atol=1e-5)


def test_the_gradient_on_the_target_is_that_of_its_own_embeddings():
    model = translator("prefix")
    seen = look(model, Request(source=SOURCE, target=TARGET))
    source, tokens = framed(model, seen)
    targets, length = torch.tensor([[each.id for each in seen.predictions]]), source.shape[1]
    x = model.model.embedding.weight[tokens[0, 2]].detach()
    up, down = (log_p(model.model, model.model.embedding, 3, source, tokens, targets, length + 2, sign * 1e-5 * x)
                for sign in (1, -1))
    assert seen.track("influence-gradient").values[0, 0, 3, 2] == pytest.approx((up - down) / 2e-5, abs=1e-5)


# ------------------------------------------------------------------------------------------------ the texts


@pytest.mark.parametrize("name", TRANSLATORS)
def test_without_a_target_the_model_writes_its_own(name):
    model = pair_model(name)
    seen, told = look(model, SOURCE), model.translate([SOURCE], beam=5)[0]
    shown = seen.sides["target"]
    finished = told.n_best[0].finished
    assert shown.text == told.text
    assert [token.piece for token in shown.tokens[1:]] == [
        model.tokenizer.token(token.id) for token in shown.tokens[1:]]
    assert (seen.predictions[-1].piece == "<eos>" and not seen.notes) if finished else "came to no end" in seen.notes[0]
    assert len(shown.tokens) <= CONTEXT


@pytest.mark.parametrize("name", ["transformer", "prefix"])
def test_what_is_too_long_is_cut_and_said(name):
    seen = look(pair_model(name), Request(source=" ".join(["un"] * 40), target=" ".join(["one"] * 40)))
    assert len(seen.sides["source"].tokens) == CONTEXT and seen.sides["source"].tokens[-1].piece == "<eos>"
    assert len(seen.predictions) == CONTEXT and seen.predictions[-1].piece == "one" and not seen.predictions[-1].guess
    assert seen.notes == (
        f"the source has 41 tokens with its end, and the model reads at most {CONTEXT}: the rest is not read",
        f"the target has 40 tokens, and the model reads at most {CONTEXT - 1}: the first are read")
    assert look(pair_model(name), Request(source=" ".join(["un"] * 40))).notes[0] == seen.notes[0]


@pytest.mark.parametrize("kind", ["bpe", "char", "byte"])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_sources_of_any_tokenizer_are_cut_between_characters_and_translated(kind, before):
    pair = tokenizers("word")
    pair = replace(pair, source=(tokenizers(kind) if kind != "byte" else replace(pair, source=ByteTokenizer())).source)
    model = translator("rnn-attention", pair, dtype=torch.float32)
    seen = look(model, Request(source=before + "🐈" * 30))
    tokens = seen.sides["source"].tokens
    assert CONTEXT - 4 < len(tokens) <= CONTEXT and "the rest is not read" in seen.notes[0]
    read = model.tokenizer.source.encode(seen.sides["source"].text[:tokens[-2].end])
    assert read.tolist() == [token.id for token in tokens[:-1]]


def test_a_prefix_model_reads_source_and_target_as_one_text():
    seen = given("prefix")
    both = seen.sides["text"]
    assert [token.piece for token in both.tokens] == [
        token.piece for side in ("source", "target") for token in seen.sides[side].tokens]
    assert [both.text[token.start:token.end] for token in both.tokens if not token.special] == [
        *SOURCE.split(), *TARGET.split()]
    assert len({token.word for token in both.tokens if token.word >= 0}) == 8
    whole, cross = seen.track("self"), seen.track("cross")
    np.testing.assert_array_equal(cross.values, whole.values[:, :, 5:, :5])


@pytest.mark.parametrize("name", ["transformer", "prefix"])
def test_decoders_of_another_kind_show_their_kernels(name, monkeypatch):
    settings = replace(SETTINGS[name], mixer="linear-rnn", positions="none")
    monkeypatch.setitem(SETTINGS, name, settings)
    seen = look(translator(name, dtype=torch.float32), Request(source=SOURCE, target=TARGET))
    kernel = seen.track("kernel")
    assert kernel.signed and kernel.shape[2] == (10 if name == "prefix" else 5)
    assert {track.name for track in seen.tracks} - INFLUENCE == (
        {"kernel"} if name == "prefix" else {"cross", "kernel", "encoder"})
    assert seen.track("source-gradient").values.any()


def test_a_summariser_reads_a_document():
    seen = given("transformer", task="summarise")
    assert seen.task == "summarise" and seen.sides["source"].title == "document"
    assert given("transformer").sides["source"].title == "fr" and seen.track("cross").badge == "weights, rows sum to 1"


def test_mistakes_are_one_clear_line():
    with pytest.raises(DataError, match=r"^a translator reads a source: give one$"):
        look(pair_model("rnn"), Request(text="un"))
    with pytest.raises(DataError, match=r"^there is nothing to read: the source is blank$"):
        look(pair_model("rnn"), " \n")
