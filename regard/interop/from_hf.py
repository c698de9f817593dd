"""transformers' classes as our settings and tensors: what to_hf writes, the other way, and more.

Their rotary embeddings turn channel i of a head with channel i + K/2, ours neighbours, so that rows of queries and keys
are reordered.   V vocabulary · D width · F inside a feed-forward layer · H heads of K channels
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError
from regard.interop.hf_folder import Config, FoundWeights
from regard.interop.layout import halves

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh",
               "relu": "relu", "relu2": "relu2", "silu": "silu", "swish": "silu"}


@dataclass
class Converted:
    """A model in our terms, its rows still counted as the other program does."""

    family: str
    model: dict[str, Any]                  # the [model] table
    tensors: dict[str, Tensor]             # "embedding.weight", and "head.weight" unless it is tied, have V rows
    task: str = "lm"
    fills_blanks: bool = False             # one of its tokens is for what is hidden

    @property
    def rows(self) -> int:
        """The number of tokens that it knows."""
        return len(self.tensors["encoder.embedding.weight" if self.fills_blanks else "embedding.weight"])


# ------------------------------------------------------------------------------------------- parts


def activation(config: Config, *names: str, default: str) -> str:
    name = config.text(*names, default=default)
    if name not in ACTIVATIONS:
        raise DataError(f"{config.name}: {names[0]} = {name!r}: Regard has no such activation; it has "
                        f"{', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


def neighbours(part: Tensor, heads: int, turned: int) -> Tensor:
    """Rows of queries or keys (H K, ...) whose turned channels come in halves, with pairs beside each other."""
    found = torch.empty_like(part)
    found[halves(heads, len(part) // heads, turned)] = part
    return found


def rotary(config: Config, width: int, share: float = 1.0) -> tuple[dict[str, Any], int]:
    """Return the settings of rotary positions, and how many channels of a head turn: by default this share."""
    parameters = config.part("rope_parameters")
    for part in (parameters, config.part("rope_scaling")):
        for name, value in part.values.items():
            if name in ("type", "rope_type"):
                part.require(name, "default", None)
            elif isinstance(value, dict):
                raise DataError(f"{part.name}: {name}: Regard turns all layers alike; this model does not")
    base = parameters.number("rope_theta", default=config.number("rope_theta", "rotary_emb_base", default=10000.0))
    share = parameters.number("partial_rotary_factor", default=config.number(
        "partial_rotary_factor", "rotary_pct", default=share))
    if not (width and share <= 1):
        raise DataError(f"{config.name}: {share:g} of the {width} channels of a head cannot turn: take the file from "
                        "where the model came from")
    turned = int(width * share)
    return {"rotary_base": base, "rotary_share": turned / width}, turned


def put_head(
    tensors: dict[str, Tensor], weights: FoundWeights, shape: tuple[int, int], tied: bool, *names: str
) -> bool:
    """Add the output matrix, under one of these names; return whether it is the embedding. Where config.json says so of
    a folder that has another, the tensors count, as for transformers."""
    name = next((each for each in names if each in weights), names[0])
    head = None if tied and name not in weights else weights.take(name, *shape)
    weights.finish()
    if head is None or (tied and torch.equal(head, tensors["embedding.weight"])):
        return True
    tensors["head.weight"] = head
    return False


def biases(tensors: dict[str, Tensor], qkv: str = "mixer.qkv.bias") -> str:
    """Return which biases there are, and add zeros where only some of all are. Where all are zero, there are none: a
    class that must have them was given a model without."""
    there = [name for name in tensors if name.endswith(".bias")]
    if not any(tensors[name].any() for name in there):
        for name in there:
            del tensors[name]
        return "none"
    if all(name.endswith(qkv) for name in there):
        return "qkv"
    for name in [name for name in tensors if name.endswith(".weight") and tensors[name].ndim == 2]:
        if name.startswith("stack.") and name.removesuffix("weight") + "bias" not in tensors:
            tensors[name.removesuffix("weight") + "bias"] = tensors[name].new_zeros(len(tensors[name]))
    return "all"


# ------------------------------------------------------------------------------------------- GPT-2


def convert_gpt2(config: Config, weights: FoundWeights) -> Converted:
    """Matrices are (in, out) there, and the first layer of ours holds the positions."""
    for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        config.require(name, False, default=False)
    config.require("scale_attn_weights", True, default=True)
    width, layers, heads = (config.size(name) for name in ("n_embd", "n_layer", "n_head"))
    vocab, context = config.size("vocab_size"), config.size("n_positions", "n_ctx")
    inner = config.size("n_inner", default=4 * width)
    start = "transformer." if "transformer.wte.weight" in weights else ""
    tensors = {"embedding.weight": weights.take(f"{start}wte.weight", vocab, width),
               "stack.layers.0.table": weights.take(f"{start}wpe.weight", context, width)}

    def norm(theirs: str, ours: str) -> None:
        for part in ("weight", "bias"):
            tensors[f"{ours}.{part}"] = weights.take(f"{start}{theirs}.{part}", width)

    for number in range(layers):
        here, ours = f"h.{number}", f"stack.layers.{number + 1}"
        for theirs, own, rows, columns in (
                ("attn.c_attn", "mixer.qkv", width, 3 * width), ("attn.c_proj", "mixer.out", width, width),
                ("mlp.c_fc", "feed.up", width, inner), ("mlp.c_proj", "feed.down", inner, width)):
            tensors[f"{ours}.{own}.weight"] = weights.take(f"{start}{here}.{theirs}.weight", rows, columns).T
            tensors[f"{ours}.{own}.bias"] = weights.take(f"{start}{here}.{theirs}.bias", columns)
        norm(f"{here}.ln_1", f"{ours}.mixer_norm")
        norm(f"{here}.ln_2", f"{ours}.feed_norm")
    norm("ln_f", "norm")
    tied = put_head(tensors, weights, (vocab, width), config.flag("tie_word_embeddings", True), "lm_head.weight")
    return Converted("transformer", {
        "layers": layers, "width": width, "heads": heads, "context": context, "positions": "learned", "bias": "all",
        "activation": activation(config, "activation_function", default="gelu_new"), "expand": inner / width,
        "eps": config.number("layer_norm_epsilon", default=1e-5), "tied": tied}, tensors)


# ------------------------------------------------------------------------------------------ GPT-NeoX


def convert_neox(config: Config, weights: FoundWeights) -> Converted:
    """Queries, keys and values are one matrix there, head by head."""
    width, layers, heads, vocab, inner = (config.size(name) for name in (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"))
    head_width = width // heads
    turning, turned = rotary(config, head_width, 0.25)
    tensors = {"embedding.weight": weights.take("gpt_neox.embed_in.weight", vocab, width)}

    def put(theirs: str, ours: str, *shape: int) -> None:
        tensors[f"{ours}.weight"] = weights.take(f"{theirs}.weight", *shape)
        if (bias := weights.maybe(f"{theirs}.bias", shape[0])) is not None:
            tensors[f"{ours}.bias"] = bias

    for number in range(layers):
        here, ours = f"gpt_neox.layers.{number}", f"stack.layers.{number}"
        put(f"{here}.attention.query_key_value", f"{ours}.mixer.qkv", 3 * width, width)
        for part in ("weight", "bias"):
            if (both := tensors.get(name := f"{ours}.mixer.qkv.{part}")) is not None:
                q, k, v = both.unflatten(0, (heads, 3, head_width)).unbind(1)          # each (H, K, ...)
                tensors[name] = torch.cat((neighbours(q.flatten(0, 1), heads, turned),
                                           neighbours(k.flatten(0, 1), heads, turned), v.flatten(0, 1)))
        put(f"{here}.attention.dense", f"{ours}.mixer.out", width, width)
        put(f"{here}.mlp.dense_h_to_4h", f"{ours}.feed.up", inner, width)
        put(f"{here}.mlp.dense_4h_to_h", f"{ours}.feed.down", width, inner)
        put(f"{here}.input_layernorm", f"{ours}.mixer_norm", width)
        put(f"{here}.post_attention_layernorm", f"{ours}.feed_norm", width)
    put("gpt_neox.final_layer_norm", "norm", width)
    tied = put_head(tensors, weights, (vocab, width), config.flag("tie_word_embeddings", False), "embed_out.weight",
                    "lm_head.weight")
    return Converted("transformer", {
        "layers": layers, "width": width, "heads": heads, "context": config.size("max_position_embeddings"),
        **turning, "parallel": config.flag("use_parallel_residual", True), "bias": biases(tensors),
        "activation": activation(config, "hidden_act", default="gelu"), "expand": inner / width,
        "eps": config.number("layer_norm_eps", default=1e-5), "tied": tied}, tensors)


# --------------------------------------------------------------------------------- those that follow Llama


@dataclass(frozen=True)
class LlamaNames:
    """A class whose modules are called as Llama's are, and where it differs."""

    norm: str = "rms"
    eps: str = "rms_norm_eps"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    gated: bool = True
    # What holds where config.json does not say it.
    usual_eps: float = 1e-6
    usual_activation: str = "silu"
    tied: bool = False
    windowed: Callable[[Config], bool] = lambda config: False              # whether `sliding_window` counts

    def __call__(self, config: Config, weights: FoundWeights) -> Converted:
        width, layers, heads, vocab, inner = (config.size(name) for name in (
            "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"))
        kv_heads = config.size("num_key_value_heads", default=heads)
        head_width = config.size("head_dim", default=max(1, width // heads))
        turning, turned = rotary(config, head_width)
        if turned != head_width:
            kind = config.text("model_type")
            raise DataError(f"{config.name}: partial_rotary_factor: a {kind} turns all channels of its heads")
        tensors = {"embedding.weight": weights.take("model.embed_tokens.weight", vocab, width)}
        for number in range(layers):
            self.put_block(tensors, weights, number, width, inner, head_width, turned, heads, kv_heads)
        self.put(tensors, weights, "model.norm", "norm", width)
        biased = biases(tensors)
        if (bias := weights.maybe("lm_head.bias", vocab)) is not None:
            tensors["head.bias"] = bias
        tied = put_head(tensors, weights, (vocab, width), config.flag("tie_word_embeddings", self.tied),
                        "lm_head.weight")
        named = activation(config, "hidden_act", default=self.usual_activation)
        if self.gated and named != "silu":
            raise DataError(f"{config.name}: hidden_act = {named!r}: Regard gates by silu alone")
        window = config.size("sliding_window") if self.windowed(config) and config.has("sliding_window") else 0
        context = config.size("max_position_embeddings")
        return Converted("transformer", {
            "layers": layers, "width": width, "heads": heads, "context": context, **turning,
            "kv_heads": 0 if kv_heads == heads else kv_heads,
            "head_width": 0 if head_width * heads == width else head_width,
            "qk_norm": "stack.layers.0.mixer.q_norm.weight" in tensors, "window": 0 if window >= context else window,
            "norm": self.norm, "eps": config.number(self.eps, default=self.usual_eps), "bias": biased,
            "logit_bias": bias is not None, "activation": "swiglu" if self.gated else named,
            "expand": inner / width * (1.5 if self.gated else 1), "tied": tied}, tensors)

    def put_block(
        self, tensors: dict[str, Tensor], weights: FoundWeights, number: int, width: int, inner: int, head_width: int,
        turned: int, heads: int, kv_heads: int,
    ) -> None:
        here, ours = f"model.layers.{number}", f"stack.layers.{number}"
        pieces: dict[str, Tensor] = {}
        for name, each in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            self.put(pieces, weights, f"{here}.self_attn.{name}_proj", name, each * head_width, width)
        for part in ("weight", "bias"):
            if any(f"{name}.{part}" in pieces for name in "qkv"):
                tensors[f"{ours}.mixer.qkv.{part}"] = torch.cat((
                    neighbours(pieces[f"q.{part}"], heads, turned), neighbours(pieces[f"k.{part}"], kv_heads, turned),
                    pieces[f"v.{part}"]))
        for name in ("q_norm", "k_norm"):
            if (gain := weights.maybe(f"{here}.self_attn.{name}.weight", head_width)) is not None:
                tensors[f"{ours}.mixer.{name}.weight"] = neighbours(gain, 1, turned)
        self.put(tensors, weights, f"{here}.self_attn.o_proj", f"{ours}.mixer.out", width, heads * head_width)
        self.put(tensors, weights, f"{here}.input_layernorm", f"{ours}.mixer_norm", width)
        self.put(tensors, weights, f"{here}.post_attention_layernorm", f"{ours}.feed_norm", width)
        self.put(tensors, weights, f"{here}.{self.down}", f"{ours}.feed.down", width, inner)
        self.put(pieces, weights, f"{here}.{self.up}", "up", inner, width)
        if self.gated:
            self.put(pieces, weights, f"{here}.mlp.gate_proj", "gate", inner, width)
        for part in ("weight", "bias"):
            if f"up.{part}" in pieces:
                both = (pieces[f"gate.{part}"], pieces[f"up.{part}"]) if self.gated else (pieces[f"up.{part}"],)
                tensors[f"{ours}.feed.up.{part}"] = torch.cat(both)

    def put(self, tensors: dict[str, Tensor], weights: FoundWeights, theirs: str, ours: str, *shape: int) -> None:
        tensors[f"{ours}.weight"] = weights.take(f"{theirs}.weight", *shape)
        if (bias := weights.maybe(f"{theirs}.bias", shape[0])) is not None:
            tensors[f"{ours}.bias"] = bias


def all_layers_slide(config: Config) -> bool:
    """Return whether every layer reads a window; where only some do, the model is refused."""
    if not config.flag("use_sliding_window", False):
        return False
    kinds = config.values.get("layer_types")
    first = config.values.get("max_window_layers", 0)
    if isinstance(kinds, list) and set(kinds) == {"full_attention"}:
        return False
    if (set(kinds) if isinstance(kinds, list) else {"sliding_attention"}) != {"sliding_attention"} or (
            not isinstance(kinds, list) and first):
        raise DataError(f"{config.name}: layer_types: some layers read a window and some all; Regard has one window "
                        "for all layers")
    return True
