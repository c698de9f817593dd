"""transformers' classes of one stack: our layouts as their tensors and their config.json.

Their rotary embeddings turn channel i of a head with channel i + K/2, so that rows of queries and keys are reordered.
Where they have a bias and we have none, it is zero.   H heads of K channels
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.interop.layout import (
    Affine,
    AttentionLayout,
    BlockLayout,
    DecoderLayout,
    HeadLayout,
    MaskedLayout,
    NormLayout,
    StackLayout,
)

Tensors = dict[str, Tensor]
ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_pytorch_tanh", "relu": "relu", "relu2": "relu2", "silu": "silu",
               "swiglu": "silu"}


# -------------------------------------------------------------------------------------------- parts


def put(tensors: Tensors, name: str, part: Affine | NormLayout, biased: bool = False) -> None:
    """Add a part's weight, and its bias: zero where theirs has one and ours has none."""
    tensors[f"{name}.weight"] = part.weight
    if biased or part.bias is not None:
        tensors[f"{name}.bias"] = part.bias_or_zeros


def put_embedding(tensors: Tensors, stack: StackLayout, head: HeadLayout, embedding: str, name: str) -> bool:
    """Add the embedding, times its scale, and the head; return whether the two are one tensor."""
    tensors[embedding] = stack.embedding * stack.scale
    if head.tied and stack.scale == 1.0:
        return True
    tensors[name] = head.weight
    return False


def turning(attention: AttentionLayout, eps: float) -> tuple[Affine, Affine, NormLayout | None, NormLayout | None]:
    """Return queries and keys in halves, with their norms, which all have one eps there.

    A norm of q with another eps is the same as that norm of c q: q / sqrt(m + e) = c q / sqrt(c^2 m + c^2 e).
    """
    a = attention
    parts = []
    for part, heads, norm in ((a.q, a.heads, a.q_norm), (a.k, a.kv_heads, a.k_norm)):
        part = a.halved(part, heads)
        if norm is not None:
            scale = math.sqrt(eps / norm.eps)
            part = Affine(part.weight * scale, None if part.bias is None else part.bias * scale)
            norm = a.halved_norm(norm)
        parts.append((part, norm))
    (q, q_norm), (k, k_norm) = parts
    return q, k, q_norm, k_norm


def rope_settings(attention: AttentionLayout) -> dict[str, Any]:
    rotary = attention.rotary
    if rotary is None:
        return {}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": rotary.base,
                                "partial_rotary_factor": rotary.width / attention.head_width},
            "rope_theta": rotary.base}


def sizes(stack: StackLayout, context: int) -> dict[str, Any]:
    """Return the entries of config.json that most classes call alike."""
    block = stack.blocks[0]
    return {"vocab_size": len(stack.embedding), "hidden_size": stack.width, "num_hidden_layers": len(stack.blocks),
            "num_attention_heads": block.attention.heads, "intermediate_size": len(block.feed.up.weight),
            "hidden_act": ACTIVATIONS[block.feed.activation], "max_position_embeddings": context}


# ------------------------------------------------------------------------------------------ GPT-NeoX


def neox(layout: DecoderLayout, context: int) -> tuple[dict[str, Any], Tensors]:
    """Queries, keys and values are one matrix there, head by head."""
    stack, tensors = layout.stack, Tensors()
    tied = put_embedding(tensors, stack, layout.head, "gpt_neox.embed_in.weight", "embed_out.weight")
    first = stack.blocks[0]
    biased = first.attention.q.bias is not None
    for number, block in enumerate(stack.blocks):
        name, a = f"gpt_neox.layers.{number}", block.attention
        q, k, _, _ = turning(a, 1.0)
        put(tensors, f"{name}.attention.query_key_value", by_head(a.heads, q, k, a.v), biased)
        put(tensors, f"{name}.attention.dense", a.o, biased)
        put(tensors, f"{name}.input_layernorm", block.attention_norm, True)
        put(tensors, f"{name}.post_attention_layernorm", feed_norm(block), True)
        put(tensors, f"{name}.mlp.dense_h_to_4h", block.feed.up, True)
        put(tensors, f"{name}.mlp.dense_4h_to_h", block.feed.down, True)
    assert stack.norm is not None and first.attention.rotary is not None
    put(tensors, "gpt_neox.final_layer_norm", stack.norm, True)
    rotary = first.attention.rotary
    config = {"model_type": "gpt_neox", **sizes(stack, context), "layer_norm_eps": stack.norm.eps,
              "use_parallel_residual": first.parallel, "attention_bias": biased, "tie_word_embeddings": tied,
              **rope_settings(first.attention), "rotary_emb_base": rotary.base,
              "rotary_pct": rotary.width / first.attention.head_width}
    return config, tensors


def by_head(heads: int, *parts: Affine) -> Affine:
    """Return one matrix whose rows are the first head's queries, keys and values, then the second's."""
    weight = torch.cat([part.weight.unflatten(0, (heads, -1)) for part in parts], 1).flatten(0, 1)
    if parts[0].bias is None:
        return Affine(weight)
    return Affine(weight, torch.cat([part.bias_or_zeros.unflatten(0, (heads, -1)) for part in parts], 1).flatten())


def feed_norm(block: BlockLayout) -> NormLayout:
    assert block.feed_norm is not None
    return block.feed_norm


# --------------------------------------------------------------------------------- those that follow Llama


@dataclass(frozen=True)
class LlamaLike:
    """A class whose modules are called as Llama's are, and where it differs."""

    model_type: str
    eps: str = "rms_norm_eps"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    norm_bias: bool = False
    head_bias: bool = False                # the head has one where feed-forward layers have
    biases: Callable[[BlockLayout], dict[str, Any]] = lambda block: {}      # its settings of biases
    more: Callable[[BlockLayout, int], dict[str, Any]] = lambda block, layers: {}

    def __call__(self, layout: DecoderLayout | MaskedLayout, context: int) -> tuple[dict[str, Any], Tensors]:
        stack = layout.encoder if isinstance(layout, MaskedLayout) else layout.stack
        first, tensors = stack.blocks[0], Tensors()
        assert stack.norm is not None
        tied = put_embedding(tensors, stack, layout.head, "model.embed_tokens.weight", "lm_head.weight")
        biases = self.biases(first)
        if self.head_bias and biases["mlp_bias"]:
            bias = layout.head.bias
            tensors["lm_head.bias"] = stack.embedding.new_zeros(len(stack.embedding)) if bias is None else bias
        for number, block in enumerate(stack.blocks):
            self.put_block(tensors, f"model.layers.{number}", block, stack.norm.eps, biases)
        put(tensors, "model.norm", stack.norm, self.norm_bias)
        config = {"model_type": self.model_type, **sizes(stack, context), self.eps: stack.norm.eps,
                  "num_key_value_heads": first.attention.kv_heads, "head_dim": first.attention.head_width,
                  "tie_word_embeddings": tied, **rope_settings(first.attention), **biases,
                  **self.more(first, len(stack.blocks))}
        return config, tensors

    def put_block(self, tensors: Tensors, name: str, block: BlockLayout, eps: float, biases: dict[str, Any]) -> None:
        a = block.attention
        q, k, q_norm, k_norm = turning(a, eps)
        qkv, out, feed = biased_parts(biases)
        for part, called in ((q, "q_proj"), (k, "k_proj"), (a.v, "v_proj")):
            put(tensors, f"{name}.self_attn.{called}", part, qkv)
        put(tensors, f"{name}.self_attn.o_proj", a.o, out)
        if q_norm is not None and k_norm is not None:
            put(tensors, f"{name}.self_attn.q_norm", q_norm)
            put(tensors, f"{name}.self_attn.k_norm", k_norm)
        put(tensors, f"{name}.input_layernorm", block.attention_norm, self.norm_bias)
        put(tensors, f"{name}.post_attention_layernorm", feed_norm(block), self.norm_bias)
        if block.feed.gate is not None:
            put(tensors, f"{name}.mlp.gate_proj", block.feed.gate, feed)
        put(tensors, f"{name}.{self.up}", block.feed.up, feed)
        put(tensors, f"{name}.{self.down}", block.feed.down, feed)


def biased_parts(biases: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Return True for each that has biases: queries, keys and values; the output of attention; feed-forward."""
    every, attention = biases.get("use_bias", False), biases.get("attention_bias", False)
    return (every or attention or biases.get("use_qkv_bias", False), every or attention,
            every or biases.get("mlp_bias", False))


def any_bias(block: BlockLayout) -> bool:
    return block.attention.q.bias is not None


def attention_and_feed(block: BlockLayout) -> dict[str, Any]:
    return {"attention_bias": any_bias(block), "mlp_bias": block.feed.down.bias is not None}


def sliding(block: BlockLayout, layers: int) -> dict[str, Any]:
    return {"sliding_window": block.attention.window or None}


def qwen3_windows(block: BlockLayout, layers: int) -> dict[str, Any]:
    window = block.attention.window
    if not window:
        return {"use_sliding_window": False, "sliding_window": None}
    return {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0,
            "layer_types": ["sliding_attention"] * layers}


# -------------------------------------------------------------------------------------------- GPT-2, MPT


def gpt2(layout: DecoderLayout, context: int) -> tuple[dict[str, Any], Tensors]:
    """Matrices stand transposed there; whatever is added at each position is a table."""
    stack, tensors = layout.stack, Tensors()
    tied = put_embedding(tensors, stack, layout.head, "transformer.wte.weight", "lm_head.weight")
    tensors["transformer.wpe.weight"] = stack.added(context)
    for number, block in enumerate(stack.blocks):
        name, a = f"transformer.h.{number}", block.attention
        together = Affine(torch.cat((a.q.weight, a.k.weight, a.v.weight)),
                          torch.cat((a.q.bias_or_zeros, a.k.bias_or_zeros, a.v.bias_or_zeros)))
        for part, called in ((together, "attn.c_attn"), (a.o, "attn.c_proj"), (block.feed.up, "mlp.c_fc"),
                             (block.feed.down, "mlp.c_proj")):
            put(tensors, f"{name}.{called}", Affine(part.weight.T, part.bias_or_zeros))
        put(tensors, f"{name}.ln_1", block.attention_norm, True)
        put(tensors, f"{name}.ln_2", feed_norm(block), True)
    assert stack.norm is not None
    put(tensors, "transformer.ln_f", stack.norm, True)
    first = stack.blocks[0]
    return {"model_type": "gpt2", "vocab_size": len(stack.embedding), "n_positions": context, "n_embd": stack.width,
            "n_layer": len(stack.blocks), "n_head": first.attention.heads, "n_inner": len(first.feed.up.weight),
            "activation_function": ACTIVATIONS[first.feed.activation], "layer_norm_epsilon": stack.norm.eps,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": tied}, tensors


def mpt(layout: DecoderLayout, context: int) -> tuple[dict[str, Any], Tensors]:
    stack, tensors = layout.stack, Tensors()
    tied = put_embedding(tensors, stack, layout.head, "transformer.wte.weight", "lm_head.weight")
    for number, block in enumerate(stack.blocks):
        name, a = f"transformer.blocks.{number}", block.attention
        tensors[f"{name}.attn.Wqkv.weight"] = torch.cat((a.q.weight, a.k.weight, a.v.weight))
        put(tensors, f"{name}.attn.out_proj", a.o)
        put(tensors, f"{name}.norm_1", block.attention_norm)
        put(tensors, f"{name}.norm_2", feed_norm(block))
        put(tensors, f"{name}.ffn.up_proj", block.feed.up)
        put(tensors, f"{name}.ffn.down_proj", block.feed.down)
    assert stack.norm is not None
    put(tensors, "transformer.norm_f", stack.norm)
    return {"model_type": "mpt", "vocab_size": len(stack.embedding), "d_model": stack.width,
            "n_heads": stack.blocks[0].attention.heads, "n_layers": len(stack.blocks), "max_seq_len": context,
            "expansion_ratio": 4, "layer_norm_epsilon": stack.norm.eps, "no_bias": True, "learned_pos_emb": False,
            "attn_config": {"alibi": True}, "use_cache": True, "tie_word_embeddings": tied}, tensors


DECODERS: dict[str, Any] = {
    "GPTNeoXForCausalLM": neox,
    "Starcoder2ForCausalLM": LlamaLike(
        "starcoder2", eps="norm_epsilon", up="mlp.c_fc", down="mlp.c_proj", norm_bias=True, more=sliding,
        biases=lambda block: {"use_bias": any_bias(block)}),
    "LlamaForCausalLM": LlamaLike("llama", biases=attention_and_feed),
    "MistralForCausalLM": LlamaLike("mistral", more=sliding),
    "Qwen3ForCausalLM": LlamaLike("qwen3", more=qwen3_windows,
                                  biases=lambda block: {"attention_bias": any_bias(block)}),
    "StableLmForCausalLM": LlamaLike("stablelm", eps="layer_norm_eps", norm_bias=True,
                                     biases=lambda block: {"use_qkv_bias": any_bias(block)}),
    "ArceeForCausalLM": LlamaLike("arcee", biases=attention_and_feed),
    "EuroBertForMaskedLM": LlamaLike("eurobert", head_bias=True, biases=attention_and_feed),
    "GPT2LMHeadModel": gpt2,
    "MptForCausalLM": mpt,
}
