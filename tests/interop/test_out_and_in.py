"""Out and in again: what was exported to a folder of transformers and imported from it has the same bits."""

import json

import pytest
import torch

from regard.interop.export import export
from regard.interop.importing import import_model

from .made_models import TEXT, make_trained

LLAMA = dict(norm="rms", activation="swiglu")
MODELS = {
    "neox": ("transformer", dict(heads=4)),
    "neox-parallel": ("transformer", dict(heads=4, parallel=True, bias="all", rotary_share=0.5, rotary_base=500.0)),
    "gpt2": ("transformer", dict(heads=4, positions="learned", bias="all", activation="gelu-tanh", tied=True)),
    "starcoder2": ("transformer", dict(heads=4, kv_heads=2, window=7)),
    "llama": ("transformer", dict(heads=4, kv_heads=2, tied=True, **LLAMA)),
    "mistral": ("transformer", dict(heads=4, window=7, **LLAMA)),
    "qwen3": ("transformer", dict(heads=4, qk_norm=True, head_width=12, **LLAMA)),
    "mamba": ("mamba", dict(decay="channel")),
    "mamba2": ("mamba2", dict(state=8, head_width=16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_come_back_bit_by_bit(name, tmp_path):
    family, settings = MODELS[name]
    ours = make_trained("lm", family, **settings)
    export(ours, "hf", tmp_path / "out", check=False)
    again = import_model(tmp_path / "out", tmp_path / "run")
    before, after = ours.model.saved_tensors(), again.model.saved_tensors()
    for tensor_name, tensor in before.items():
        assert torch.equal(after[tensor_name].cpu(), tensor), tensor_name
    assert set(after) == set(before)                # GPT-NeoX has biases that ours had not: zeros, which are none
    assert again.tokenizer.vocab_size == ours.tokenizer.vocab_size and again.tokenizer.kind == "bpe"
    assert again.tokenizer.encode(TEXT).tolist() == ours.tokenizer.encode(TEXT).tolist()
    export(again, "hf", tmp_path / "out-again", check=False)
    for file in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "out-again" / file).read_bytes() == (tmp_path / "out" / file).read_bytes(), file


@pytest.mark.parametrize("kind", ["char", "word", "whitespace"])
def test_a_tokenizer_that_is_read_as_another_programs_leaves_as_it_was_found(kind, tmp_path):
    ours = make_trained("lm", "transformer", kind=kind, heads=4, **LLAMA)
    export(ours, "hf", tmp_path / "out", check=False)
    again = import_model(tmp_path / "out", tmp_path / "run")
    assert again.tokenizer.kind == "foreign" and again.tokenizer.added == 0
    assert again.tokenizer.encode(TEXT).tolist() == ours.tokenizer.encode(TEXT).tolist()
    export(again, "hf", tmp_path / "out-again", check=False)
    both = [tmp_path / name for name in ("out", "out-again")]
    assert both[0].joinpath("model.safetensors").read_bytes() == both[1].joinpath("model.safetensors").read_bytes()
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        first, second = (json.loads((folder / file).read_text()) for folder in both)
        assert first == second, file
