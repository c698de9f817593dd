"""A layout as CTranslate2's specification: the weights of each of its layers, put where its loader expects them.

Written straight into the specification. Its rotary embedding turns neighbouring channels where `rotary_interleave` is
set, as ours do: no row changes its place.
V vocabulary · D width · P positions
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.interop.layout import (
    Affine,
    AttentionLayout,
    BlockLayout,
    DecoderLayout,
    EncoderDecoderLayout,
    FeedForwardLayout,
    NormLayout,
    StackLayout,
)
from regard.interop.target import plain

ACTIVATIONS = {"relu": "RELU", "gelu-tanh": "GELUTanh", "gelu": "GELU", "swiglu": "SWISH", "silu": "SWISH"}


def decoder_spec(layout: DecoderLayout, places: int) -> Any:
    """Return the specification of a language model; `places` is the number of positions, where these are added."""
    from ctranslate2.specs import transformer_spec

    stack = layout.stack
    attention = stack.blocks[0].attention
    decoder = transformer_spec.TransformerDecoderSpec(
        len(stack.blocks), attention.heads, with_encoder_attention=False, alibi=stack.positions == "alibi",
        alibi_use_positive_positions=False, num_heads_kv=attention.kv_heads, qk_norm=attention.q_norm is not None,
        parallel_residual=stack.blocks[0].parallel, **common_options(stack))
    fill_stack(decoder, stack, places)
    fill_head(decoder, layout)
    spec = transformer_spec.TransformerDecoderModelSpec(decoder)
    spec.config.layer_norm_epsilon = stack.blocks[0].attention_norm.eps
    return spec


def translator_spec(layout: EncoderDecoderLayout, places: int) -> Any:
    """Return the specification of an encoder and a decoder."""
    from ctranslate2.specs import transformer_spec

    heads = layout.encoder.blocks[0].attention.heads
    encoder = transformer_spec.TransformerEncoderSpec(len(layout.encoder.blocks), heads,
                                                      **common_options(layout.encoder))
    decoder = transformer_spec.TransformerDecoderSpec(len(layout.decoder.blocks), heads,
                                                      **common_options(layout.decoder))
    fill_stack(encoder, layout.encoder, places)
    fill_stack(decoder, layout.decoder, places)
    fill_head(decoder, layout)
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = layout.encoder.blocks[0].attention_norm.eps
    return spec


def common_options(stack: StackLayout) -> dict[str, Any]:
    """Return what both kinds of stack are told at first."""
    from ctranslate2.specs import common_spec

    block = stack.blocks[0]
    attention, rotary = block.attention, block.attention.rotary
    wide = attention.heads * attention.head_width != stack.width
    turned = {} if rotary is None else {"rotary_dim": rotary.width, "rotary_interleave": True,
                                        "rotary_base": rotary.base}
    return dict(pre_norm=stack.placement == "pre", rms_norm=block.attention_norm.kind == "rms",
                activation=common_spec.Activation[ACTIVATIONS[block.feed.activation]],
                ffn_glu=block.feed.gate is not None, head_dim=attention.head_width if wide else None, **turned)


def fill_stack(spec: Any, stack: StackLayout, places: int) -> None:
    """Put the weights of embedding, positions, blocks and last norm into a stack's specification."""
    embedding = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embedding.weight = array(stack.embedding)
    spec.scale_embeddings = False if stack.scale == 1.0 else stack.scale
    if stack.positions not in ("rotary", "alibi"):             # without a table it would add sinusoids of its own
        spec.position_encodings.encodings = array(stack.added(places))
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        fill_block(layer, block)
    if stack.norm is not None:
        fill_norm(spec.layer_norm, stack.norm)


def fill_block(spec: Any, block: BlockLayout) -> None:
    if block.parallel:
        fill_norm(spec.input_layer_norm, block.attention_norm)
        fill_norm(spec.post_attention_layer_norm, block.feed_norm or block.attention_norm)
    else:
        assert block.feed_norm is not None, "parts that follow one another have a norm each"
        fill_norm(spec.self_attention.layer_norm, block.attention_norm)
        fill_norm(spec.ffn.layer_norm, block.feed_norm)
    fill_self_attention(spec.self_attention, block.attention)
    if block.cross is not None:
        assert block.cross_norm is not None, "a cross-attention has a norm"
        fill_norm(spec.attention.layer_norm, block.cross_norm)
        fill_cross_attention(spec.attention, block.cross)
    fill_feed(spec.ffn, block.feed)


def fill_self_attention(spec: Any, attention: AttentionLayout) -> None:
    fill_affine(spec.linear[0], attention.q, attention.k, attention.v)
    fill_affine(spec.linear[1], attention.o)
    for name, norm in (("q_norm", attention.q_norm), ("k_norm", attention.k_norm)):
        if norm is not None:
            fill_norm(getattr(spec, name), norm)


def fill_cross_attention(spec: Any, attention: AttentionLayout) -> None:
    fill_affine(spec.linear[0], attention.q)
    fill_affine(spec.linear[1], attention.k, attention.v)
    fill_affine(spec.linear[2], attention.o)


def fill_feed(spec: Any, feed: FeedForwardLayout) -> None:
    """Fill a feed-forward layer: the gate, where there is one, goes through the activation."""
    if feed.gate is None:
        fill_affine(spec.linear_0, feed.up)
    else:
        fill_affine(spec.linear_0, feed.gate)
        fill_affine(spec.linear_0_noact, feed.up)
    fill_affine(spec.linear_1, feed.down)


def fill_affine(spec: Any, *parts: Affine) -> None:
    """Put maps of one input into one, below each other; a bias only if one of them has it."""
    spec.weight = np.concatenate([array(part.weight) for part in parts])
    if any(part.bias is not None for part in parts):
        spec.bias = np.concatenate([array(part.bias_or_zeros) for part in parts])


def fill_norm(spec: Any, norm: NormLayout) -> None:
    spec.gamma = array(norm.weight)
    if norm.kind == "layer":
        spec.beta = array(norm.bias_or_zeros)


def fill_head(spec: Any, layout: DecoderLayout | EncoderDecoderLayout) -> None:
    """Equal matrices are stored once: a tied head is found when the specification is optimized."""
    spec.projection.weight = array(layout.head.weight)
    if layout.head.bias is not None:
        spec.projection.bias = array(layout.head.bias)
    if layout.head.softcap:
        spec.final_logit_softcapping = layout.head.softcap


def array(tensor: Tensor) -> NDArray[np.float32]:
    return plain(tensor).numpy()
