"""From a network to its layout: the one place that knows our modules and what they call their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.errors import SettingError
from regard.interop.layout import (
    Affine,
    AttentionLayout,
    BlockLayout,
    DecoderLayout,
    EncoderDecoderLayout,
    FeedForwardLayout,
    HeadLayout,
    Layout,
    Mamba2BlockLayout,
    Mamba2Layout,
    MambaBlockLayout,
    MambaLayout,
    MaskedLayout,
    NormLayout,
    RotaryLayout,
    StackLayout,
)
from regard.layers.cross_attention import CrossAttention
from regard.layers.feedforward import FeedForward
from regard.layers.full_attention import FullAttention
from regard.layers.norms import GroupedRMSNorm, LayerNorm, RMSNorm
from regard.layers.positions import EVEN_ALIBI, LearnedPositions, SinusoidalPositions, alibi_slopes
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block
from regard.layers.state_space import SelectiveSSM
from regard.layers.state_space_heads import Mamba2


def read_layout(model: Any) -> Layout:
    """Return the layout of a network; one of other parts than Transformers and Mamba have is a SettingError."""
    encoder = getattr(model, "encoder", None)
    if hasattr(model, "sides"):
        raise _other("a prefix model, whose source and target have a vector each")
    if encoder is not None and hasattr(model, "stack"):
        return EncoderDecoderLayout(_stack(encoder), _stack(model), _head(model), model.context,
                                    encoder.embedding.weight is model.embedding.weight)
    if encoder is not None:
        if getattr(model, "head", None) is None or not hasattr(model, "mask"):
            raise _other("a model of labels")
        return MaskedLayout(_stack(encoder), _head(model), model.context)
    if hasattr(model, "orders"):
        raise SettingError("this is an n-gram, and no network: export with --to arpa, or --to safetensors")
    if not hasattr(model, "stack"):
        raise _other(f"a {type(model).__name__}")
    if all(type(getattr(layer, "mixer", None)) is SelectiveSSM for layer in _layers(model)):
        return _mamba(model)
    if all(type(getattr(layer, "mixer", None)) is Mamba2 for layer in _layers(model)):
        return Mamba2Layout(model.embedding.weight.detach(), tuple(map(_mamba2_block, _layers(model))),
                            _norm(model.norm), _head(model), model.context)
    return DecoderLayout(_stack(model), _head(model), model.context)


def _other(what: str) -> SettingError:
    return SettingError(f"this is {what}: only onnx and safetensors hold it; export with --to onnx")


def _layers(model: Any) -> list[Any]:
    layers = getattr(model.stack, "layers", None)
    if layers is None:
        raise _other(f"a network of {type(model.stack).__name__} layers")
    return list(layers)


def _stack(model: Any) -> StackLayout:
    layers = _layers(model)
    added = [layer for layer in layers if type(layer) in ADDED]
    blocks = [layer for layer in layers if type(layer) not in ADDED]
    for block in blocks:
        if type(block) is not Block or type(block.mixer) not in ATTENTION:
            raise _other(f"a network of {type(getattr(block, 'mixer', block)).__name__} layers")
    read = _blocks(blocks)
    positions = ADDED[type(added[0])] if added else _relative(read[0].attention)
    return StackLayout(
        model.embedding.weight.detach(), float(model.embedding.scale), positions,
        added[0].table.detach() if positions == "learned" else None,
        "post" if blocks[0].after else "pre", read,
        None if type(model.norm) is nn.Identity else _norm(model.norm))


def _relative(attention: AttentionLayout) -> str:
    if attention.slopes is not None:
        published = torch.equal(attention.slopes, alibi_slopes(attention.heads).to(attention.slopes))
        return "alibi" if published else EVEN_ALIBI
    return "none" if attention.rotary is None else "rotary"


def _blocks(blocks: list[Block]) -> tuple[BlockLayout, ...]:
    """Blocks of attention and feed-forward; of a decoder each follows a block of attention to the text alone."""
    read, before = [], None
    for block in blocks:
        if block.feed is None:
            before = block
            continue
        own = block if before is None else before
        cross = None if before is None else ATTENTION[type(block.mixer)](block.mixer)
        read.append(BlockLayout(
            ATTENTION[type(own.mixer)](own.mixer), _norm(own.mixer_norm), _feed(block.feed),
            None if block.feed_norm is None else _norm(block.feed_norm), cross,
            None if cross is None else _norm(block.mixer_norm), block.parallel))
        before = None
    return tuple(read)


def _affine(layer: Any, rows: slice = slice(None)) -> Affine:
    bias = layer.bias
    return Affine(layer.weight.detach()[rows], None if bias is None else bias.detach()[rows])


def _norm(norm: Any) -> NormLayout:
    bias = getattr(norm, "bias", None)
    return NormLayout(NORM_KINDS[type(norm)], float(norm.eps), norm.weight.detach(),
                      None if bias is None else bias.detach())


def _self_attention(layer: Any) -> AttentionLayout:
    """Read a SelfAttention or a FullAttention: one matrix holds queries, keys and values."""
    queries, keys, values = layer.sizes
    q = _affine(layer.qkv, slice(0, queries))
    k = _affine(layer.qkv, slice(queries, queries + keys))
    v = _affine(layer.qkv, slice(queries + keys, None))
    heads, kv_heads = layer.heads, getattr(layer, "kv_heads", layer.heads)
    q_norm, k_norm = getattr(layer, "q_norm", None), getattr(layer, "k_norm", None)
    width = queries // heads
    return AttentionLayout(
        q, k, v, _affine(layer.out), heads, kv_heads, width, values // kv_heads,
        q_norm=None if q_norm is None else _norm(q_norm), k_norm=None if k_norm is None else _norm(k_norm),
        rotary=_rotary(layer.rotary), slopes=layer.slopes, window=getattr(layer, "window", 0),
        softcap=getattr(layer, "softcap", 0.0), score=_score(layer.score), f=layer.f)


def _rotary(rotary: Any) -> RotaryLayout | None:
    if rotary is None:
        return None
    return RotaryLayout(float(rotary.base), rotary.turned)


def _score(score: Any) -> str:
    return "scaled-dot" if score is None else type(score).__name__.lower()


def _cross_attention(layer: Any) -> AttentionLayout:
    keys, values = layer.sizes
    if layer.q is None or layer.kv is None or not keys or not values:
        raise SettingError("model.projections = none: no target holds it; export with --to onnx, or train with "
                           "model.projections = both")
    width = layer.q.weight.shape[0] // layer.heads
    return AttentionLayout(
        _affine(layer.q), _affine(layer.kv, slice(0, keys)), _affine(layer.kv, slice(keys, None)), _affine(layer.out),
        layer.heads, layer.heads, width, values // layer.heads, score=_score(layer.score), f=layer.f)


def _feed(feed: Any) -> FeedForwardLayout:
    if type(feed) is not FeedForward:
        raise _other(f"a network with {type(feed).__name__} layers")
    up, down = _affine(feed.up), _affine(feed.down)
    if feed.activation != "swiglu":
        return FeedForwardLayout(up, down, None, feed.activation)
    inner = len(up.weight) // 2
    gate, up = _affine(feed.up, slice(0, inner)), _affine(feed.up, slice(inner, None))
    return FeedForwardLayout(up, down, gate, feed.activation)


def _head(model: Any) -> HeadLayout:
    head = model.head
    bias = head._parameters.get("bias")                        # one that is not learned only leaves tokens out
    return HeadLayout(head.weight.detach(), bool(head.tied), None if bias is None else bias.detach(),
                      float(head.softcap))


def _mamba(model: Any) -> MambaLayout:
    blocks = [_mamba_block(layer) for layer in _layers(model) if not layer.mixer.heads]
    decay = "channel" if blocks else "head"
    return MambaLayout(model.embedding.weight.detach(), tuple(blocks), _norm(model.norm), _head(model), model.context,
                       decay)


def _mamba_block(block: Any) -> MambaBlockLayout:
    mixer = block.mixer
    narrow, wide = mixer.steps
    return MambaBlockLayout(
        _norm(block.mixer_norm), _affine(mixer.into), mixer.conv.weight.detach()[:, 0], mixer.conv.bias.detach(),
        _affine(mixer.codes), _affine(narrow), Affine(wide.weight.detach(), mixer.step_bias.detach()),
        mixer.log_rate.detach().view(mixer.inner, mixer.states), mixer.skip.detach(), _affine(mixer.out))


def _mamba2_block(block: Any) -> Mamba2BlockLayout:
    m = block.mixer
    return Mamba2BlockLayout(
        _norm(block.mixer_norm), _affine(m.into), m.conv.weight.detach()[:, 0], m.conv.bias.detach(),
        m.step_bias.detach(), m.log_rate.detach(), m.skip.detach(), _norm(m.norm), _affine(m.out), m.states, m.groups,
        m.limits)


NORM_KINDS: dict[type, str] = {LayerNorm: "layer", RMSNorm: "rms", GroupedRMSNorm: "rms"}
ADDED: dict[type, str] = {LearnedPositions: "learned", SinusoidalPositions: "sinusoidal"}
ATTENTION: dict[type, Callable[[Any], AttentionLayout]] = {
    SelfAttention: _self_attention, FullAttention: _self_attention, CrossAttention: _cross_attention}
