"""transformers' Mamba and Mamba-2: our layouts as their tensors and their config.json."""

from __future__ import annotations

from typing import Any

import torch

from regard.interop.hf_decoders import Tensors, put
from regard.interop.layout import Mamba2Layout, MambaLayout


def mamba(layout: MambaLayout, context: int) -> tuple[dict[str, Any], Tensors]:
    """The narrow middle of the steps and the codes b and c are one matrix there."""
    tensors: Tensors = {"backbone.embeddings.weight": layout.embedding}
    for number, block in enumerate(layout.blocks):
        name = f"backbone.layers.{number}"
        put(tensors, f"{name}.norm", block.norm)
        put(tensors, f"{name}.mixer.in_proj", block.into)
        tensors[f"{name}.mixer.conv1d.weight"] = block.conv[:, None]
        tensors[f"{name}.mixer.conv1d.bias"] = block.conv_bias
        tensors[f"{name}.mixer.x_proj.weight"] = torch.cat((block.step_in.weight, block.codes.weight))
        put(tensors, f"{name}.mixer.dt_proj", block.step_out)
        tensors[f"{name}.mixer.A_log"] = block.log_rate
        tensors[f"{name}.mixer.D"] = block.skip
        put(tensors, f"{name}.mixer.out_proj", block.out)
    put(tensors, "backbone.norm_f", layout.norm)
    if not layout.head.tied:
        tensors["lm_head.weight"] = layout.head.weight
    first = layout.blocks[0]
    inner, width = len(first.skip), layout.embedding.shape[1]
    return {"model_type": "mamba", "vocab_size": len(layout.embedding), "hidden_size": width,
            "num_hidden_layers": len(layout.blocks), "state_size": first.log_rate.shape[1],
            "expand": whole(inner / width), "intermediate_size": inner, "conv_kernel": first.conv.shape[1],
            "time_step_rank": len(first.step_in.weight), "layer_norm_epsilon": layout.norm.eps, "use_bias": False,
            "use_conv_bias": True, "tie_word_embeddings": layout.head.tied}, tensors


def whole(number: float) -> float:
    return int(number) if number == int(number) else number


def mamba2(layout: Mamba2Layout, context: int) -> tuple[dict[str, Any], Tensors]:
    """One matrix reads a word there too, in our order."""
    tensors: Tensors = {"backbone.embeddings.weight": layout.embedding}
    for number, block in enumerate(layout.blocks):
        name = f"backbone.layers.{number}"
        put(tensors, f"{name}.norm", block.norm)
        put(tensors, f"{name}.mixer.in_proj", block.into)
        tensors[f"{name}.mixer.conv1d.weight"] = block.conv[:, None]
        tensors[f"{name}.mixer.conv1d.bias"] = block.conv_bias
        tensors[f"{name}.mixer.dt_bias"] = block.step_bias
        tensors[f"{name}.mixer.A_log"] = block.log_rate
        tensors[f"{name}.mixer.D"] = block.skip
        put(tensors, f"{name}.mixer.norm", block.gated)
        put(tensors, f"{name}.mixer.out_proj", block.out)
    put(tensors, "backbone.norm_f", layout.norm)
    if not layout.head.tied:
        tensors["lm_head.weight"] = layout.head.weight
    first = layout.blocks[0]
    heads, width = len(first.skip), layout.embedding.shape[1]
    return {"model_type": "mamba2", "vocab_size": len(layout.embedding), "hidden_size": width,
            "num_hidden_layers": len(layout.blocks), "state_size": first.states, "expand": first.inner // width,
            "num_heads": heads, "head_dim": first.inner // heads, "n_groups": first.groups,
            "conv_kernel": first.conv.shape[1], "layer_norm_epsilon": layout.norm.eps, "use_bias": False,
            "use_conv_bias": True, "tie_word_embeddings": layout.head.tied}, tensors


STATES: dict[str, Any] = {"MambaForCausalLM": mamba, "Mamba2ForCausalLM": mamba2}
