"""Exports to GGUF: llama.cpp's graphs, by definition, say of the file what our model says; and llama.cpp itself, where
it is installed (`make interop`)."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.data.tokens.vocabulary import SPECIALS
from regard.errors import SettingError
from regard.interop import checking, to_gguf
from regard.interop.architectures import ARCHITECTURES
from regard.interop.checking import CheckLine, our_log_probs
from regard.interop.export import export
from regard.interop.target import ExportSubject
from tests.interop.made_models import make_trained

gguf = pytest.importorskip("gguf", reason="gguf is not installed (regard[gguf])")

RMS = dict(norm="rms", activation="swiglu")
STATES = dict(family="mamba", norm="rms", decay="channel")
HEADS = dict(family="mamba2", state=8, head_width=16)
# A name -> the architecture that holds it, and settings.
ROWS = {
    "the default": ("gptneox", {}),
    "tied, gelu by tanh": ("gptneox", dict(tied=True, activation="gelu-tanh")),
    "biases, half the channels turn, parallel": (
        "gptneox", dict(bias="all", rotary_share=0.5, rotary_base=500.0, parallel=True)),
    "scaled, another eps": ("gptneox", dict(embedding_scale="width", tied=True, eps=1e-3)),
    "groups": ("starcoder2", dict(kv_heads=2)),
    "gated": ("stablelm", dict(activation="swiglu", tied=True)),
    "rms, gated": ("llama", RMS),
    "rms, gated, wide heads in groups, tied": ("llama", dict(kv_heads=2, head_width=12, tied=True, **RMS)),
    "rms, gated, biased": ("llama", dict(bias="all", **RMS)),
    "biased groups": ("starcoder2", dict(kv_heads=2, bias="qkv")),
    "gated, biased": ("stablelm", dict(activation="swiglu", bias="qkv", rotary_share=0.5)),
    "queries and keys of one length": ("qwen3", dict(qk_norm=True, kv_heads=2, bias="qkv", **RMS)),
    "squares": ("arcee", dict(norm="rms", activation="relu2", head_width=12)),
    "learned": ("gpt2", dict(positions="learned")),
    "sinusoidal, scaled and tied": ("gpt2", dict(positions="sinusoidal", tied=True)),
    "no positions, biases": ("gpt2", dict(positions="none", bias="all")),
    "states": ("mamba", STATES),
    "states, tied, five taps": ("mamba", dict(tied=True, conv=5, state=8, **STATES)),
    "heads of states": ("mamba2", HEADS),
    "heads of states in groups, tied": ("mamba2", {**HEADS, "groups": 2, "tied": True, "eps": 1e-3}),
}
BENDS = {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu2": lambda x: F.relu(x).square()}
LINE = (1, *range(4, 40))


def make(**settings):
    return make_trained(**({} if "family" in settings else {"heads": 4}), **settings)


def write(tmp_path, precision="f32", **settings):
    """The subject, the file and its architecture."""
    subject = ExportSubject(make(**settings), precision, "small")
    return subject, tmp_path / "model.gguf", to_gguf.write(subject, tmp_path / "model.gguf")


def difference(subject, path, settings):
    from tests.interop.gguf_by_definition import File, log_probs

    bend = BENDS.get(settings.get("activation", "gelu"), F.gelu)
    theirs = log_probs(File(path), LINE, lambda x: bend(torch.from_numpy(x)).numpy())
    return float(np.abs(our_log_probs(subject.network, CheckLine(LINE)).numpy() - theirs).max())


@pytest.mark.parametrize("row", ROWS)
def test_llama_cpp_computes_the_same_log_probabilities_by_its_definition(row, tmp_path):
    kind, settings = ROWS[row]
    subject, path, found = write(tmp_path, **settings)
    assert found == kind
    assert difference(subject, path, settings) < 1e-4


def test_every_architecture_of_the_table_is_tried():
    assert {kind for kind, _ in ROWS.values()} == {row.name for row in ARCHITECTURES["gguf"]}


@pytest.mark.parametrize("row", ["the default", "rms, gated", "no positions, biases"])
def test_rows_of_queries_in_another_order_are_seen(row, tmp_path):
    _, settings = ROWS[row]
    subject, path, _ = write(tmp_path, **settings)
    subject.layout.stack.blocks[0].attention.q.weight.copy_(subject.layout.stack.blocks[0].attention.q.weight.flip(0))
    assert difference(subject, path, settings) > 0.1


@pytest.mark.parametrize(("precision", "most"), [("f16", 0.25), ("q8_0", 5.0)])
@pytest.mark.parametrize("row", ["the default", "rms, gated", "states", "heads of states in groups, tied"])
def test_fewer_bits_cost_little_and_save_room(row, precision, most, tmp_path):
    from tests.interop.gguf_by_definition import File

    _, settings = ROWS[row]
    subject, path, _ = write(tmp_path, precision, **settings)
    assert 0 < difference(subject, path, settings) < most
    types = File(path).types
    assert types["token_embd.weight"] == precision.upper()
    whole = ("norm.weight", ".bias", "conv1d.weight", "_a", "_d")
    assert all(types[name] == "F32" for name in types if name.endswith(whole))


def test_rows_that_are_no_multiple_of_32_are_kept_in_16_bits(tmp_path):
    from tests.interop.gguf_by_definition import File

    _, path, _ = write(tmp_path, "q8_0", width=40)
    types = File(path).types
    assert types["token_embd.weight"] == "F16" and types["blk.0.ffn_down.weight"] == "Q8_0"         # 40 and 160 wide


# --------------------------------------------------------------------------------------------- tokenizer


@pytest.mark.parametrize("kind", ["bpe", "byte"])
def test_tokens_and_merges_are_those_of_the_tokenizer(kind, tmp_path):
    from tests.interop.gguf_by_definition import File

    subject, path, _ = write(tmp_path, kind=kind)
    fields, model = File(path).fields, subject.tokenizer.to_dict()["model"]
    tokens = fields["tokenizer.ggml.tokens"]
    assert {token: id for id, token in enumerate(tokens)} == model["vocab"]
    assert tuple(tokens[:4]) == SPECIALS
    assert fields["tokenizer.ggml.pre"] == "gpt-2" and fields["tokenizer.ggml.model"] == "gpt2"
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    assert merges == [tuple(merge) for merge in model["merges"]] or kind == "byte"
    assert [fields[f"tokenizer.ggml.{name}_token_id"] for name in ("padding", "bos", "eos", "unknown")] == [0, 1, 2, 3]
    assert fields["tokenizer.ggml.add_bos_token"] and not fields["tokenizer.ggml.add_eos_token"]


@pytest.mark.parametrize("kind", ["char", "word", "whitespace", "unigram"])
def test_a_tokenizer_that_llama_cpp_has_not_is_refused_with_the_cure(kind, tmp_path):
    with pytest.raises(SettingError, match=rf"tokenizer\.kind = {kind}.*--tokenizer bpe"):
        write(tmp_path, kind=kind, vocab=None if kind != "unigram" else 300)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(("settings", "words"), [
    (dict(window=8), r"model\.window = 8.*model\.window = 0"),
    (dict(activation="relu"), r"model\.activation = relu.*gelu \(gptneox\)"),
    (dict(placement="post"), r"model\.placement = post.*pre"),
    (dict(positions="alibi"), r"model\.positions = alibi.*rotary"),
    (dict(softcap=5.0), r"model\.softcap = 5\.0"),
    (dict(kv_heads=2, rotary_share=0.5), r"model\.kv_heads = 2.*gptneox|model\.rotary_share = 0\.5.*starcoder2"),
    (dict(logit_bias=True), r"model\.logit_bias = true.*false"),
    (dict(norm="rms", activation="relu2", bias="all"), r"model\.activation = relu2.*swiglu \(llama\)"),
    (dict(family="mamba", norm="layer", decay="channel"), r"model\.norm = layer.*rms \(mamba\)"),
    (dict(family="mamba", norm="rms", decay="head"), r"model\.decay = head.*channel"),
    (dict(family="mamba", norm="rms", decay="channel", expand=3.0), r"model\.expand = 3\.0.*2\.0 \(mamba\)"),
    (dict(family="mamba2", expand=3.0), r"model\.expand = 3\.0.*2\.0 \(mamba2\)"),
    (dict(family="mamba2", most_step=1.0), r"model\.most_step = 1\.0.*0\.0"),
    (dict(task_name="translate"), "holds no translator"),
])
def test_what_no_architecture_holds_is_refused_by_name(settings, words, tmp_path):
    with pytest.raises(SettingError, match=words):
        write(tmp_path, **settings)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------- llama.cpp

needs_llama = pytest.mark.skipif(not to_gguf.is_checkable(), reason="llama-cpp-python is not installed: make interop")


@needs_llama
@pytest.mark.parametrize("precision", ["f32", "f16", "q8_0"])
@pytest.mark.parametrize("row", ROWS)
def test_llama_cpp_itself_says_the_same(row, precision, tmp_path, monkeypatch):
    kind, settings = ROWS[row]
    monkeypatch.setattr(checking, "LINES", 10)
    done = export(make(**settings), "gguf", tmp_path / "model.gguf", precision=precision)
    assert done.kind == kind and done.checked is not None
    assert precision != "f32" or done.checked.same_text


@needs_llama
def test_llama_cpp_finds_the_same_tokens_in_drawn_text(tmp_path):
    subject, path, _ = write(tmp_path)
    opened = to_gguf.open_written(subject, path)
    draw = random.Random(0)
    words = ["the", "Fox", "Été", "œuf", "it's", "don't", "漢字", "🙂", "12", "3.5", "--", "…", "a.b", "x", "\n", "  "]
    texts = [" ".join(draw.choices(words, k=12)) for _ in range(200)]
    same = sum(opened.encode(text) == subject.tokenizer.encode(text).tolist() for text in texts)
    assert same == len(texts)
    assert all(opened.decode(opened.encode(text)) == text for text in texts)
    assert "<eos>" not in texts and 2 not in opened.encode("a <eos> in a text")
