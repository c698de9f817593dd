"""The table of models that come in: by the `model_type` of a config.json, who reads them."""

from __future__ import annotations

from collections.abc import Callable

from regard.errors import DataError, did_you_mean
from regard.interop.from_eurobert import convert_eurobert
from regard.interop.from_hf import Converted, LlamaNames, all_layers_slide, convert_gpt2, convert_neox
from regard.interop.from_mamba import convert_mamba, convert_mamba2
from regard.interop.hf_folder import Config, FoundWeights

TRANSLATORS = ("marian",)      # read with two tokenizers, by importing.py
CONVERTERS: dict[str, Callable[[Config, FoundWeights], Converted]] = {
    "gpt2": convert_gpt2,
    "gpt_neox": convert_neox,
    "llama": LlamaNames(),
    "mistral": LlamaNames(windowed=lambda config: True),
    "qwen2": LlamaNames(windowed=all_layers_slide),
    "qwen3": LlamaNames(windowed=all_layers_slide),
    "starcoder2": LlamaNames(norm="layer", eps="norm_epsilon", up="mlp.c_fc", down="mlp.c_proj", gated=False,
                             usual_eps=1e-5, usual_activation="gelu_pytorch_tanh", tied=True,
                             windowed=lambda config: True),
    "mamba": convert_mamba,
    "mamba2": convert_mamba2,
    "eurobert": convert_eurobert,
}


def convert_model(config: Config, weights: FoundWeights) -> Converted:
    """Return the model that config.json describes; an architecture that is not known is one clear line."""
    kind = config.text("model_type", default="")
    if kind not in CONVERTERS:
        raise DataError(f"{config.name}: model_type = {kind!r}: Regard imports no such model"
                        f"{did_you_mean(kind, (*CONVERTERS, *TRANSLATORS))}")
    if config.has("quantization_config"):
        raise DataError(f"{config.name}: quantization_config: import the model that was quantised, in float32 or half")
    return CONVERTERS[kind](config, weights)
