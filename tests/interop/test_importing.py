"""Models of other programs come in: the same probabilities, the same choices, the same tokens; bad folders do not."""

import json
import shutil

import numpy as np
import pytest
import torch

import regard
from regard.data.tokens.foreign import ADDED
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.errors import RegardError
from regard.interop.importing import import_model, import_run

from .foreign_models import CONTEXT, FUZZ, MODELS, ROWS, TEXT, build

transformers = pytest.importorskip("transformers", reason="transformers is not installed: the peer's classes are needed")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Each model and its import, made when it is asked for."""
    made = {}

    def find(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            theirs = build(name, folder / name)
            run = import_run(folder / name, folder / "run").path
            made[name] = theirs, regard.load(run, "cpu"), folder / name
        return made[name]

    return find


def theirs_of(trained, ids):
    """The peer's ids of ours; <bos>, where it was added, reads as the end of text does."""
    order = trained.tokenizer.order
    return [int(order[id]) if order[id] != ADDED else int(order[2]) for id in ids]


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_all_log_probabilities_are_the_same(name, imported):
    theirs, trained, _ = imported(name)
    ids = [1, *np.random.default_rng(0).integers(FIRST, 380, 40).tolist()]
    wanted = theirs(torch.tensor([theirs_of(trained, ids)])).logits[0].float().log_softmax(-1)
    vectors, _ = trained.model.encode(torch.tensor([ids]))
    found = trained.model.head(vectors)[0]
    order = torch.from_numpy(trained.tokenizer.order)
    known = order != ADDED
    assert known.sum() == ROWS
    torch.testing.assert_close(found[:, known], wanted[:, order[known]], rtol=0, atol=1e-4)
    assert (found[:, ~known].exp() == 0).all()
    state = trained.model.start(1, CONTEXT)
    for position, id in enumerate(ids):                                          # one by one, from the cache
        step, state = trained.model.step(torch.tensor([[id]]), state)
        torch.testing.assert_close(step[0], found[position], rtol=0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_fifty_greedy_tokens_are_the_same(name, imported):
    theirs, trained, _ = imported(name)
    ids = [1, *trained.tokenizer.encode("The cat sat").tolist()]
    length = len(ids)
    for _ in range(50):                                                          # by the peer, without its cache
        logits = theirs(torch.tensor([theirs_of(trained, ids)])).logits[0, -1]
        ranked = [int(id) for id in torch.argsort(logits, descending=True).tolist()]
        back = {int(own): n for n, own in enumerate(trained.tokenizer.order)}
        banned = {0, 1, 3, 2}
        ids.append(next(back[id] for id in ranked if back[id] not in banned))
    state, ours = trained.model.start(1, CONTEXT), ids[:length]
    log_probs, state = trained.model.step(torch.tensor([ours]), state)
    for _ in range(50):
        log_probs[:, :FIRST] = -torch.inf
        ours.append(int(log_probs[0].argmax()))
        log_probs, state = trained.model.step(torch.tensor([ours[-1:]]), state)
    assert ours == ids


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_tokenizer_is_the_same_on_any_text(name, imported):
    _, trained, folder = imported(name)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), trained.tokenizer
    random = np.random.default_rng(1)
    drawn = ["".join(chr(int(c)) for c in random.integers(1, 0x3000, 30) if not 0xD800 <= c < 0xE000) for _ in range(200)]
    for text in [*FUZZ, *drawn, TEXT[:500]]:
        wanted = theirs.encode(text, add_special_tokens=False)
        ids = ours.encode(text)
        assert [int(ours.order[id]) for id in ids] == wanted
        stream = ours.stream()
        assert "".join(stream.push(int(id)) for id in ids) + stream.flush() == ours.decode(ids)
        if ours.lossless:
            assert ours.decode(ids) == text
            assert theirs.decode(wanted) == text
    assert ours.lossless == (name == "gpt2")
    again = Tokenizer.from_json(ours.to_json())
    assert again.digest() == ours.digest() and again.encode(TEXT).tolist() == ours.encode(TEXT).tolist()


def test_a_stream_gives_what_decoding_all_gives_also_of_ids_that_no_text_has(imported):
    for name in ("gpt2", "llama"):
        tokenizer = imported(name)[1].tokenizer
        for seed in range(50):
            ids = np.random.default_rng(seed).integers(0, 380, 30)
            stream = tokenizer.stream()
            assert "".join(stream.push(int(id)) for id in ids) + stream.flush() == tokenizer.decode(ids)


def test_a_token_of_two_roles_is_counted_once(imported):
    gpt2, llama = imported("gpt2")[1].tokenizer, imported("llama")[1].tokenizer
    assert gpt2.order[:5].tolist() == [ADDED, ADDED, 0, ADDED, 1] and gpt2.vocab_size == ROWS + 3
    assert llama.order[:5].tolist() == [ADDED, 1, 2, 0, 3] and llama.vocab_size == ROWS + 1


# ------------------------------------------------------------------------------------------ afterwards


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba"])
def test_an_imported_model_writes_scores_and_is_looked_at(name, imported):
    _, trained, _ = imported(name)
    text = trained.generate("The cat", new_tokens=12, seed=1)
    assert isinstance(text, str) and trained.generate("The cat", new_tokens=12, seed=1) == text
    surprise = trained.score("The cat sat on the mat.")
    assert surprise.tokens and np.isfinite(surprise.bits_per_byte)
    with regard.watch() as seen:
        trained.model.score(torch.tensor([[1, 5, 6]]), torch.tensor([[5, 6, 7]]))
    assert seen.readings
    html = str(regard.show(trained, "The cat sat.")._repr_html_())
    assert "cat" in html


def test_fine_tuning_starts_from_the_same_loss(imported, tmp_path):
    from regard.training.run import TrainRequest, run_training

    _, trained, _ = imported("gpt2")
    (tmp_path / "text.txt").write_text(TEXT)
    settings = {"training": {"steps": 1, "batch": 2, "learning_rate": 1e-9, "samples": False, "precision": "float32"}}
    run_training(TrainRequest((str(tmp_path / "text.txt"),), family="transformer", base=str(trained.path),
                              out=str(tmp_path / "run"), settings=settings, device="cpu", quiet=True))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    after = regard.load(tmp_path / "run", "cpu")
    texts = "The dog saw the cat on the mat."
    assert after.score(texts).loss == pytest.approx(trained.score(texts).loss, abs=1e-5)
    assert rows and all(np.isfinite(row.get("train_loss", 0)) for row in rows)


def test_a_smaller_context_cuts_what_was_learned_of_positions(imported, tmp_path):
    _, trained, folder = imported("gpt2")
    cut = import_model(folder, tmp_path / "run", context=16)
    assert cut.context == cut.model.context == 16
    texts = "The cat sat."
    assert cut.score(texts).loss == pytest.approx(trained.score(texts).loss, abs=1e-5)
    with pytest.raises(RegardError, match="--context 65: the model reads from 2 to 64 tokens at once"):
        import_run(folder, tmp_path / "other", context=65)


def test_weights_in_several_files_are_one_model(imported, tmp_path):
    theirs, trained, folder = imported("llama")
    shutil.copytree(folder, tmp_path / "parts")
    (tmp_path / "parts" / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path / "parts", max_shard_size="20kB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    again = import_model(tmp_path / "parts", tmp_path / "run")
    for name, tensor in trained.model.saved_tensors().items():
        assert torch.equal(tensor.cpu(), again.model.saved_tensors()[name].cpu())
