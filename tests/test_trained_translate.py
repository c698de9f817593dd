"""A translator in use: one line in, one line out, whatever the line, the batch, the order or the tokenizer."""

import numpy as np
import pytest
import torch
from toy_pairs import CONTEXT, SETTINGS, WORDS, pairs, tokenizers, translator

from regard.data.tokens.piece_words import piece_spans, piece_words, words_of, written_words
from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import FIRST, UNK
from regard.decoding.beam import Hypothesis
from regard.decoding.sampling import Sampling
from regard.decoding.spelling import pieces_of, unknown_words
from regard.errors import DataError, RunError, SettingError
from regard.metrics.alignment_error import Gold

LINES = [source for source, _ in pairs(6)]
ATTENTION = [name for name in SETTINGS if name not in ("rnn", "mean")]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(params=SETTINGS)
def model(request):
    return translator(request.param)


def outcome(results):
    return [(each.text, [(one.text, pytest.approx(one.score, abs=1e-9)) for one in each.n_best]) for each in results]


# -------------------------------------------------------------------------------------- lines and batches


@pytest.mark.parametrize("sampling", [None, Sampling(seed=3)])
def test_neither_batch_nor_order_nor_company_changes_a_line(model, sampling):
    how = dict(beam=2, n_best=2, sampling=sampling)
    together = model.translate(LINES, **how)
    assert outcome(model.translate(LINES, batch=1, **how)) == outcome(together)
    assert outcome(model.stream(iter(LINES), at_a_time=2, **how)) == outcome(together)
    if sampling is None:                                   # drawn noise belongs to the number of a line
        assert outcome(model.translate(LINES[::-1], **how))[::-1] == outcome(together)
        assert outcome(model.translate(LINES[3:4], **how)) == outcome(together[3:4])


def test_blank_lines_stay_blank_and_in_their_places(model):
    results = model.translate(["", "un deux", "  \t", "trois", ""], beam=2)
    assert [each.source for each in results] == ["", "un deux", "  \t", "trois", ""]
    assert [bool(each.sentences) for each in results] == [False, True, False, True, False]
    assert all(each.text == "" and each.score == 0 for each in results if not each.sentences)
    assert outcome(model.translate(["un deux"], beam=2)) == outcome(results[1:2])
    assert model.translate([]) == []


def test_a_line_too_long_is_cut_into_sentences_and_loses_nothing():
    told, model = [], translator()
    first, second = "un deux trois. " * 4, "Quatre cinq."
    line = f"{'Un deux trois.'}  {'Cinq un deux trois quatre.'} {'Deux deux deux deux cinq.'}"
    assert len(model.encode([line])[0]) > CONTEXT
    (whole,) = model.translate([line], beam=2, notice=told.append, alignments=True)
    parts = model.translate(["Un deux trois.", "Cinq un deux trois quatre.", "Deux deux deux deux cinq."], beam=2)
    assert whole.text == f"{parts[0].text}  {parts[1].text} {parts[2].text}" and whole.sentences == 3
    assert whole.log_prob == pytest.approx(sum(part.log_prob for part in parts))
    assert told[0].startswith(f"1 line longer than the {CONTEXT} tokens that the model reads: cut into sentences")
    sources, targets = len(words_of(line)), len(words_of(whole.text))
    assert all(source < sources and target < targets for source, target in whole.links)
    assert whole.weights.shape[2:] == (len(whole.target_pieces), len(whole.source_pieces))
    assert not whole.weights[:, :, :len(model.tokenizer.target.encode(parts[0].text)), 4:].any()
    endless = "deux " * 200
    (result,) = model.translate([endless + first + second], beam=1)
    assert result.sentences > 10


def test_a_line_of_one_endless_word_is_translated_too():
    model = translator("transformer", tokenizers("byte"))
    (result,) = model.translate(["x" * 100], beam=1)
    assert result.sentences >= 100 // CONTEXT and result.text.count("\n") == 0


def test_what_comes_to_no_end_is_counted():
    told, model = [], translator()
    with torch.no_grad():
        model.model.embedding.weight[model.tokenizer.eos] = -100 * model.model.embedding.weight[4:].sum(0)
    results = model.translate(LINES[:3], beam=2, notice=told.append)
    endless = sum(not each.n_best[0].finished for each in results)
    assert sum("came to no end" in line for line in told) == (endless > 0)
    for each in results:
        assert each.n_best[0].tokens <= CONTEXT


def test_what_is_wrong_with_a_later_line_does_not_lose_the_earlier_ones():
    model, seen = translator(), []

    def lines():
        yield from LINES[:3]
        raise DataError("line 4 is no text")

    with pytest.raises(DataError, match="line 4"):
        for each in model.stream(lines(), beam=1):
            seen.append(each.source)
    assert seen == LINES[:3]


def test_a_stream_gives_the_first_lines_before_it_has_read_the_last():
    model, read = translator(), []

    def endless():
        while True:
            read.append(1)
            yield "un"

    assert next(iter(model.stream(endless(), beam=1))).source == "un" and len(read) < 100


def test_no_translation_is_more_than_one_line():
    model = translator("transformer", tokenizers("byte"))
    newline = model.tokenizer.target.encode("\n").tolist()
    assert "\n" not in "".join(pieces_of(model.tokenizer.target, newline * 3))
    (result,) = model.translate(["été\u2028un"], beam=1)
    assert "\n" not in result.text


def test_progress_is_told():
    told = []
    translator().translate(LINES, beam=1, batch=20, on_progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (len(LINES), len(LINES)) and len(told) > 1


def test_the_score_of_a_drawn_target_is_what_the_model_says_of_it():
    model = translator()
    for source, each in zip(LINES, model.translate(LINES, sampling=Sampling(seed=1), n_best=2), strict=True):
        assert each.n_best[0].score >= each.n_best[1].score
        for one in each.n_best:
            if one.finished and one.text:
                assert one.log_prob == pytest.approx(-model.score_pairs([source], [one.text]).nats, abs=1e-6)


# ------------------------------------------------------------------------------------------ what was read


@pytest.mark.parametrize(("name", "kind"), [
    *((name, "word") for name in ATTENTION), ("transformer", "bpe"), ("prefix", "char"), ("before", "byte")])
def test_alignments_name_words_that_are_there(name, kind):
    model = translator(name, tokenizers(kind))
    for each in model.translate(["un été", "deux, un."], beam=2, alignments=True):
        assert each.weights is not None and np.isfinite(each.weights).all()
        assert each.weights.shape[2:] == (len(each.target_pieces), len(each.source_pieces))
        sources, targets = len(words_of(each.source)), len(words_of(each.text))
        assert all(0 <= source < sources and 0 <= target < targets for source, target in each.links)
        assert len({target for _, target in each.links}) == len(each.links)


@pytest.mark.parametrize("name", ["rnn", "mean"])
def test_a_model_without_attention_says_so_in_one_line(name):
    model = translator(name)
    golds = [Gold(frozenset({(0, 0)}))]
    for ask in (lambda: model.translate(["un"], alignments=True), lambda: model.alignment_error(["un"], ["one"], golds),
                lambda: model.translate(["un"], coverage=0.2)):
        with pytest.raises(RunError, match="this model has no attention to its source"):
            ask()


@pytest.mark.parametrize("kind", ["word", "bpe", "byte", "char"])
def test_weights_that_point_right_have_no_alignment_error(monkeypatch, kind):
    model = translator("transformer", tokenizers(kind))
    test = pairs(8, seed=5, longest=3 if kind in ("byte", "char") else 5)
    model.tables["model"]["context"] = 99
    sources, targets = map(list, zip(*test, strict=True))
    count = [len(source.split()) for source in sources]
    golds = [Gold(frozenset((n - 1 - at, at) for at in range(n))) for n in count]

    def pointing(read, written):
        found = []
        for source, target, ids, own in zip(sources, targets, read, written, strict=True):
            of_source = piece_words(model.tokenizer.source, source, ids[:-1])
            of_target = piece_words(model.tokenizer.target, target, own)
            right = np.equal.outer([max(of_source) - word for word in of_target], of_source).astype(np.float32)
            found.append(np.stack([np.stack([right, 1 - right]), np.stack([np.ones_like(right), 1 - right])]))
        return found

    monkeypatch.setattr(model, "reads", pointing)
    told = model.alignment_error(sources, targets, golds).as_dict()
    assert told["aer_best"] == 0 and (told["aer_best_layer"], told["aer_best_head"]) == (1, 1)
    assert told["aer_heads"][0][1] > 0.3 and len(told["aer_heads"]) == 2 and told["aligned_pairs"] == 8


def test_gold_alignments_of_other_pairs_are_refused():
    model = translator()
    with pytest.raises(DataError, match="alignment 2 has the link 3-0, but its pair has 1 and 1 words"):
        model.alignment_error(["un", "deux"], ["one", "two"], [Gold(frozenset({(0, 0)})), Gold(frozenset({(3, 0)}))])
    with pytest.raises(DataError, match="2 pairs and 1 alignments"):
        model.alignment_error(["un", "deux"], ["one", "two"], [Gold(frozenset())])


# ------------------------------------------------------------------------------------------------ <unk>


def test_an_unknown_word_is_spelled_as_the_word_it_read():
    t = tokenizers()
    one, two = t.target.encode("one two").tolist()
    source = t.source.encode("un Zorglub, deux").tolist()
    weights = np.eye(4, dtype=np.float32)[[0, 1, 3]]
    instead = unknown_words(t.source, "un Zorglub, deux", source, t.target, [one, UNK, two], weights)
    assert instead == {1: "Zorglub"}
    assert pieces_of(t.target, [one, UNK, two], instead) == ["one", " Zorglub", " two"]
    sub = tokenizers("bpe")
    ids = sub.source.encode("un Zorglub").tolist()
    weights = np.zeros((1, len(ids)), np.float32)
    weights[0, 2:] = 0.1
    assert unknown_words(sub.source, "un Zorglub", ids, t.target, [UNK], weights) == {0: "Zorglub"}
    letters = tokenizers("char")
    ids = letters.source.encode("un Ω").tolist()
    instead = unknown_words(letters.source, "un Ω", ids, letters.target, [UNK], np.eye(4, dtype=np.float32)[3:])
    assert pieces_of(letters.target, [UNK], instead) == ["Ω"]


def test_unknown_words_survive_where_the_model_attends_and_are_never_written_where_it_does_not():
    model, blind, lossless = translator(), translator("rnn"), translator("rnn-attention", tokenizers("bpe"))
    assert UNK not in model.special_tokens.banned
    assert UNK in blind.special_tokens.banned and UNK in lossless.special_tokens.banned
    found = [[Hypothesis((UNK, 5), -1.0, -1.0)]]
    (part,) = model.spell_sentences(["Zorglub"], model.encode(["Zorglub"]), found)
    assert part.spell(0) == f"Zorglub {model.tokenizer.target.token(5)}"
    assert written_words(part.pieces[0]) == [0, 1]


# ---------------------------------------------------------------------------------- which word a piece is


TEXTS = ["l'été à Paris, 3.5 €!", " deux  espaces ", "été", "日本語 です。", "a\u00a0b", "naïve 👩‍👩‍👧 ok", "x"]


@pytest.mark.parametrize("kind", ["char", "byte", "bpe", "unigram", "word", "whitespace"])
@pytest.mark.parametrize("words", ["word", "whitespace"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_word_has_its_own_pieces_in_order(kind, words, text):
    tokenizer = train_tokenizer(kind, ["l'été à Paris deux espaces naïve"], 280 if kind in ("bpe", "unigram") else None)
    ids = tokenizer.encode(text).tolist()
    found = piece_words(tokenizer, text, ids, words)
    spans, raw = piece_spans(tokenizer, text, ids), text.encode()
    assert len(found) == len(ids) == len(spans)
    real = [word for word in found if word >= 0]
    assert real == sorted(real)
    if kind in ("char", "byte", "bpe", "unigram"):
        assert b"".join(raw[first:last] for first, last in spans) == raw
        own = {word: b"".join(raw[first:last] for (first, last), of in zip(spans, found, strict=True) if of == word)
               for word in set(real)}
        for word, spelled in own.items():                      # its pieces hold the word, and at most space around it
            assert words_of(text, words)[word] in spelled.decode(errors="ignore")
    if kind in ("char", "byte"):
        assert set(real) == set(range(len(words_of(text, words))))


def test_pieces_of_bytes_inside_a_character_belong_to_its_word():
    byte = train_tokenizer("byte", [])
    assert piece_words(byte, "à é", byte.encode("à é").tolist()) == [0, 0, -1, 1, 1]
    ids = byte.encode("à é").tolist()
    assert written_words(pieces_of(byte, ids)) == [0, 0, -1, 1, 1]
    assert pieces_of(byte, ids[:1]) == ["\ufffd"]              # half a character, as well as it can be shown


# -------------------------------------------------------------------------------------------- measuring


def test_the_loss_is_that_of_the_targets_with_their_ends(model):
    sources, targets = map(list, zip(*pairs(7), strict=True))
    all_of_them = model.score_pairs(sources, targets)
    alone = [model.score_pairs([source], [target]) for source, target in zip(sources, targets, strict=True)]
    assert all_of_them.nats == pytest.approx(sum(each.nats for each in alone), rel=1e-9)
    assert all_of_them.tokens == sum(len(target.split()) + 1 for target in targets)


def test_pairs_too_long_for_the_model_are_left_out_of_the_loss_and_told():
    told, model = [], translator()
    long = " ".join(["un"] * 40)
    assert model.score_pairs(["un", long], ["one", "one"], told.append).tokens == 2
    assert told == [f"1 of 2 pairs are longer than the {CONTEXT} tokens that the model reads, and not in the loss"]
    with pytest.raises(DataError, match="every pair is longer"):
        model.score_pairs([long], ["one"])


def test_quality_is_of_the_translations(model):
    texts = [each.text for each in model.translate(LINES, beam=2)]
    quality = model.quality(LINES, texts, beam=2)
    assert quality.exact_match == 1 and quality.sentences == len(LINES)


def test_what_cannot_be_is_refused():
    model = translator()
    for wrong, message in ((dict(beam=0), "--beam 0"), (dict(n_best=9), "--n-best 9"), (dict(batch=0), "--batch 0"),
                           (dict(coverage=-1.0), "--coverage -1.0")):
        with pytest.raises(SettingError, match=message):
            model.translate(["un"], **wrong)
    with pytest.raises(DataError, match="give a list of lines"):
        model.translate("un")
    with pytest.raises(DataError, match="2 sources and 1 targets are no pairs"):
        model.score_pairs(["un", "deux"], ["one"])


def test_it_knows_its_family_and_languages():
    model = translator("before")
    assert model.family == "rnn-attention" and model.languages == ("fr", "en") and model.parameters > 1000
    assert model.context == CONTEXT and model.learner is model.model and len(WORDS) + FIRST == model.model.vocab
