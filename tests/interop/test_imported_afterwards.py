"""After an import everything works: served, looked at, compared, scored, fine-tuned, and exported again."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.cli import main
from regard.interop import checking
from regard.interop.export import export
from regard.interop.importing import import_run
from regard.interop.to_arpa import spell_words
from regard.look.side_by_side import side_by_side
from regard.training.run import TrainRequest, run_training

from .foreign_models import FRENCH, TEXT, build, build_marian

pytest.importorskip("transformers", reason="transformers is not installed, whose classes are needed")
OF_TOKENS = ("embedding.", "encoder.embedding.", "head.")                             # a row for each token
LINES = [line for line in TEXT.splitlines() if len(line) > 20][:40]
SETTINGS = {"steps": 6, "batch": 2, "learning_rate": 0.01, "samples": False, "ema": 0.0, "precision": "float32"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """GPT-2 and a Llama, imported, the first one fine-tuned, too; a translator, likewise."""
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    folder = tmp_path_factory.mktemp("imported")
    for name in ("gpt2", "llama"):
        build(name, folder / name)
        import_run(folder / name, folder / "runs" / name)
    build_marian(folder / "marian")
    import_run(folder / "marian", folder / "runs" / "marian")
    (folder / "text.txt").write_text("\n".join(LINES * 3) + "\n")
    (folder / "a.fr").write_text(FRENCH)
    (folder / "a.en").write_text("".join(f"The black cat {number} sleeps.\n" for number in range(40)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for task, base, files in (("lm", "gpt2", ("text.txt",)), ("translate", "marian", ("a.fr", "a.en"))):
            more = {"batch": 200, "label_smoothing": 0.1} if task == "translate" else {}
            run_training(TrainRequest(
                tuple(str(folder / name) for name in files), task=task, base=str(folder / "runs" / base),
                out=str(folder / "runs" / f"{base}-tuned"), settings={"training": SETTINGS | more},
                device="cpu", quiet=True, mix=False))
    return folder / "runs"


@pytest.fixture(autouse=True)
def few_lines(monkeypatch):
    monkeypatch.setattr(checking, "LINES", 6)


def load(runs, name):
    return regard.load(runs / name, "cpu")


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_what_was_fine_tuned_leaves_for_the_program_it_came_from(name, runs, tmp_path):
    before, after = load(runs, name), load(runs, f"{name}-tuned")
    moved = [key for key, tensor in after.model.saved_tensors().items()
             if not torch.equal(tensor, before.model.saved_tensors()[key])]
    assert "embedding.weight" in moved and after.tokenizer.missing == before.tokenizer.missing
    done = export(after, "hf", tmp_path / "out")                                  # checked there, and refused otherwise
    assert done.kind in ("GPT2LMHeadModel", "MarianMTModel") and done.checked.difference < 1e-4
    assert done.checked.of == "held-out lines"
    again = regard.load(import_run(tmp_path / "out", tmp_path / "again").path, "cpu")
    tensors = after.model.saved_tensors()
    roles = [*after.tokenizer.missing]                                            # whose rows are nobody's
    for key, tensor in again.model.saved_tensors().items():
        rows = [n for n in range(len(tensor)) if n not in roles or not key.startswith(OF_TOKENS)]
        assert torch.equal(tensor[rows], tensors[key][rows]), key


def test_fine_tuning_goes_on_after_an_interruption(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(runs.parent / "cache"))
    main(["train", "lm", str(runs.parent / "text.txt"), "--from", str(runs / "gpt2"), "--out", str(tmp_path / "run"),
          "--steps", "2", "--batch", "2", "--no-mix", "--device", "cpu", "--quiet"])
    main(["train", "lm", str(runs.parent / "text.txt"), "--resume", "--out", str(tmp_path / "run"), "--steps", "3",
          "--device", "cpu", "--quiet"])
    trained = regard.load(tmp_path / "run", "cpu")
    assert trained.tokenizer.kind == "foreign" and not trained.model.head.bias.requires_grad
    assert np.isfinite(trained.score("The cat sat.").loss)


def test_the_words_of_an_ngram_beside_it_are_its_tokens(runs):
    words, tokenizer = spell_words(load(runs, "gpt2").tokenizer), load(runs, "gpt2").tokenizer
    assert len(words) == len(set(words)) == tokenizer.vocab_size and words[:4] == ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert [words[id] for id in tokenizer.encode("The cat")] == ["The", "Ġcat"]


def test_scores_of_a_run_and_of_another(runs, capsys):
    main(["score", str(runs / "gpt2-tuned"), str(runs.parent / "text.txt"), "--device", "cpu", "--json"])
    assert json.loads(capsys.readouterr().out)["bits_per_byte"] < 20
    files = [str(runs.parent / name) for name in ("a.fr", "a.en")]
    main(["score", str(runs / "marian-tuned"), *files, "--against", str(runs / "marian"), "--beam", "1", "--device",
          "cpu", "--json"])
    assert "bleu" in capsys.readouterr().out.lower()


def test_two_imported_models_are_looked_at_side_by_side(runs):
    seen = side_by_side({name: load(runs, name) for name in ("gpt2", "llama")}, "The cat sat on 12 mats.")
    assert all(np.isfinite(column.bits) and column.characters == 23 for column in seen.models) and len(seen.pairs) == 1


def test_imported_models_are_served(runs):
    pytest.importorskip("fastapi", reason="serving needs the extra `web`")
    from starlette.testclient import TestClient

    from regard.serve.app import make_app
    from regard.serve.registry import Registry

    app = make_app(Registry([runs / name for name in ("gpt2", "llama", "marian")], device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        def ask(path, **body):
            answer = client.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        written = ask("/v1/completions", model="gpt2", prompt="The cat", max_tokens=8, seed=3, temperature=1.0)
        assert written["choices"][0]["text"] == load(runs, "gpt2").generate("The cat", new_tokens=8, seed=3)
        assert ask("/translate", q="Le chat dort.", source="fr", target="en")["translatedText"] == load(
            runs, "marian").translate(["Le chat dort."])[0].text
        for body in ({"model": "gpt2", "text": "The cat sat."}, {"model": "llama", "text": "The cat."},
                     {"model": "marian", "source": "Le chat dort.", "target": "The cat"}):
            assert ask("/api/look", **body)["tracks"]
        assert ask("/api/next", model="gpt2", text="The cat", top_k=5)["banned"][:3] == [0, 1, 3]
        assert ask("/api/beam", model="llama", text="The cat", width=2, new_tokens=4)
        assert len(client.get("/api/models/gpt2/vocabulary").json()["pieces"]) == load(runs, "gpt2").model.vocab
