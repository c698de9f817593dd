import json
import math
import shutil

import pytest
import torch

import regard
from regard.decoding.sampling import Sampling
from regard.errors import DataError, RunError, SettingError
from regard.training.run import TrainRequest, run_training

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
OTHER = "the mat number 9 sat on cat 3\nthe cat sat\n\nnumber 12 sat on the cat on the mat\n"
MADE = {
    "transformer": dict(family="transformer", settings={
        "model": dict(layers=1, width=16, heads=2, context=16), "tokenizer": dict(kind="char"),
        "training": dict(steps=6, batch=4)}),
    "rnn": dict(family="rnn", settings={
        "model": dict(width=8, hidden=12, context=8), "tokenizer": dict(kind="word"),
        "training": dict(steps=6, batch=4)}),
    "ngram": dict(family="ngram", settings={"model": dict(order=3), "tokenizer": dict(kind="bpe", vocab=270)}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small run of each family, trained once."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for name, order in MADE.items():
            run_training(TrainRequest((str(folder / "text.txt"),), out=str(folder / name), device="cpu", quiet=True,
                                      **order))
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "other.txt").write_text(OTHER)


@pytest.fixture(params=MADE)
def model(request, made):
    return regard.load(made / request.param, device="cpu")


@pytest.fixture
def run(made, tmp_path):
    """A copy of a run, to damage."""
    return shutil.copytree(made / "transformer", tmp_path / "run")


# -------------------------------------------------------------------------------------------- scoring


@torch.no_grad()
def hand_scores(model, text, end=False):
    """Every token's log-probability by steps over windows: each reads the token before it, from <bos> on."""
    t = model.tokenizer
    ids = [t.bos, *t.encode(text).tolist(), *([t.eos] if end else [])]
    scores, width = [], model.window or len(ids)
    for first in range(0, len(ids) - 1, width):
        state = model.language_model.start(1, width)
        for at in range(first, min(first + width, len(ids) - 1)):
            log_probs, state = model.language_model.step(torch.tensor([[ids[at]]]), state)
            scores.append(float(log_probs[0, ids[at + 1]]))
    return scores


def test_the_score_of_a_text_is_the_sum_of_its_tokens_in_windows(model):
    text = OTHER.replace("\n", " ") * 4
    surprise, scores = model.score(text), hand_scores(model, text)
    assert surprise.tokens == len(scores) > (model.window or 0)
    assert surprise.nats == pytest.approx(-sum(scores), rel=1e-5)
    assert surprise.perplexity == pytest.approx(math.exp(-sum(scores) / len(scores)), rel=1e-5)
    assert surprise.bits_per_byte == pytest.approx(-sum(scores) / math.log(2) / len(text.encode()), rel=1e-5)
    assert surprise.word_perplexity == pytest.approx(math.exp(-sum(scores) / len(text.split())), rel=1e-4)


@pytest.mark.parametrize("documents", [None, "file", "line", "blank-line"])
def test_files_score_as_the_sum_of_their_tokens(model, tmp_path, documents):
    files = [str(tmp_path / "other.txt")]
    surprise = model.score_files(files, documents=documents)
    scores = model.token_scores(model.encode_files(files, documents=documents), documents)
    assert len(scores) == surprise.tokens
    assert surprise.nats == pytest.approx(-scores.double().sum().item(), rel=1e-6)


def test_lines_score_like_texts_of_their_own(model, tmp_path):
    surprise = model.score_files([str(tmp_path / "other.txt")], documents="line")
    lines = [line for line in OTHER.splitlines() if line]
    assert surprise.nats == pytest.approx(-sum(sum(hand_scores(model, line, end=True)) for line in lines), rel=1e-5)
    assert surprise.bytes == sum(len(line) for line in lines) and surprise.words == len(" ".join(lines).split())


def test_a_file_scores_like_its_text_and_its_end(model, tmp_path):
    surprise = model.score_files([str(tmp_path / "other.txt")], documents="file")
    scores = hand_scores(model, OTHER, end=True)
    assert surprise.tokens == len(scores)
    assert surprise.nats == pytest.approx(-sum(scores), rel=1e-5)


def test_a_score_does_not_depend_on_what_else_was_scored(model):
    before = model.score("the cat sat").nats
    model.score("something else entirely")
    assert model.score("the cat sat").nats == before


def test_unknown_characters_are_counted(made):
    model = regard.load(made / "transformer", device="cpu")
    assert model.score("the Ωcat").unknown == 1


@pytest.mark.parametrize("text", ["", "   \n"])
def test_a_text_without_tokens_cannot_be_scored(made, text):
    model = regard.load(made / "rnn", device="cpu")
    with pytest.raises(DataError, match=r"^there is no text to score: it is empty$"):
        model.score(text)


# ----------------------------------------------------------------------------------------- generating


def test_generating_is_streaming_put_together_and_the_same_each_time(model):
    pieces = list(model.stream("the cat", new_tokens=20, sampling=Sampling(seed=3)))
    assert "".join(pieces) == model.generate("the cat", new_tokens=20, seed=3)
    assert model.generate("the cat", new_tokens=20, seed=3) != model.generate("the cat", new_tokens=20, seed=4)


def test_words_are_spaced_from_the_prompt_on(made):
    model = regard.load(made / "rnn", device="cpu")
    text = model.generate("the cat", new_tokens=5, temperature=0)
    assert text.startswith(" ")
    assert model.tokenizer.encode("the cat" + text).tolist()[:2] == model.tokenizer.encode("the cat").tolist()
    assert not model.generate("", new_tokens=5).startswith(" ")


def test_the_greedy_text_is_the_likeliest_at_each_step(model):
    text = model.generate("the cat", new_tokens=4, temperature=0)
    ids = [model.tokenizer.bos, *model.tokenizer.encode("the cat").tolist()]
    written = []
    for _ in range(4):
        log_probs, _ = model.language_model.step(torch.tensor([ids + written]), model.language_model.start(1, 16))
        log_probs[0, [0, 1, 3]] = -torch.inf
        written.append(int(log_probs.argmax()))
        if written[-1] == model.tokenizer.eos:
            break
    writer = model.tokenizer.stream(after=ids)
    assert "".join(writer.push(id) for id in written) + writer.flush() == text


def test_what_comes_after_the_context_is_said(made):
    model, said = regard.load(made / "transformer", device="cpu"), []
    for seed in range(6):
        model.generate("the cat", new_tokens=40, seed=seed, notice=said.append)
    assert set(said) == {"past the 16 tokens the model can read at once: it goes on from the last 8"}


# ------------------------------------------------------------------------------------------- encoding


@pytest.mark.parametrize("name, width", [("transformer", 16), ("rnn", 12)])
def test_every_token_has_a_vector_in_its_context(made, name, width):
    model = regard.load(made / name, device="cpu")
    text = OTHER[:60]
    vectors, ids = model.encode(text), model.tokenizer.encode(text)
    assert vectors.shape == (len(ids), width) and not vectors.requires_grad
    window = torch.tensor([[model.tokenizer.bos, *ids.tolist()]])[:, :model.context]
    torch.testing.assert_close(vectors[:model.context - 1], model.language_model.encode(window)[0][0, 1:].detach())
    changed = model.encode(text + "?")
    torch.testing.assert_close(changed[:len(ids)], vectors)


def test_a_counted_family_has_no_vectors(made):
    with pytest.raises(RunError, match=r"^the ngram family has no vectors: only neural families encode$"):
        regard.load(made / "ngram").encode("the cat")


# -------------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize("name", MADE)
def test_a_moved_run_still_works_without_its_text_and_cache(made, tmp_path, name):
    expected = regard.load(made / name, device="cpu").generate("the", new_tokens=10)
    elsewhere = shutil.copytree(made / name, tmp_path / "far" / "away")
    shutil.rmtree(elsewhere / "checkpoints", ignore_errors=True)
    assert regard.load(elsewhere, device="cpu").generate("the", new_tokens=10) == expected


@pytest.mark.parametrize("family", MADE)
def test_nothing_is_unpickled(made, monkeypatch, family):
    import pickle

    def never(*arguments, **options):
        raise AssertionError("something was unpickled")

    for name in ("Unpickler", "_Unpickler", "load", "loads"):
        monkeypatch.setattr(pickle, name, never)
    monkeypatch.setattr(torch, "load", never)
    regard.load(made / family, device="cpu").generate("the", new_tokens=3)


def test_loading_again_gives_the_same_model(model):
    again = regard.load(model.path, device="cpu")
    assert again.score(OTHER).nats == model.score(OTHER).nats
    assert again.parameters == model.parameters > 0


def refused(run, error, message):
    with pytest.raises(error, match=message) as caught:
        regard.load(run, device="cpu")
    assert "\n" not in str(caught.value)


@pytest.fixture
def unlisted(run):
    """A run without a manifest, as earlier versions made them: each file must be refused by what is in it."""
    (run / "manifest.json").unlink()
    return run


DAMAGES = {"cut": lambda b: b[:-8], "short": lambda b: b[:4], "empty": lambda b: b"", "other": lambda b: b"\xff" * 100}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_weights_are_one_clear_line(unlisted, damage):
    weights = unlisted / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    refused(unlisted, RunError, r"model.safetensors is damaged or no safetensors file \(.*\): resume from a checkpoint")


def test_weights_of_another_model_are_one_clear_line(unlisted, made):
    shutil.copy(made / "rnn" / "model.safetensors", unlisted)
    refused(unlisted, RunError, "^the weights do not fit the model: .* is missing, superfluous or of another shape$")
    shutil.copytree(made / "ngram", unlisted, dirs_exist_ok=True)
    (unlisted / "manifest.json").unlink()
    shutil.copy(made / "rnn" / "model.safetensors", unlisted)
    refused(unlisted, RunError, "^the n-gram model lacks .*: it is damaged, or of another order than 3$")


def test_missing_weights_say_what_to_do(unlisted):
    (unlisted / "model.safetensors").unlink()
    refused(unlisted, RunError, "has no model.safetensors yet: .*; go on with --resume$")


def test_a_missing_or_damaged_tokenizer_is_one_clear_line(unlisted):
    (unlisted / "tokenizer.json").write_text('{"model": 3}')
    refused(unlisted, DataError, "tokenizer.json is not a tokenizer saved by regard")
    (unlisted / "tokenizer.json").unlink()
    refused(unlisted, DataError, "tokenizer.json does not exist: a tokenizer is saved there by training")


@pytest.mark.parametrize("old, new, error, message", [
    ('family = "transformer"', 'family = "transfomer"', SettingError, "^unknown family transfomer: did you mean"),
    ('family = "transformer"', 'kind = "transformer"', RunError, "run.toml is incomplete: it has no 'family'"),
    ("[run]", "[ran]", RunError, "run.toml is incomplete: it has no 'run'"),
    ("[data]", "[date]", SettingError, "^\\[data\\] is incomplete: .*files"),
    ("width = 16", "widht = 16", SettingError, "^unknown setting model.widht: did you mean model.width"),
    ("width = 16", 'width = "wide"', SettingError, "^model.width = 'wide': expected a whole number"),
    ("width = 16", "width = 32", RunError, "^the weights do not fit the model"),
    ("heads = 2", "heads = 3", SettingError, "^model.heads = 3 does not divide model.width = 16: try model.heads = 2"),
    ("[run]", "[run", SettingError, "run.toml is not a TOML file"),
])
def test_a_broken_run_toml_is_one_clear_line(run, old, new, error, message):
    settings = run / "run.toml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))
    refused(run, error, message)


def test_what_is_not_a_run_is_one_clear_line(tmp_path):
    refused(tmp_path / "nowhere", RunError, "^there is no run at .*nowhere: train one with `regard train`")
    refused(tmp_path, RunError, "is not a run folder: it has no run.toml$")
    refused(tmp_path / "other.txt", RunError, "is not a run folder: it has no run.toml$")


def test_a_device_that_is_not_there_is_one_clear_line(made):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    for device in ("cuda", "gpu"):
        with pytest.raises(RunError, match=f"^--device {device} cannot be used here .*: try --device cpu$") as caught:
            regard.load(made / "transformer", device=device)
        assert "\n" not in str(caught.value)


def test_a_run_holds_every_setting_and_the_loss_it_reached(made):
    model = regard.load(made / "transformer", device="cpu")
    rows = [json.loads(line) for line in (made / "transformer" / "metrics.jsonl").read_text().splitlines()]
    assert model.family == "transformer" and model.documents == "file" and model.context == 16
    assert min(row["valid_loss"] for row in rows if "valid_loss" in row) > 0


def test_many_lines_are_scored_like_each_with_its_end(model, tmp_path):
    lines = ["the cat sat", "", "on the mat the cat", "cat"]
    scores = model.score_lines(lines)
    for line, score in zip(lines, scores.tolist(), strict=True):
        (tmp_path / "line.txt").write_text(f"{line}\n" if line else "\n")
        if line:
            whole = model.score_files([str(tmp_path / "line.txt")], documents="line")
            assert score == pytest.approx(-whole.loss * whole.tokens, rel=1e-5)
    assert len(model.score_lines([])) == 0
