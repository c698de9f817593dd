"""The next token: the numbers are the model's, and what is drawn is what generation draws."""

import numpy as np
import pytest
import torch

import regard
from regard.decoding.sampling import Sampling
from regard.errors import DataError, RunError, SettingError
from regard.look.next_token import Continuations, entropy, vocabulary
from tests.look.models import masked_model
from tests.served_runs import shared_folder, train

TEXTS = ["stories-transformer", "stories-rnn", "stories-ngram", "stories-mamba"]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = shared_folder(tmp_path_factory)

    def loaded(name):
        train(folder, (name,))
        return regard.load(folder / "runs" / name, device="cpu")

    return loaded


@pytest.mark.parametrize("name", TEXTS)
def test_fifty_tokens_drawn_one_by_one_are_those_that_generate_draws(load, name):
    trained, how = load(name), Sampling(temperature=0.9, top_k=30, top_p=0.95, seed=11)
    texts, said = Continuations(trained), []
    for _ in range(50):
        found = texts.after("Tom had a", said, how)
        said.append(found.chosen.id)
        if found.chosen.id == found.end:
            break
    assert "".join(trained.stream("Tom had a", new_tokens=50, sampling=how)) == trained.tokenizer.decode(
        [*trained.tokenizer.encode("Tom had a"), *said])[len("Tom had a"):]
    prompt = [trained.tokenizer.bos, *trained.tokenizer.encode("Tom had a").tolist()]
    drawn = [step[0] for step in trained.steps([prompt], new_tokens=50, sampling=how)]
    assert [trained.tokenizer.eos if token is None else token for token in drawn] == said
    assert Continuations(trained).after("Tom had a", (), how, steps=50).prefix[-len(said):] == texts.after(
        "Tom had a", said, how).prefix[-len(said):]


def test_past_the_context_the_same_half_is_read_again(load):
    trained, how = load("stories-transformer"), Sampling(temperature=1.3, seed=4)
    prompt = " ".join(["Tom"] * 100)
    start = [trained.tokenizer.bos, *trained.tokenizer.encode(prompt).tolist()]
    drawn = [step[0] for step in trained.steps([start], new_tokens=60, sampling=how)]
    found = Continuations(trained).after(prompt, (), how, steps=60)
    own = [id for id, _, _ in found.said]
    assert own == [trained.tokenizer.eos if token is None else token for token in drawn]
    if len(drawn) > 28:
        assert any("past the 128 tokens" in note for note in found.notes)


@pytest.mark.parametrize("name", TEXTS)
def test_every_log_probability_is_the_models(load, name):
    trained = load(name)
    texts = Continuations(trained)
    ids = trained.tokenizer.encode("Tom had a red kite .").tolist()
    found = texts.after("Tom had", ids[len(trained.tokenizer.encode("Tom had")):])
    tokens = torch.tensor([[trained.tokenizer.bos, *ids]])
    model = trained.language_model
    for token in (5, 9, found.end):
        targets = torch.full_like(tokens, token)
        with torch.no_grad():
            scores, _ = model.score(tokens, targets, model.start(1))
        assert found.log_probs[token] == pytest.approx(float(scores[0, -1]), abs=1e-5)
    told = trained.score("Tom had a red kite .")
    rest = Continuations(trained).after("", ids)
    assert -sum(score for _, _, score in rest.said) == pytest.approx(told.nats, rel=1e-5)
    assert np.exp(found.log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-4)


def test_going_back_and_into_another_branch_gives_what_a_fresh_start_gives(load):
    trained = load("stories-transformer")
    texts = Continuations(trained)
    first = texts.after("Tom had a", (), steps=6)
    ids = [id for id, _, _ in first.said]
    for said in (ids[:3], [*ids[:3], 20], ids, ids[:1]):
        np.testing.assert_array_equal(texts.after("Tom had a", said).log_probs,
                                      Continuations(trained).after("Tom had a", said).log_probs)


def test_the_end_is_said(load):
    trained = load("stories-transformer")
    found = Continuations(trained).after("Tom had a", (trained.tokenizer.eos,))
    assert (found.over, found.log_probs, found.chosen) == ("end", None, None)
    assert found.said[0][:2] == (trained.tokenizer.eos, "<eos>") and found.said[0][2] < 0


def test_a_translator_goes_on_with_its_translation(load):
    trained = load("phrasebook")
    texts, line = Continuations(trained), "Elle donne le journal à ta mère."
    greedy = texts.after(source=line, how=Sampling(0.0), steps=50)
    ids = [id for id, _, _ in greedy.said if id != greedy.end]
    best = trained.translate([line], beam=1)[0]
    assert trained.tokenizer.target.decode(ids) == best.text
    drawn = texts.after(source=line, how=Sampling(seed=3), steps=50)
    sampled = trained.translate([line], sampling=Sampling(seed=3), n_best=1)[0]
    assert trained.tokenizer.target.decode([id for id, _, _ in drawn.said if id != drawn.end]) == sampled.text
    assert len(vocabulary(trained)) == trained.model.vocab
    with pytest.raises(DataError, match="nothing to go on with"):
        texts.after(source=" ")


def test_a_captioner_goes_on_with_its_caption(load):
    trained = load("shapes")
    image = np.random.default_rng(0).integers(0, 256, (trained.size, trained.size, 3), dtype=np.uint8)
    found = Continuations(trained).after(source=image, how=Sampling(0.0), steps=50)
    best = trained.caption(image[None], beam=1)[0]
    text = trained.tokenizer.decode([id for id, _, _ in found.said if id != found.end])
    assert text and (best.text == text if found.over == "end" else best.text.startswith(text))
    with pytest.raises(DataError, match="picture"):
        Continuations(trained).after()


def test_mistakes_are_one_line(load):
    trained = load("stories-transformer")
    with pytest.raises(SettingError, match="never said"):
        Continuations(trained).after("Tom", (trained.tokenizer.pad,))
    with pytest.raises(SettingError, match="never said"):
        Continuations(trained).after("Tom", (10**6,))
    with pytest.raises(SettingError, match="nothing follows"):
        Continuations(trained).after("Tom", (trained.tokenizer.eos, 9))

    with pytest.raises(RunError, match="fill its blanks"):
        Continuations(masked_model())
    with pytest.raises(RunError, match="a masked model writes nothing token by token"):
        vocabulary(masked_model())


def test_entropy_is_in_bits():
    assert entropy(np.log(np.full(8, 1 / 8, np.float32))) == pytest.approx(3, abs=1e-6)
    assert entropy(np.array([0.0, -np.inf], np.float32)) == pytest.approx(0, abs=1e-6)
