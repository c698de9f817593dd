import math

import pytest
import torch

from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import FIRST
from regard.decoding.fill import Filled, fill_blanks, fill_places, lay_out, split_at_blanks
from regard.errors import DataError
from regard.families.masked_encoders import MASKED, MaskedTransformerSettings, build_transformer

TEXT = "the cat sat on the mat . the dog lay on the rug . a cat lay by the dog ."


def model_for(tokenizer, context=32):
    torch.manual_seed(0)
    model = build_transformer(MaskedTransformerSettings(layers=1, width=8, heads=2, context=context),
                              tokenizer.vocab_size + 1)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model.double().eval()


@pytest.fixture(params=MASKED)
def tiny(request):
    return MASKED[request.param].example(torch.float64)          # 11 tokens: 4 specials, 6 of text, <mask>


@pytest.fixture(scope="module")
def words():
    return train_tokenizer("word", [TEXT])


# ------------------------------------------------------------------------------------------- places


@torch.no_grad()
def probabilities(model, row, place):
    """What may stand at one place, by definition: all of the model's probability that lies on text."""
    p = model.predict(torch.tensor([row]), torch.tensor([[place]]))[0, 0].exp()
    p[:FIRST] = p[model.mask] = 0
    return p / p.sum()


@torch.no_grad()
def test_every_filling_has_the_product_of_its_conditional_probabilities_the_surest_place_first(tiny):
    row, places = [5, 10, 6, 10, 7], [1, 3]
    found = fill_places(tiny, torch.tensor(row), places, beams=100)
    expected = {}
    first, second = sorted(places, key=lambda at: -probabilities(tiny, row, at).max())
    for a in range(FIRST, tiny.mask):
        one = [*row[:first], a, *row[first + 1 :]]
        for b in range(FIRST, tiny.mask):
            both = [*one[:second], b, *one[second + 1 :]]
            expected[tuple(both)] = float(probabilities(tiny, row, first)[a] * probabilities(tiny, one, second)[b])
    assert {tuple(tokens.tolist()): math.exp(score) for tokens, score in found} == pytest.approx(expected)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert sum(expected.values()) == pytest.approx(1)


@torch.no_grad()
def test_fewer_beams_keep_the_likeliest(tiny):
    row = torch.tensor([5, 10, 6, 7])
    everything, some = (fill_places(tiny, row, [1], beams=beams) for beams in (100, 3))
    assert len(everything) == 6 and len(some) == 3
    for (a, p), (b, q) in zip(everything, some, strict=False):
        assert torch.equal(a, b) and p == pytest.approx(q)


# ------------------------------------------------------------------------------------------- blanks


@pytest.mark.parametrize("blank", ["___", "______", "[MASK]", "<mask>"])
def test_a_blank_may_be_written_in_several_ways(words, blank):
    model = model_for(words)
    filled = fill_blanks(model, words, f"the cat {blank} on the mat", top=3)
    assert filled == fill_blanks(model, words, "the cat ___ on the mat", top=3)
    (candidates,) = filled.blanks
    assert len(candidates) == 3 and filled.text == f"the cat {candidates[0].text} on the mat"
    assert [c.probability for c in candidates] == sorted((c.probability for c in candidates), reverse=True)
    assert all(c.text in TEXT.split() and c.tokens == tuple(words.encode(c.text)) for c in candidates)


def test_a_single_blank_is_the_models_distribution_over_words(words):
    model = model_for(words)
    (candidates,) = fill_blanks(model, words, "the ___ sat", top=100, end=True).blanks
    row = [*words.encode("the"), model.mask, *words.encode("sat"), words.eos]
    expected = probabilities(model, row, 1)
    assert len(candidates) == words.vocab_size - FIRST
    assert {c.tokens[0]: c.probability for c in candidates} == pytest.approx(
        {id: float(expected[id]) for id in range(FIRST, words.vocab_size)})


def test_several_blanks_have_candidates_each_and_are_filled_together(words):
    model = model_for(words)
    filled = fill_blanks(model, words, "___ cat ___ on the ___.", top=4)
    assert isinstance(filled, Filled) and len(filled.blanks) == 3
    assert "_" not in filled.text and filled.text.endswith(".") and len(words.encode(filled.text)) == 7
    row, places = lay_out(model, [[], [5], [6, 7]], [1, 2])
    assert row.tolist() == [model.mask, 5, model.mask, model.mask, 6, 7] and places == [[0], [2, 3]]


def test_the_space_before_a_blank_belongs_to_what_is_missing_where_tokens_carry_it(words):
    text = "the cat ___ on ___"
    assert split_at_blanks(words, text) == ["the cat ", " on ", ""]
    assert split_at_blanks(train_tokenizer("bpe", [TEXT], 280), text) == ["the cat", " on", ""]
    assert split_at_blanks(train_tokenizer("char", [TEXT]), text) == ["the cat ", " on ", ""]


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_the_length_of_a_blank_is_given_or_the_likeliest_on_average(kind):
    tokenizer = train_tokenizer(kind, [TEXT], 270 if kind == "bpe" else None)
    model = model_for(tokenizer)
    tried = {n: fill_blanks(model, tokenizer, "the ___ sat", top=2, length=n).blanks[0][0] for n in (1, 2, 3, 4)}
    assert all(len(best.tokens) == n for n, best in tried.items())
    (chosen, *_), = fill_blanks(model, tokenizer, "the ___ sat", top=2).blanks
    average = math.log(chosen.probability) / len(chosen.tokens)
    assert all(average >= math.log(best.probability) / n - 1e-9 for n, best in tried.items())


def test_of_a_long_text_what_stands_around_the_blanks_is_read(words):
    model = model_for(words, context=4)
    whole = fill_blanks(model, words, "the dog lay by the cat ___ on the mat")
    (part,), (same,) = fill_blanks(model, words, "cat ___ on the").blanks, whole.blanks
    assert part == same and whole.text == f"the dog lay by the cat {same[0].text} on the mat"
    for left in range(7):
        for right in range(7):
            row, ((at,),) = lay_out(model, [list(range(left)), list(range(right))], [1])
            assert row[at] == model.mask and len(row) == min(4, left + 1 + right)
            assert row[:at].tolist() == list(range(left))[left - at:]
            assert at >= min(left, 1) and len(row) - at - 1 >= min(right, 1)


def test_a_text_without_a_blank_and_blanks_too_far_apart_are_one_clear_line(words):
    with pytest.raises(DataError, match="there is no blank in 'the cat sat __': write ___ or"):
        fill_blanks(model_for(words), words, "the cat sat __")
    with pytest.raises(DataError, match="what stands between them are 6 tokens, and this model reads at most 4"):
        fill_blanks(model_for(words, context=4), words, "___ cat sat on the ___")
