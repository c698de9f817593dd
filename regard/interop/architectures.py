"""Architectures: which class of which program holds a model, or which setting stands in the way.

One table. A row says what an architecture can hold of each setting; of a setting that a row does not name it holds the
plain value alone. The first row that holds everything is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isinf
from typing import Any

from regard.errors import SettingError
from regard.interop.layout import (
    AttentionLayout,
    DecoderLayout,
    EncoderDecoderLayout,
    HeadLayout,
    Layout,
    Mamba2Layout,
    MambaLayout,
    MaskedLayout,
    StackLayout,
)


@dataclass(frozen=True)
class Everything:
    """Every value of a setting."""

    def __contains__(self, value: Any) -> bool:
        return True


@dataclass(frozen=True)
class WholeNumbers:
    """Every whole number; the first is that of the papers."""

    def __contains__(self, value: Any) -> bool:
        return value == int(value)

    def __getitem__(self, place: int) -> Any:
        return 2.0


ANY, WHOLE = Everything(), WholeNumbers()

# Of a setting that a row does not name: what every architecture holds. Widths and depths are free.
PLAIN: dict[str, Any] = {
    "positions": ("rotary",), "placement": ("pre",), "norm": ("layer",), "activation": ("gelu", "gelu-tanh", "relu"),
    "kv_heads": (0,), "head_width": (0,), "value_width": (0,), "window": (0,), "qk_norm": (False,), "softcap": (0.0,),
    "attention_softcap": (0.0,), "f": ("none",), "score": ("scaled-dot",), "embedding_scale": ("none",),
    "rotary_base": ANY, "rotary_share": (1.0,), "parallel": (False,), "bias": ("none",), "logit_bias": (False,),
    "expand": ANY, "heads": ANY, "tied": ANY, "shared": ANY, "decay": ("channel",), "groups": (1,),
    "least_step": (0.0,), "most_step": (0.0,)}


@dataclass(frozen=True)
class Architecture:
    """A class of a program, and what it can hold."""

    name: str                              # as the program calls it: "GPTNeoXForCausalLM"
    layout: type                           # of the models that it can hold at all
    holds: Mapping[str, Any] = field(default_factory=dict)

    def conflicts(self, traits: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that it cannot hold, each with the nearest value that it can."""
        allowed = {**PLAIN, **self.holds}
        return {name: allowed[name][0] for name, value in traits.items() if value not in allowed[name]}


RMS = {"norm": ("rms",)}
GELUS = ("gelu", "gelu-tanh")
PLAIN_FEEDS = ("gelu", "gelu-tanh", "relu", "relu2", "silu")
ADDED = ("learned", "sinusoidal", "none")
SCALED = {"embedding_scale": ("none", "width")}
BIASED = {"bias": ("none", "qkv", "all")}
FREE = {**SCALED, **BIASED, "activation": PLAIN_FEEDS}
GATED = {**RMS, **SCALED, "activation": ("swiglu",)}
GGUF = {**SCALED, "activation": GELUS}
CT2 = {**SCALED, **BIASED, "placement": ("pre", "post"), "norm": ("layer", "rms"), "head_width": ANY, "softcap": ANY,
       "activation": ("gelu", "gelu-tanh", "relu", "silu", "swiglu"), "rotary_share": ANY, "logit_bias": ANY}


ARCHITECTURES: dict[str, tuple[Architecture, ...]] = {
    "hf": (
        Architecture("GPTNeoXForCausalLM", DecoderLayout, {**FREE, "rotary_share": ANY, "parallel": (False, True)}),
        Architecture("Starcoder2ForCausalLM", DecoderLayout, {**FREE, "kv_heads": ANY, "window": ANY}),
        Architecture("LlamaForCausalLM", DecoderLayout, {**GATED, **BIASED, "kv_heads": ANY, "head_width": ANY}),
        Architecture("MistralForCausalLM", DecoderLayout, {**GATED, "kv_heads": ANY, "window": ANY, "head_width": ANY}),
        Architecture("Qwen3ForCausalLM", DecoderLayout, {
            **GATED, "bias": ("none", "qkv"), "qk_norm": (True,), "kv_heads": ANY, "window": ANY, "head_width": ANY}),
        Architecture("StableLmForCausalLM", DecoderLayout, {
            **SCALED, "activation": ("swiglu",), "bias": ("none", "qkv"), "kv_heads": ANY, "rotary_share": ANY}),
        Architecture("ArceeForCausalLM", DecoderLayout, {**RMS, **FREE, "kv_heads": ANY, "head_width": ANY}),
        Architecture("GPT2LMHeadModel", DecoderLayout, {**FREE, "positions": ADDED}),
        Architecture("MptForCausalLM", DecoderLayout, {**SCALED, "positions": ("alibi",), "activation": ("gelu",),
                                                       "expand": (4.0,)}),
        Architecture("MambaForCausalLM", MambaLayout, RMS),
        Architecture("Mamba2ForCausalLM", Mamba2Layout, {**RMS, "expand": WHOLE}),
        Architecture("EuroBertForMaskedLM", MaskedLayout, {**GATED, **BIASED, "head_width": ANY}),
        Architecture("EuroBertForMaskedLM", MaskedLayout, {
            **GATED, "bias": ("all",), "head_width": ANY, "logit_bias": (True,)}),
        Architecture("PegasusForConditionalGeneration", EncoderDecoderLayout, {
            **FREE, "positions": ("sinusoidal",), "shared": (True,), "logit_bias": ANY}),
        Architecture("MarianMTModel", EncoderDecoderLayout, {
            **FREE, "positions": ("sinusoidal",), "placement": ("post",), "logit_bias": ANY}),
        Architecture("BlenderbotForConditionalGeneration", EncoderDecoderLayout, {
            **FREE, "positions": ("learned",), "shared": (True,), "logit_bias": ANY}),
    ),
    "gguf": (
        Architecture("gptneox", DecoderLayout, {**GGUF, **BIASED, "rotary_share": ANY, "parallel": (False, True)}),
        Architecture("starcoder2", DecoderLayout, {**GGUF, **BIASED, "kv_heads": ANY}),
        Architecture("llama", DecoderLayout, {**GATED, **BIASED, "kv_heads": ANY, "head_width": ANY}),
        Architecture("qwen3", DecoderLayout, {**GATED, "bias": ("none", "qkv"), "kv_heads": ANY, "qk_norm": (True,),
                                              "head_width": ANY}),
        Architecture("stablelm", DecoderLayout, {**SCALED, "activation": ("swiglu",), "bias": ("none", "qkv"),
                                                 "rotary_share": ANY, "kv_heads": ANY}),
        Architecture("arcee", DecoderLayout, {**RMS, **SCALED, "activation": ("relu2",), "bias": ("none", "qkv"),
                                              "kv_heads": ANY, "head_width": ANY}),
        Architecture("gpt2", DecoderLayout, {**GGUF, **BIASED, "positions": ADDED}),
        Architecture("mamba", MambaLayout, {**RMS, "expand": (2.0,)}),
        Architecture("mamba2", Mamba2Layout, {**RMS, "expand": (2.0,), "groups": ANY}),
    ),
    "ct2": (
        Architecture("TransformerDecoderModelSpec", DecoderLayout, {
            **CT2, "positions": ("rotary", "alibi", *ADDED), "kv_heads": ANY, "qk_norm": (False, True),
            "parallel": (False, True)}),
        Architecture("TransformerSpec", EncoderDecoderLayout, {**CT2, "positions": ("rotary", *ADDED)}),
    ),
}
"""Rows of a target in the order of preference. onnx, arpa and safetensors hold what they hold without a table."""


def find_architecture(target: str, layout: Layout) -> Architecture:
    """Return the architecture of a target that holds this network; a setting in the way is a SettingError."""
    rows = [row for row in ARCHITECTURES[target] if type(layout) is row.layout]
    if not rows:
        raise SettingError(f"--to {target}: it holds no {KINDS[type(layout)]}; export with --to onnx")
    traits = read_traits(layout)
    found = [(row, row.conflicts(traits)) for row in rows]
    row, conflicts = min(found, key=lambda each: len(each[1]))               # of equals the first
    if not conflicts:
        return row
    stands = ", ".join(f"{_setting(name)} = {_spell(traits[name])}" for name in conflicts)
    could = ", ".join(f"{_setting(name)} = {_spell(value)}" for name, value in conflicts.items())
    raise SettingError(f"{stands}: --to {target} cannot hold it; the nearest that it can is {could} ({row.name}), or "
                       "export with --to onnx")


def _setting(trait: str) -> str:
    """Return the name of a trait in run.toml."""
    return f"{'tokenizer' if trait == 'shared' else 'model'}.{trait}"


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


KINDS: dict[type, str] = {DecoderLayout: "decoder-only Transformer", EncoderDecoderLayout: "translator",
                          MaskedLayout: "masked model", MambaLayout: "state space model",
                          Mamba2Layout: "state space model"}


# ---------------------------------------------------------------------------------------------- traits


def read_traits(layout: Layout) -> dict[str, Any]:
    """Return what matters of the settings, by their names; a width that is the usual one is 0, as in settings."""
    if isinstance(layout, MambaLayout):
        inner = len(layout.blocks[0].conv) if layout.blocks else 0           # none of a Mamba with decays of heads
        return {"norm": layout.norm.kind, "decay": layout.decay, **_head_traits(layout.head),
                **({"expand": inner / layout.embedding.shape[1]} if inner else {})}
    if isinstance(layout, Mamba2Layout):
        first = layout.blocks[0]
        return {"norm": layout.norm.kind, "expand": first.inner / layout.embedding.shape[1], "groups": first.groups,
                "least_step": first.limits[0], "most_step": 0.0 if isinf(first.limits[1]) else first.limits[1],
                **_head_traits(layout.head)}
    if isinstance(layout, EncoderDecoderLayout):
        return {**_stack_traits(layout.encoder), **_stack_traits(layout.decoder), **_head_traits(layout.head),
                "shared": layout.shared}
    stack = layout.encoder if isinstance(layout, MaskedLayout) else layout.stack
    return {**_stack_traits(stack), **_head_traits(layout.head)}


def _stack_traits(stack: StackLayout) -> dict[str, Any]:
    block = stack.blocks[0]
    return {
        "positions": stack.positions, "placement": stack.placement, "norm": block.attention_norm.kind,
        "activation": block.feed.activation, **_attention_traits(block.attention, stack.width),
        "embedding_scale": "none" if stack.scale == 1.0 else "width", "parallel": block.parallel,
        "bias": "all" if block.feed.down.bias is not None else "none" if block.attention.q.bias is None else "qkv",
        "expand": len(block.feed.up.weight) / stack.width * (1.5 if block.feed.gate is not None else 1)}


def _attention_traits(attention: AttentionLayout, width: int) -> dict[str, Any]:
    a, rotary = attention, attention.rotary
    return {
        "heads": a.heads, "kv_heads": 0 if a.kv_heads == a.heads else a.kv_heads,
        "head_width": 0 if a.heads * a.head_width == width else a.head_width,
        "value_width": 0 if a.value_width == a.head_width else a.value_width, "window": a.window,
        "qk_norm": a.q_norm is not None, "attention_softcap": a.softcap, "f": a.f, "score": a.score,
        **({} if rotary is None else {"rotary_base": rotary.base, "rotary_share": rotary.width / a.head_width})}


def _head_traits(head: HeadLayout) -> dict[str, Any]:
    return {"tied": head.tied, "softcap": head.softcap, "logit_bias": head.bias is not None}
