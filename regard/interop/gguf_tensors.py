"""The tensors of llama.cpp's architectures: by which names weights go, in which order, and what has to be there.

Read from llama.cpp's own loaders (src/models).
D width · H heads of K channels · E inner channels in G groups · N states
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.interop.layout import (
    Affine,
    AttentionLayout,
    BlockLayout,
    DecoderLayout,
    FeedForwardLayout,
    Mamba2BlockLayout,
    Mamba2Layout,
    MambaBlockLayout,
    MambaLayout,
    NormLayout,
)


@dataclass(frozen=True)
class Form:
    """The storage of one of llama.cpp's Transformers."""

    halved: bool = True                    # channel i of a head turns with channel i + K/2; else neighbours do
    fused: bool = False                    # q, k and v in one tensor
    biases: bool = False                   # every matrix has one, zeros or not
    own_head: bool = False                 # there is an output matrix, tied or not
    places: bool = False                   # a table of positions is added


FORMS = {
    "gptneox": Form(fused=True, biases=True, own_head=True),
    "starcoder2": Form(biases=True),
    "llama": Form(halved=False),
    "qwen3": Form(),
    "stablelm": Form(own_head=True),
    "arcee": Form(halved=False),
    "gpt2": Form(fused=True, biases=True, places=True),
}


def decoder_tensors(layout: DecoderLayout, form: Form, places: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a Transformer; `places` is the number of positions, where these are added."""
    stack = layout.stack
    yield "token_embd.weight", stack.embedding * stack.scale
    if form.places:
        yield "position_embd.weight", stack.added(places)
    if form.own_head or not layout.head.tied or stack.scale != 1.0:          # a tied head has no scale
        yield "output.weight", layout.head.weight
    assert stack.norm is not None, "a pre-norm stack has a last norm"
    yield from norm_tensors("output_norm", stack.norm)
    for number, block in enumerate(stack.blocks):
        for name, tensor in block_tensors(block, form):
            yield f"blk.{number}.{name}", tensor


def block_tensors(block: BlockLayout, form: Form) -> Iterator[tuple[str, Tensor]]:
    yield from norm_tensors("attn_norm", block.attention_norm)
    yield from norm_tensors("ffn_norm", block.feed_norm or block.attention_norm)
    yield from attention_tensors(block.attention, form)
    yield from feed_tensors(block.feed, form)


def attention_tensors(attention: AttentionLayout, form: Form) -> Iterator[tuple[str, Tensor]]:
    q, k = attention.q, attention.k
    if form.halved:
        q, k = attention.halved(q, attention.heads), attention.halved(k, attention.kv_heads)
    parts = {"attn_qkv": join(q, k, attention.v)} if form.fused else {"attn_q": q, "attn_k": k, "attn_v": attention.v}
    for name, part in {**parts, "attn_output": attention.o}.items():
        yield from affine_tensors(name, part, form)
    for name, norm in (("attn_q_norm", attention.q_norm), ("attn_k_norm", attention.k_norm)):
        if norm is not None:
            yield f"{name}.weight", (attention.halved_norm(norm) if form.halved else norm).weight


def feed_tensors(feed: FeedForwardLayout, form: Form) -> Iterator[tuple[str, Tensor]]:
    for name, part in (("ffn_gate", feed.gate), ("ffn_up", feed.up), ("ffn_down", feed.down)):
        if part is not None:
            yield from affine_tensors(name, part, form)


def affine_tensors(name: str, part: Affine, form: Form) -> Iterator[tuple[str, Tensor]]:
    """Yield a matrix and its bias, zeros where the architecture demands one and we have none."""
    yield f"{name}.weight", part.weight
    if form.biases or part.bias is not None:
        yield f"{name}.bias", part.bias_or_zeros


def norm_tensors(name: str, norm: NormLayout) -> Iterator[tuple[str, Tensor]]:
    """Yield a norm's gains, and of a layer norm the bias, which is always there."""
    yield f"{name}.weight", norm.weight
    if norm.kind == "layer":
        yield f"{name}.bias", norm.bias_or_zeros


def join(*parts: Affine) -> Affine:
    """Return several maps of one input as one map."""
    biased = any(part.bias is not None for part in parts)
    return Affine(torch.cat([part.weight for part in parts]),
                  torch.cat([part.bias_or_zeros for part in parts]) if biased else None)


def mamba_tensors(layout: MambaLayout) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a Mamba."""
    yield "token_embd.weight", layout.embedding
    if not layout.head.tied:
        yield "output.weight", layout.head.weight
    yield from norm_tensors("output_norm", layout.norm)
    for number, block in enumerate(layout.blocks):
        for name, tensor in mamba_block_tensors(block):
            yield f"blk.{number}.{name}", tensor


def mamba_block_tensors(block: MambaBlockLayout) -> Iterator[tuple[str, Tensor]]:
    yield from norm_tensors("attn_norm", block.norm)
    yield "ssm_in.weight", block.into.weight
    yield "ssm_conv1d.weight", block.conv
    yield "ssm_conv1d.bias", block.conv_bias
    yield "ssm_x.weight", torch.cat((block.step_in.weight, block.codes.weight))         # the step's, then b's and c's
    yield "ssm_dt.weight", block.step_out.weight
    yield "ssm_dt.bias", block.step_out.bias_or_zeros
    yield "ssm_a", -block.log_rate.exp()                                                # (E, N)
    yield "ssm_d", block.skip
    yield "ssm_out.weight", block.out.weight


def mamba2_tensors(layout: Mamba2Layout) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a Mamba-2."""
    yield "token_embd.weight", layout.embedding
    if not layout.head.tied:
        yield "output.weight", layout.head.weight
    yield from norm_tensors("output_norm", layout.norm)
    for number, block in enumerate(layout.blocks):
        for name, tensor in mamba2_block_tensors(block):
            yield f"blk.{number}.{name}", tensor


def mamba2_block_tensors(block: Mamba2BlockLayout) -> Iterator[tuple[str, Tensor]]:
    yield from norm_tensors("attn_norm", block.norm)
    yield "ssm_in.weight", block.into.weight
    yield "ssm_conv1d.weight", block.conv
    yield "ssm_conv1d.bias", block.conv_bias
    yield "ssm_dt.bias", block.step_bias
    yield "ssm_a", -block.log_rate.exp()[:, None]                                       # (H, 1)
    yield "ssm_d", block.skip[:, None]
    yield "ssm_norm.weight", block.gated.weight.unflatten(0, (block.groups, -1))        # (G, E / G)
    yield "ssm_out.weight", block.out.weight
