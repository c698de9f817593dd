"""Checkpoints of nanoGPT come in by way of another process: the same probabilities, and no pickle is read here."""

import json
import math
import os
import pickle
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.data.tokens.foreign import ADDED
from regard.data.tokens.vocabulary import FIRST, UNK
from regard.errors import RegardError
from regard.interop import checking, from_nanogpt, unpickling
from regard.interop.export import export
from regard.interop.importing import import_model, import_run

from .foreign_models import TEXT, byte_level

WIDTH, HEADS, LAYERS, CONTEXT = 24, 3, 2, 32


class Block(nn.Module):
    """As nanoGPT computes a block, its modules by nanoGPT's names."""

    def __init__(self, bias):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(WIDTH, bias=bias) for _ in range(2))
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(WIDTH, 3 * WIDTH, bias=bias),
                                   "c_proj": nn.Linear(WIDTH, WIDTH, bias=bias)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 4 * WIDTH, bias=bias),
                                  "c_proj": nn.Linear(4 * WIDTH, WIDTH, bias=bias)})

    def forward(self, x):
        qkv = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in qkv)
        scores = (q @ k.mT / math.sqrt(WIDTH // HEADS)).masked_fill(
            torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
        x = x + self.attn.c_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class NanoGPT(nn.Module):
    def __init__(self, vocab, bias):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, WIDTH), "wpe": nn.Embedding(CONTEXT, WIDTH),
            "h": nn.ModuleList(Block(bias) for _ in range(LAYERS)), "ln_f": nn.LayerNorm(WIDTH, bias=bias)})
        self.lm_head = nn.Linear(WIDTH, vocab, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids):
        t = self.transformer
        x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))


def save(path, vocab, bias, prefix=""):
    """A checkpoint as nanoGPT saves it, with an optimizer's state, settings of its own and whatever else."""
    torch.manual_seed(0)
    model = NanoGPT(vocab, bias).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "ln_" in name and "weight" in name else 0.0, 0.3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.tensor([[1, 2]])).sum().backward()
    optimizer.step()
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": {prefix + name: tensor for name, tensor in model.state_dict().items()},
                "model_args": dict(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, block_size=CONTEXT, bias=bias,
                                   vocab_size=vocab, dropout=0.0),
                "optimizer": optimizer.state_dict(), "iter_num": 7, "best_val_loss": torch.tensor(1.5),
                "config": {"dataset": "shakespeare_char", "compile": True}}, path)
    return model


@torch.no_grad()
def largest_difference(model, trained):
    tokenizer = trained.tokenizer
    ids = [1, *np.random.default_rng(0).integers(FIRST, tokenizer.vocab_size, 30).tolist()]
    order = tokenizer.order.copy()
    order[1] = order[tokenizer.missing[1]]
    wanted = model(torch.from_numpy(order[ids])[None])[0].log_softmax(-1)
    found = trained.model.head(trained.model.encode(torch.tensor([ids]))[0])[0]
    known = torch.from_numpy(tokenizer.order != ADDED)
    assert (found[:, ~known].exp() == 0).all()
    return float((found[:, known] - wanted[:, torch.from_numpy(tokenizer.order)[known]]).abs().max())


def test_a_model_of_characters_comes_in_with_its_table_and_leaves(tmp_path, monkeypatch):
    characters = sorted(set("Once upon a time.\n"))
    model = save(tmp_path / "out" / "ckpt.pt", len(characters), bias=False, prefix="_orig_mod.")
    (tmp_path / "meta.json").write_text(json.dumps({"itos": dict(enumerate(characters))}))
    trained = import_model(tmp_path / "out", tmp_path / "run", tokenizer=tmp_path / "meta.json")
    assert largest_difference(model, trained) < 1e-5 and trained.tables["model"]["bias"] == "none"
    ids = trained.tokenizer.encode("a time. Xx\n")
    assert trained.tokenizer.decode(ids) == "a time. \n" and (ids == UNK).sum() == 2
    assert set(trained.generate("Once", new_tokens=20)) <= set(characters)
    pytest.importorskip("transformers", reason="transformers is not installed (regard[hf])")
    monkeypatch.setattr(checking, "LINES", 6)
    done = export(trained, "hf", tmp_path / "hf")
    assert done.kind == "GPT2LMHeadModel" and done.checked.difference < 1e-4 and done.checked.same_text
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert settings["vocab_size"] == len(characters) and settings["eos_token_id"] is None


def test_a_model_of_gpt2s_tokens_never_writes_a_row_that_no_token_has(tmp_path):
    byte_level(tmp_path, 300)
    model = save(tmp_path / "ckpt.pt", 320, bias=True)
    trained = import_model(tmp_path / "ckpt.pt", tmp_path / "run")
    assert largest_difference(model, trained) < 1e-5 and trained.tables["model"]["bias"] == "all"
    known = len(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"])
    assert trained.tokenizer.unspelled == tuple(range(known + 3, 323)) and trained.tokenizer.vocab_size == 323
    assert trained.special_tokens.banned == (0, 1, 3, *trained.tokenizer.unspelled)
    with torch.no_grad():
        trained.model.embedding.weight[known + 3:] *= 10.0                             # they would win else
    assert trained.generate("The cat", new_tokens=20, temperature=5.0)
    assert trained.tokenizer.decode(trained.tokenizer.encode(TEXT)) == TEXT
    torch.save({"model": {}, "model_args": {}}, tmp_path / "other.pt")
    again = regard.load(tmp_path / "run", "cpu")
    assert again.tokenizer.unspelled == trained.tokenizer.unspelled


class Planted:
    def __reduce__(self):
        return os.mkdir, (os.environ["REGARD_PLANTED"],)


def test_what_would_run_as_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_PLANTED", str(tmp_path / "ran"))
    torch.save({"model": {"transformer.wte.weight": Planted()}, "model_args": {}}, tmp_path / "ckpt.pt")
    with pytest.raises(RegardError, match=r"^.*ckpt\.pt could not be converted \(it holds more than tensors and plain"):
        import_run(tmp_path / "ckpt.pt", tmp_path / "runs" / "run")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "runs").exists()
    pickle.loads(pickle.dumps(Planted()))
    assert (tmp_path / "ran").exists()                                                 # it would have


def test_a_process_that_takes_too_much_is_ended(tmp_path, monkeypatch):
    torch.save({"model": {"a": torch.zeros(1).expand(2**42)}, "model_args": {}}, tmp_path / "ckpt.pt")
    with pytest.raises(RegardError, match=r"could not be converted \(.*memory"):
        import_run(tmp_path / "ckpt.pt", tmp_path / "run")
    monkeypatch.setattr(from_nanogpt, "PATIENCE", 0.01)
    with pytest.raises(RegardError, match="was not converted within 0 s"):
        import_run(tmp_path / "ckpt.pt", tmp_path / "run")


@pytest.mark.parametrize("value, says", [
    ([1, 2], "no checkpoint of nanoGPT"), ({"model": {}}, "no checkpoint of nanoGPT"),
    ({"model": {"a": 1}, "model_args": {}}, "something else than named tensors"),
    ({"model": {}, "model_args": {"n_layer": "2"}}, "n_layer = '2': expected int"),
    ({"model": {}, "model_args": {"n_layer": True}}, "n_layer = 'True': expected int"),
    (b"PK\x03\x04 and nothing more", "Error: "), (b"", "EOFError"),
])
def test_a_file_that_is_no_checkpoint_is_one_line(value, says, tmp_path, monkeypatch, capsys):
    path = tmp_path / "ckpt.pt"
    path.write_bytes(value) if isinstance(value, bytes) else torch.save(value, path)
    monkeypatch.setattr(sys, "argv", ["unpickling", str(path), str(tmp_path)])
    monkeypatch.setattr(unpickling, "bound", lambda size: None)                        # this process goes on
    with pytest.raises(SystemExit):
        unpickling.main()
    error = capsys.readouterr().err.strip()
    assert says in error and "\n" not in error and len(error) < 200


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A checkpoint that was converted already, so that no process is needed."""
    save(tmp_path / "ckpt.pt", 6, bias=False)
    folder = tmp_path / "converted"
    folder.mkdir()
    unpickling.convert(str(tmp_path / "ckpt.pt"), str(folder))

    class Found:
        def __init__(self, path):
            pass

        def __enter__(self):
            return folder

        def __exit__(self, *args):
            pass

    monkeypatch.setattr("regard.interop.importing.unpickled", Found)
    return tmp_path


@pytest.mark.parametrize("name, content, says", [
    ("meta.pkl", b"", r"meta\.pkl is a pickle, .*python -c .*meta\.json.*--tokenizer"),
    ("meta.json", b'{"itos": {"0": "ab"}}', "is no table of characters"),
    ("meta.json", b'{"itos": {"1": "a"}}', "is no table of characters"),
    ("meta.json", b'{"itos": ["a", "a"]}', "is no table of characters"),
    ("meta.json", b'{"itos": ["a", "b", "c", "d", "e", "f", "g"]}', "7 characters and the model 6 tokens"),
    ("meta.json", b'{"stoi": {}}', "is no tokenizer that can be read"),
    ("tokenizer.json", b"{}", "is no tokenizer that can be read"),
    ("notes.txt", b"", r"has no tokenizer in it, .*--tokenizer PATH"),
])
def test_a_tokenizer_that_does_not_fit_is_one_line(name, content, says, checkpoint):
    (checkpoint / name).write_bytes(content)
    with pytest.raises(RegardError, match=says) as refused:
        import_run(checkpoint / "ckpt.pt", checkpoint / "run")
    assert "\n" not in str(refused.value) and not (checkpoint / "run").exists()


@pytest.mark.parametrize("change, says", [
    ({"n_layer": 3}, r"ckpt\.pt has no tensor transformer\.h\.2"), ({"n_layer": None}, "has no n_layer"),
    ({"n_embd": 25}, "has the shape"), ({"n_layer": 1}, "have no place"),
])
def test_weights_that_do_not_fit_their_settings_are_one_line(change, says, checkpoint):
    path = checkpoint / "converted" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    (checkpoint / "meta.json").write_text(json.dumps({"itos": list("abcdef")}))
    with pytest.raises(RegardError, match=says) as refused:
        import_run(checkpoint / "ckpt.pt", checkpoint / "run")
    assert str(checkpoint / "ckpt.pt") in str(refused.value) and "converted" not in str(refused.value)


def test_a_tokenizer_is_given_to_checkpoints_alone(tmp_path):
    tmp_path.joinpath("model").mkdir()
    with pytest.raises(RegardError, match="has its tokens with it; leave it out"):
        import_run(tmp_path / "model", tmp_path / "run", tokenizer="meta.json")
