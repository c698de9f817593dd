"""transformers' translators: Pegasus (pre-norm, sinusoids), Marian (post-norm, sinusoids), Blenderbot (learned).

Pegasus and Marian add all sines, then all cosines; ours alternate. The channels between the blocks are reordered in
every weight that reads or writes them, which changes no number.   D width
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.interop.hf_decoders import ACTIVATIONS, Tensors, feed_norm, put
from regard.interop.layout import (
    Affine,
    AttentionLayout,
    BlockLayout,
    EncoderDecoderLayout,
    FeedForwardLayout,
    NormLayout,
    StackLayout,
)


@dataclass(frozen=True)
class BartLike:
    """A class whose modules are called as Bart's are."""

    model_type: str
    sinusoids: bool

    def __call__(self, layout: EncoderDecoderLayout, context: int) -> tuple[dict[str, Any], Tensors]:
        tensors = Tensors()
        scale = layout.decoder.scale
        head = layout.head
        encoder, decoder, weight = layout.encoder, layout.decoder, head.weight
        if self.sinusoids:
            order = torch.cat((torch.arange(0, encoder.width, 2), torch.arange(1, encoder.width, 2)))
            encoder, decoder = (reorder_stack(stack, order, context) for stack in (encoder, decoder))
            weight = weight[:, order]
        if layout.shared:
            tensors["model.shared.weight"] = decoder.embedding
        tensors["model.encoder.embed_tokens.weight"] = encoder.embedding
        tensors["model.decoder.embed_tokens.weight"] = decoder.embedding
        tensors["lm_head.weight"] = weight
        bias = weight.new_zeros(len(weight)) if head.bias is None else head.bias
        tensors["final_logits_bias"] = bias[None]
        for side, stack in (("encoder", encoder), ("decoder", decoder)):
            self.put_stack(tensors, f"model.{side}", stack, context)
        return self.config(layout, context, scale), tensors

    def put_stack(self, tensors: Tensors, name: str, stack: StackLayout, context: int) -> None:
        tensors[f"{name}.embed_positions.weight"] = stack.added(context)
        for number, block in enumerate(stack.blocks):
            self.put_block(tensors, f"{name}.layers.{number}", block)
        if stack.norm is not None:
            put(tensors, f"{name}.layer_norm", stack.norm, True)

    def put_block(self, tensors: Tensors, name: str, block: BlockLayout) -> None:
        put_attention(tensors, f"{name}.self_attn", block.attention)
        put(tensors, f"{name}.self_attn_layer_norm", block.attention_norm, True)
        if block.cross is not None and block.cross_norm is not None:
            put_attention(tensors, f"{name}.encoder_attn", block.cross)
            put(tensors, f"{name}.encoder_attn_layer_norm", block.cross_norm, True)
        put(tensors, f"{name}.fc1", block.feed.up, True)
        put(tensors, f"{name}.fc2", block.feed.down, True)
        put(tensors, f"{name}.final_layer_norm", feed_norm(block), True)

    def config(self, layout: EncoderDecoderLayout, context: int, scale: float) -> dict[str, Any]:
        config: dict[str, Any] = {
            "model_type": self.model_type, "vocab_size": len(layout.encoder.embedding), "d_model": layout.decoder.width,
            "max_position_embeddings": context, "is_encoder_decoder": True,
            "forced_eos_token_id": None, "scale_embedding": scale != 1.0, "tie_word_embeddings": layout.head.tied,
            "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
            "activation_function": ACTIVATIONS[layout.decoder.blocks[0].feed.activation]}
        for side, stack in (("encoder", layout.encoder), ("decoder", layout.decoder)):
            first = stack.blocks[0]
            config |= {f"{side}_layers": len(stack.blocks), f"{side}_attention_heads": first.attention.heads,
                       f"{side}_ffn_dim": len(first.feed.up.weight)}
        if not layout.shared:
            config |= {"share_encoder_decoder_embeddings": False,
                       "decoder_vocab_size": len(layout.decoder.embedding)}
        return config


def put_attention(tensors: Tensors, name: str, attention: AttentionLayout) -> None:
    a = attention
    for part, called in ((a.q, "q_proj"), (a.k, "k_proj"), (a.v, "v_proj"), (a.o, "out_proj")):
        put(tensors, f"{name}.{called}", part, True)


# ----------------------------------------------------------------------------------- channels reordered


def reorder_stack(stack: StackLayout, order: Tensor, context: int) -> StackLayout:
    """Return a stack whose channels between the blocks stand in this order (D,), with a table of its positions."""
    blocks = tuple(reorder_block(block, order) for block in stack.blocks)
    table = stack.added(context)[:, order]
    return replace(stack, table=table, embedding=stack.embedding[:, order], blocks=blocks,
                   norm=reorder_norm(stack.norm, order))


def reorder_block(block: BlockLayout, order: Tensor) -> BlockLayout:
    feed = block.feed
    return replace(
        block, attention=reorder_attention(block.attention, order),
        attention_norm=reorder_norm(block.attention_norm, order), feed_norm=reorder_norm(block.feed_norm, order),
        feed=FeedForwardLayout(reading(feed.up, order), writing(feed.down, order),
                               None if feed.gate is None else reading(feed.gate, order), feed.activation),
        cross=None if block.cross is None else reorder_attention(block.cross, order),
        cross_norm=reorder_norm(block.cross_norm, order))


def reorder_attention(attention: AttentionLayout, order: Tensor) -> AttentionLayout:
    a = attention
    return replace(a, q=reading(a.q, order), k=reading(a.k, order), v=reading(a.v, order), o=writing(a.o, order))


def reorder_norm(norm: Any, order: Tensor) -> Any:
    if norm is None:
        return None
    return NormLayout(norm.kind, norm.eps, norm.weight[order], None if norm.bias is None else norm.bias[order])


def reading(part: Affine, order: Tensor) -> Affine:
    return Affine(part.weight[:, order], part.bias)


def writing(part: Affine, order: Tensor) -> Affine:
    return Affine(part.weight[order], None if part.bias is None else part.bias[order])


TRANSLATORS: dict[str, Any] = {
    "PegasusForConditionalGeneration": BartLike("pegasus", sinusoids=True),
    "MarianMTModel": BartLike("marian", sinusoids=True),
    "BlenderbotForConditionalGeneration": BartLike("blenderbot", sinusoids=False),
}
