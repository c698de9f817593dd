"""transformers' Mamba and Mamba-2 as our settings and tensors: what to_hf writes, the other way.

V vocabulary · D width · E channels inside · N states · G groups of H heads
"""

from __future__ import annotations

import math

import torch

from regard.errors import DataError
from regard.interop.from_hf import Converted, activation, put_head
from regard.interop.hf_folder import Config, FoundWeights

NO_LIMIT = 2048                # the context of a model that has no limit of its own


def convert_mamba(config: Config, weights: FoundWeights) -> Converted:
    """The narrow middle of the steps and the codes b and c are one matrix there."""
    config.require("use_bias", False, default=False)
    activation_name = activation(config, "hidden_act", default="silu")
    if activation_name != "silu":
        raise DataError(f"{config.name}: hidden_act = {activation_name!r}: Regard's Mamba has silu")
    width, layers, vocab, states, taps = (config.size(name) for name in (
        "hidden_size", "num_hidden_layers", "vocab_size", "state_size", "conv_kernel"))
    inner = config.size("intermediate_size", default=round(config.number("expand", default=2.0) * width))
    rank = math.ceil(width / 16)
    if config.values.get("time_step_rank", "auto") not in ("auto", rank):
        raise DataError(f"{config.name}: time_step_rank = {config.values['time_step_rank']!r}: Regard's Mamba has a "
                        f"sixteenth of the width, {rank}")
    start = "backbone.embeddings" if "backbone.embeddings.weight" in weights else "backbone.embedding"
    tensors = {"embedding.weight": weights.take(f"{start}.weight", vocab, width)}
    for number in range(layers):
        here, ours = f"backbone.layers.{number}", f"stack.layers.{number}"
        tensors[f"{ours}.mixer_norm.weight"] = weights.take(f"{here}.norm.weight", width)
        mixer, theirs = f"{ours}.mixer", f"{here}.mixer"
        tensors[f"{mixer}.into.weight"] = weights.take(f"{theirs}.in_proj.weight", 2 * inner, width)
        tensors[f"{mixer}.conv.weight"] = weights.take(f"{theirs}.conv1d.weight", inner, 1, taps)
        bias = weights.maybe(f"{theirs}.conv1d.bias", inner)
        tensors[f"{mixer}.conv.bias"] = torch.zeros(inner) if bias is None else bias
        steps, codes = weights.take(f"{theirs}.x_proj.weight", rank + 2 * states, inner).split((rank, 2 * states))
        tensors[f"{mixer}.codes.weight"], tensors[f"{mixer}.steps.0.weight"] = codes, steps
        tensors[f"{mixer}.steps.1.weight"] = weights.take(f"{theirs}.dt_proj.weight", inner, rank)
        tensors[f"{mixer}.step_bias"] = weights.take(f"{theirs}.dt_proj.bias", inner)
        tensors[f"{mixer}.log_rate"] = weights.take(f"{theirs}.A_log", inner, states).flatten()
        tensors[f"{mixer}.skip"] = weights.take(f"{theirs}.D", inner)
        tensors[f"{mixer}.out.weight"] = weights.take(f"{theirs}.out_proj.weight", width, inner)
    tensors["norm.weight"] = weights.take("backbone.norm_f.weight", width)
    tied = put_head(tensors, weights, (vocab, width), config.flag("tie_word_embeddings", True), "lm_head.weight")
    return Converted("mamba", {
        "layers": layers, "width": width, "context": NO_LIMIT, "state": states, "expand": inner / width, "conv": taps,
        "decay": "channel", "norm": "rms", "eps": config.number("layer_norm_epsilon", default=1e-5), "tied": tied},
        tensors)


def convert_mamba2(config: Config, weights: FoundWeights) -> Converted:
    """Everything that is read of a word comes from one matrix there too, in our order."""
    config.require("use_bias", False, default=False)
    if (named := activation(config, "hidden_act", default="silu")) != "silu":
        raise DataError(f"{config.name}: hidden_act = {named!r}: Regard's Mamba-2 has silu")
    width, layers, vocab, states, taps, heads, head_width = (config.size(name) for name in (
        "hidden_size", "num_hidden_layers", "vocab_size", "state_size", "conv_kernel", "num_heads", "head_dim"))
    groups, inner = config.size("n_groups", default=8), heads * head_width
    if heads % groups:
        raise DataError(f"{config.name}: n_groups = {groups}: {heads} heads cannot be parted into groups of one size")
    mixed = inner + 2 * groups * states
    start = "backbone.embeddings" if "backbone.embeddings.weight" in weights else "backbone.embedding"
    tensors = {"embedding.weight": weights.take(f"{start}.weight", vocab, width)}
    for number in range(layers):
        here, ours = f"backbone.layers.{number}", f"stack.layers.{number}"
        tensors[f"{ours}.mixer_norm.weight"] = weights.take(f"{here}.norm.weight", width)
        mixer, theirs = f"{ours}.mixer", f"{here}.mixer"
        bias = weights.maybe(f"{theirs}.conv1d.bias", mixed)
        tensors |= {
            f"{mixer}.into.weight": weights.take(f"{theirs}.in_proj.weight", inner + mixed + heads, width),
            f"{mixer}.conv.weight": weights.take(f"{theirs}.conv1d.weight", mixed, 1, taps),
            f"{mixer}.conv.bias": torch.zeros(mixed) if bias is None else bias,
            f"{mixer}.step_bias": weights.take(f"{theirs}.dt_bias", heads),
            f"{mixer}.log_rate": weights.take(f"{theirs}.A_log", heads),
            f"{mixer}.skip": weights.take(f"{theirs}.D", heads),
            f"{mixer}.norm.weight": weights.take(f"{theirs}.norm.weight", inner),
            f"{mixer}.out.weight": weights.take(f"{theirs}.out_proj.weight", width, inner)}
    tensors["norm.weight"] = weights.take("backbone.norm_f.weight", width)
    tied = put_head(tensors, weights, (vocab, width), config.flag("tie_word_embeddings", False), "lm_head.weight")
    least, most = step_limits(config)
    return Converted("mamba2", {
        "layers": layers, "width": width, "context": NO_LIMIT, "state": states, "expand": inner / width, "conv": taps,
        "head_width": head_width, "groups": groups, "least_step": least, "most_step": most, "norm": "rms",
        "eps": config.number("layer_norm_epsilon", default=1e-5), "tied": tied}, tensors)


def step_limits(config: Config) -> tuple[float, float]:
    """Return the limits of a step; 0 as the upper one: there is none."""
    found = config.values.get("time_step_limit") or [0.0, math.inf]
    if not isinstance(found, list) or len(found) != 2 or not all(type(each) in (int, float) for each in found) or \
            not 0 <= found[0] < found[1]:
        raise DataError(f"{config.name}: time_step_limit = {found!r}: expected two numbers, the smaller one first")
    return float(found[0]), 0.0 if found[1] == math.inf else float(found[1])
