"""GGUF: one file with weights, settings and tokenizer, which llama.cpp runs, and what is built on it.

It is written from our weights. The check runs llama.cpp through llama-cpp-python, on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import SettingError
from regard.interop.architectures import find_architecture
from regard.interop.gguf_tensors import FORMS, decoder_tensors, mamba2_tensors, mamba_tensors
from regard.interop.gguf_tokenizer import add_tokenizer, read_vocabulary
from regard.interop.layout import DecoderLayout, Mamba2Layout, MambaLayout
from regard.interop.target import EXACT, ExportSubject, OpenedExport, Tolerance, plain

INSTALL = "--to gguf writes with the package gguf, which is not installed: pip install 'regard[gguf]'"
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}       # llama.cpp's numbers
# Of two dimensions, and no factor of a matrix product.
UNROUNDED = {"position_embd", "ssm_conv1d", "ssm_a", "ssm_d", "ssm_norm"}

ROOM = 256                                         # tokens, for a check of what has no limit of its own
BY_GELU = Tolerance(2e-2, "llama.cpp looks GELU up in a table of float16")
BY_STATES = Tolerance(5e-4, "1.1e-4 was measured with weights drawn at random")
ROUNDED = {"f16": Tolerance(0.25, "weights in float16"),
           "q8_0": Tolerance(5.0, "weights in 8 bits", same_choices=False)}


def write(subject: ExportSubject, path: Path) -> str:
    """Write the file; return llama.cpp's name of the architecture."""
    layout = subject.layout
    kind = find_architecture("gguf", layout).name
    vocabulary = read_vocabulary(subject)
    assert isinstance(layout, DecoderLayout | MambaLayout | Mamba2Layout), "the table names no other"
    context = int(layout.context or subject.trained.context)
    writer = make_writer(path, kind)
    writer.add_name(subject.name)
    writer.add_file_type(FILE_TYPES[subject.precision])
    writer.add_quantization_version(2)
    writer.add_vocab_size(subject.counting.size)
    writer.add_context_length(context)
    if isinstance(layout, MambaLayout):
        add_mamba_settings(writer, layout)
        tensors = mamba_tensors(layout)
    elif isinstance(layout, Mamba2Layout):
        add_mamba2_settings(writer, layout)
        tensors = mamba2_tensors(layout)
    else:
        add_settings(writer, layout, kind)
        tensors = decoder_tensors(layout, FORMS[kind], context)
    add_tokenizer(writer, vocabulary, subject)
    add_tensors(writer, tensors, subject.precision)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return kind


def make_writer(path: Path, kind: str) -> Any:
    try:
        import gguf
    except ImportError:
        raise SettingError(INSTALL) from None
    return gguf.GGUFWriter(path, kind)


def add_settings(writer: Any, layout: DecoderLayout, kind: str) -> None:
    """Write the settings of a Transformer by llama.cpp's keys."""
    stack, block = layout.stack, layout.stack.blocks[0]
    attention = block.attention
    writer.add_embedding_length(stack.width)
    writer.add_block_count(len(stack.blocks))
    writer.add_feed_forward_length(len(block.feed.up.weight))
    writer.add_head_count(attention.heads)
    writer.add_head_count_kv(attention.kv_heads)
    writer.add_key_length(attention.head_width)
    writer.add_value_length(attention.value_width)
    add_eps = writer.add_layer_norm_rms_eps if block.attention_norm.kind == "rms" else writer.add_layer_norm_eps
    add_eps(block.attention_norm.eps)
    if attention.rotary is not None:
        writer.add_rope_dimension_count(attention.rotary.width)
        writer.add_rope_freq_base(attention.rotary.base)
    if kind == "gptneox":
        writer.add_parallel_residual(block.parallel)


def add_mamba_settings(writer: Any, layout: MambaLayout) -> None:
    block = layout.blocks[0]
    add_state_settings(writer, layout)
    writer.add_ssm_inner_size(len(block.conv))
    writer.add_ssm_conv_kernel(block.conv.shape[1])
    writer.add_ssm_state_size(block.log_rate.shape[1])
    writer.add_ssm_time_step_rank(len(block.step_in.weight))


def add_mamba2_settings(writer: Any, layout: Mamba2Layout) -> None:
    block = layout.blocks[0]
    add_state_settings(writer, layout)
    writer.add_ssm_inner_size(block.inner)
    writer.add_ssm_conv_kernel(block.conv.shape[1])
    writer.add_ssm_state_size(block.states)
    writer.add_ssm_time_step_rank(len(block.skip))                 # its word for the number of heads
    writer.add_ssm_group_count(block.groups)


def add_state_settings(writer: Any, layout: MambaLayout | Mamba2Layout) -> None:
    """Write what both kinds of state space have: feed-forward layers and attention of no width."""
    writer.add_embedding_length(layout.embedding.shape[1])
    writer.add_block_count(len(layout.blocks))
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(layout.norm.eps)


def add_tensors(writer: Any, tensors: Iterable[tuple[str, Tensor]], precision: str) -> None:
    """Write the tensors: matrices in the precision, everything else in float32."""
    import gguf

    for name, tensor in tensors:
        values = plain(tensor).numpy()
        chosen = gguf.GGMLQuantizationType[precision_of(name, values, precision).upper()]
        writer.add_tensor(name, gguf.quantize(values, chosen), raw_dtype=chosen)


def precision_of(name: str, values: NDArray[np.float32], precision: str) -> str:
    """Return the precision of one tensor: q8_0 needs rows of 32, 64, 96 ... numbers, and others become f16."""
    if values.ndim < 2 or not UNROUNDED.isdisjoint(name.split(".")):
        return "f32"
    return "f16" if precision == "q8_0" and values.shape[1] % 32 else precision


# ----------------------------------------------------------------------------------------------- the check


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    if subject.precision != "f32":
        return ROUNDED[subject.precision]
    measured = {**dict.fromkeys(("mamba", "mamba2"), BY_STATES),
                **dict.fromkeys(("gptneox", "starcoder2", "gpt2"), BY_GELU)}
    return measured.get(kind, EXACT)


def is_checkable() -> bool:
    """True if llama.cpp can be run here."""
    return find_spec("llama_cpp") is not None


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Open the file in llama.cpp."""
    import llama_cpp

    context = int(subject.layout.context or max(subject.trained.context, ROOM))           # type: ignore[union-attr]
    whole = llama_cpp.GGML_TYPE_F32                                            # keys and values: else in float16
    model = llama_cpp.Llama(str(path), n_ctx=context, n_batch=context, n_gpu_layers=0, n_threads=1, n_threads_batch=1,
                            type_k=whole, type_v=whole, flash_attn=False, logits_all=True, verbose=False)

    def read(tokens: Sequence[int]) -> NDArray[np.float32]:
        model.reset()
        model.eval(list(tokens))
        return np.array(model.scores[:len(tokens)])                           # (T, V)

    def log_probs(tokens: Sequence[int], source: Sequence[int] | None = None) -> NDArray[np.float32]:
        logits = read(tokens).astype(np.float64)
        return (logits - np.logaddexp.reduce(logits, -1, keepdims=True)).astype(np.float32)

    def greedy(tokens: Sequence[int], count: int, source: Sequence[int] | None = None) -> list[int]:
        written = [int(read(tokens)[-1].argmax())]
        while len(written) < count and written[-1] != subject.token("eos"):
            model.eval(written[-1:])
            written.append(int(model.scores[len(tokens) + len(written) - 1].argmax()))
        return written

    def encode(text: str) -> list[int]:
        return model.tokenize(text.encode(), add_bos=False, special=False)

    def decode(ids: list[int]) -> str:
        return model.detokenize(ids).decode(errors="replace")

    return OpenedExport("llama.cpp", f"by llama-cpp-python {llama_cpp.__version__}", log_probs, greedy, encode, decode,
                  close=model.close)
