"""Models side by side: bits that are those of `score`, spread over characters; what is expected, and how it differs."""

import json
import math

import numpy as np
import pytest
import torch

from regard.contract import LanguageModel
from regard.data.tokens.tokenizers import train_tokenizer
from regard.errors import DataError, RunError, SettingError
from regard.families.family import randomised
from regard.families.transformer import TransformerSettings, build_transformer
from regard.look import side_by_side as looking
from regard.look.beam_tree import beam_tree
from regard.look.side_by_side import TOP, distance, in_chunks, side_by_side, text_distributions
from regard.look.side_by_side_written import written_side_by_side
from regard.models.ngram import NGram
from regard.serve.result_json import as_json
from regard.tasks.lm.trained import Trained
from tests.toy_pairs import WORDS, says_unknown, translator

TEXT = "the cat sat on the mat. the été cat 𝄞 sat, and the dog ran to the mat"
CORPUS = "the cat sat on the mat. the dog ran to the été, and sat"
TABLES = {"run": {"family": "transformer", "task": "lm"}, "model": {"context": 7}}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def trained(kind="char", seed=0, vocab=None, dtype=torch.float32):
    tokenizer = train_tokenizer(kind, [CORPUS], vocab)
    torch.manual_seed(seed)
    model = build_transformer(TransformerSettings(layers=1, width=8, heads=2, context=7), tokenizer.vocab_size)
    return Trained(randomised(model).to(dtype).eval(), tokenizer, TABLES)


def counted(kind="char", vocab=None):
    tokenizer = train_tokenizer(kind, [CORPUS], vocab)
    return Trained(NGram.fit(tokenizer.encode(CORPUS), vocab=tokenizer.vocab_size, order=3), tokenizer, TABLES)


MODELS = {"char": trained, "bytes": lambda: trained("byte"), "word": lambda: trained("word"),
          "bpe": lambda: trained("bpe", vocab=275), "ngram": counted}


@pytest.fixture(scope="module")
def four():
    return {name: MODELS[name]() for name in ("bytes", "word", "bpe", "ngram")}


def test_all_the_bits_are_those_of_score_exactly(four):
    seen = side_by_side(four, TEXT)
    for column in seen.models:
        surprise = four[column.id].score(TEXT)
        assert column.bits == surprise.nats / math.log(2)
        assert sum(token.bits for token in column.tokens) == pytest.approx(column.bits, rel=1e-12)
        assert sum(column.per_character) == pytest.approx(column.bits, rel=1e-12)
        assert len(column.per_character) == column.characters == len(TEXT)


def test_tokens_stand_where_they_stand_in_the_text(four):
    for column in side_by_side(four, TEXT).models:
        for token in column.tokens:
            text = TEXT[token.start:token.end]
            assert text == token.piece or token.piece in ("<unk>",) or token.piece.startswith("<0x")
        # A byte of a character of four stands for all of it, and the character has the bits of all its bytes.
        own = [token for token in column.tokens if token.start <= TEXT.index("𝄞") < token.end]
        assert column.per_character[TEXT.index("𝄞")] == pytest.approx(
            sum(token.bits / (token.end - token.start) for token in own))
    assert len(side_by_side({"bytes": four["bytes"]}, "𝄞").models[0].tokens) == 4


def by_hand(model, ids):
    """(T, V) in the windows of `score`, a step at a time."""
    rows, width = [], model.window or len(ids)
    read = [model.tokenizer.bos, *ids[:-1]]
    for first in range(0, len(read), width):
        state = model.language_model.start(1, width)
        for token in read[first:first + width]:
            log_probs, state = model.language_model.step(torch.tensor([[token]]), state)
            rows.append(log_probs[0])
    return torch.stack(rows)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_what_is_expected_is_what_the_model_says_step_by_step(name):
    model = MODELS[name]()
    ids = model.tokenizer.encode(TEXT).tolist()
    expected = by_hand(model, ids)
    torch.testing.assert_close(torch.cat(list(text_distributions(model, ids))), expected, atol=1e-5, rtol=1e-5)
    (column,) = side_by_side({name: model}, TEXT).models
    for token, id, log_probs in zip(column.tokens, ids, expected, strict=True):
        assert token.bits == pytest.approx(-float(log_probs[id]) / math.log(2), rel=1e-4)
        assert len(token.expected) == TOP
        assert [p for _, _, p in token.expected] == pytest.approx(
            log_probs.exp().sort(descending=True).values[:TOP].tolist(), rel=1e-4)


class Plain(LanguageModel):
    """A language model of somebody's own, about which nothing is known but the contract."""

    def __init__(self, model):
        self.model, self.vocab = model, model.vocab

    @property
    def device(self):
        return self.model.device

    def start(self, batch, capacity=None, source=None):
        return self.model.start(batch, capacity, source)

    def score(self, tokens, targets, state=None, lengths=None):
        return self.model.score(tokens, targets, state, lengths)

    def step(self, tokens, state, lengths=None):
        return self.model.step(tokens, state, lengths)


def test_any_language_model_can_be_compared():
    known = trained()
    own = Trained(Plain(known.language_model), known.tokenizer, TABLES)
    a, b = side_by_side({"own": own, "known": known}, "the cat").models
    for mine, theirs in zip(a.tokens, b.tokens, strict=True):
        assert [id for id, _, _ in mine.expected] == [id for id, _, _ in theirs.expected]


def test_the_distance_is_that_of_the_definition():
    chance = np.random.default_rng(0)
    p, q = (chance.dirichlet(np.ones(6) * 0.3, 5) for _ in range(2))
    p[0], q[0], p[1], q[1] = q[0], q[0], np.eye(6)[0], np.eye(6)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        m = (p + q) / 2
        wanted = np.sqrt(sum(np.where(each > 0, each * np.log2(each / m), 0).sum(1) / 2 for each in (p, q)))
        found = distance(torch.tensor(np.log(p)), torch.tensor(np.log(q)))
    assert found.numpy() == pytest.approx(wanted, abs=1e-7)
    assert found[0] == 0 and found[1] == pytest.approx(1)


def test_models_of_one_vocabulary_have_a_distance_and_others_a_reason():
    models = {"a": trained(seed=1), "b": trained(seed=2), "n": counted(), "w": trained("word")}
    seen = side_by_side(models, TEXT)
    pairs = {(pair.a, pair.b): pair for pair in seen.pairs}
    ids = models["a"].tokenizer.encode(TEXT).tolist()
    a, b = by_hand(models["a"], ids), by_hand(models["b"], ids)
    assert pairs["a", "b"].js == pytest.approx(distance(a, b).tolist(), abs=1e-4)
    assert pairs["a", "n"].js is not None and len(pairs["a", "n"].js) == len(ids)
    assert pairs["a", "w"].js is None and "vocabularies differ" in pairs["a", "w"].why_not
    assert len(pairs) == 6 and all((pair.js is None) == (pair.why_not is not None) for pair in seen.pairs)


def test_a_model_agrees_with_itself():
    model = trained()
    (pair,) = side_by_side({"a": model, "b": model}, TEXT).pairs
    assert set(pair.overlap) == {TOP} and max(pair.js) == 0 and len(pair.at) == len(TEXT)


def test_expectations_meet_where_both_have_read_the_same(four):
    seen = side_by_side(four, TEXT)
    columns = {column.id: column for column in seen.models}
    for pair in seen.pairs:
        assert pair.at[0] == (0, 0, 0) and len(pair.overlap) == len(pair.at)
        for (read, mine, their), same in zip(pair.at, pair.overlap, strict=True):
            a, b = columns[pair.a].tokens[mine], columns[pair.b].tokens[their]
            before = (columns[pair.a].tokens[mine - 1].end if mine else 0)
            assert read <= len(TEXT) and (mine == 0 or read in (before, before - 1))
            assert same == len({piece for _, piece, _ in a.expected} & {piece for _, piece, _ in b.expected})
    word, bpe = columns["word"], columns["bpe"]
    assert {piece[0] for _, piece, _ in word.tokens[1].expected if piece.isalpha()} == set()     # words have a space
    assert any(len(token.piece) > 1 for token in bpe.tokens)


def test_only_a_few_rows_of_the_vocabulary_are_held_at_once(monkeypatch):
    sizes = []
    monkeypatch.setattr(looking, "HELD", 64)
    monkeypatch.setattr("regard.models.distributions.HELD", 64)
    real = looking.distance
    monkeypatch.setattr(looking, "distance", lambda a, b: sizes.append(a.numel()) or real(a, b))
    seen = side_by_side({"a": trained(seed=1), "n": counted()}, TEXT)
    assert max(sizes) <= 64 and len(seen.pairs[0].js) == len(TEXT)
    monkeypatch.undo()
    whole = side_by_side({"a": trained(seed=1), "n": counted()}, TEXT)
    assert seen.pairs[0].js == pytest.approx(whole.pairs[0].js, abs=1e-6)


def test_chunks_are_the_same_rows():
    rows = torch.arange(23.0).view(-1, 1)
    for sizes in ([23], [1] * 23, [5, 9, 9], [2, 20, 1]):
        chunks = list(in_chunks(rows.split(sizes), 4))
        assert torch.equal(torch.cat(chunks), rows) and [len(chunk) for chunk in chunks] == [4] * 5 + [3]


def test_what_makes_bits_mean_less_is_said(four):
    notes = {column.id: " ".join(column.notes) for column in side_by_side(four, TEXT).models}
    assert "<unk>" in notes["word"] and "white space" in notes["word"] and "windows of 7" in notes["word"]
    assert "<unk>" not in notes["bytes"] and "white space" not in notes["bytes"]


def test_mistakes_are_said_in_one_line():
    with pytest.raises(DataError, match="empty"):
        side_by_side({"a": trained(), "b": trained()}, "")
    with pytest.raises(DataError, match="only white space"):
        side_by_side({"a": trained("word"), "b": trained()}, "  ")
    with pytest.raises(RunError, match="no language model"):
        side_by_side({"a": trained(), "b": translator()}, "a")
    with pytest.raises(SettingError, match="5 models"):
        side_by_side({str(n): trained() for n in range(5)}, "a")
    with pytest.raises(RunError, match="different tasks"):
        written_side_by_side({"a": trained(), "b": translator()}, "a")


def test_an_impossible_token_is_written_as_json():
    tokenizer = train_tokenizer("char", [CORPUS], None)
    model = Trained(NGram.fit(tokenizer.encode("the cat sat"), vocab=tokenizer.vocab_size, order=2, smoothing="none"),
                    tokenizer, TABLES)
    told = as_json(side_by_side({"a": model, "b": trained()}, "the dog"))
    again = json.loads(json.dumps(told, allow_nan=False))
    assert again["models"][0]["bits"] is None and again["models"][0]["tokens"][-1][3] is None


# ------------------------------------------------------------------------------------ written from a source


LINE = "un deux trois"


@pytest.mark.parametrize("name", ["rnn-attention", "transformer", "prefix"])
def test_each_writes_its_translation_and_judges_the_others(name):
    models = {"a": translator(name, seed=1), "b": translator("rnn", seed=2)}
    seen = written_side_by_side(models, LINE)
    for column in seen.models:
        model = models[column.id]
        (told,) = model.translate([LINE])
        assert column.text == told.text and column.finished == told.n_best[0].finished
        assert column.log_prob == pytest.approx(told.log_prob) and column.score == pytest.approx(told.score)
        best = beam_tree(model, LINE).finished[0]
        assert len(column.tokens) == best.length
        assert "".join(column.text[token.start:token.end] for token in column.tokens) == column.text
        for other, bits in zip(seen.models, column.judged, strict=True):
            if bits is not None and other.text:
                assert bits == pytest.approx(model.score_pairs([LINE], [other.text]).nats / math.log(2), rel=1e-6)
    json.dumps(as_json(seen), allow_nan=False)


def test_words_that_a_model_does_not_know_are_spelled_as_in_use_and_their_bits_are_not_believed():
    line = "Zorglub Zorglub"
    models = {"a": translator("rnn-attention", seed=1), "b": translator("rnn", seed=2)}
    says_unknown(models["a"].model)
    seen = written_side_by_side(models, line)
    assert seen.models[0].text == models["a"].translate([line])[0].text
    assert "Zorglub" in seen.models[0].text and "<unk>" not in seen.models[0].text
    first = seen.models[0]
    assert "".join(first.text[token.start:token.end] for token in first.tokens) == first.text
    count = sum(word not in WORDS.values() for column in seen.models for word in column.text.split())
    for column in seen.models:
        assert column.notes[-1] == (f"{count} of the tokens it judges are <unk>: their bits say only that a word is "
                                    "unknown, not which")
    known = written_side_by_side({"a": translator("rnn", seed=1), "b": translator("rnn", seed=2)}, "un deux")
    assert not any("<unk>" in note for column in known.models for note in column.notes)
