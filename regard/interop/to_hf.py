"""hf: a folder that transformers opens, with tokenizer, generation settings and a model card, and without code.

transformers is needed for the check alone: weights are safetensors, the rest is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import storage
from regard.interop.architectures import find_architecture
from regard.interop.found_tokenizer import write_found
from regard.interop.hf_decoders import DECODERS
from regard.interop.hf_states import STATES
from regard.interop.hf_tokenizer import tokenizer_files
from regard.interop.hf_translators import TRANSLATORS
from regard.interop.layout import Layout
from regard.interop.model_card import write_card
from regard.interop.target import EXACT, ROUNDED, ExportSubject, OpenedExport, Tolerance, plain, precision_dtype

Converted = tuple[dict[str, Any], dict[str, Tensor]]           # config.json, and the tensors by transformers' names
BOUNDED = ("GPT2LMHeadModel", "MptForCausalLM")               # no position behind the last is one that they can read
WRITERS: dict[str, Callable[[Layout, int], Converted]] = {**DECODERS, **STATES, **TRANSLATORS}


def write(subject: ExportSubject, path: Path) -> str:
    """Write the folder and return the class that opens it."""
    layout = subject.layout
    name = find_architecture("hf", layout).name
    config, tensors = WRITERS[name](layout, subject.trained.context)
    vocab = config["vocab_size"]
    storage.make_folder(path)
    config = {"architectures": [name], **config, "dtype": subject.precision, **special_ids(subject)}
    write_values(path / "config.json", config)
    if subject.writes_on:
        write_values(path / "generation_config.json", generation_settings(subject, name))
    if subject.found is not None:
        write_found(subject.found, path, subject.trained.context)
    else:
        for file, values in tokenizer_files(subject, vocab).items():
            write_values(path / file, values)
    save_weights(path / "model.safetensors", tensors, subject.precision)
    storage.write_part(path / "README.md", write_card(subject, name))
    return name


def write_values(path: Path, values: Any) -> None:
    storage.make_folder(path.parent)
    storage.write_part(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def save_weights(path: Path, tensors: dict[str, Tensor], precision: str) -> None:
    """Write the tensors; each has memory of its own there."""
    from safetensors.torch import save

    dtype = precision_dtype(precision)
    storage.write_part(path, save({name: plain(tensor, dtype) for name, tensor in tensors.items()}, {"format": "pt"}))


def special_ids(subject: ExportSubject) -> dict[str, Any]:
    """Return the ids that config.json names; a masked model's <mask> is the last of its vocabulary."""
    ids = {f"{role}_token_id": subject.token(role) for role in ("bos", "eos", "pad")}
    if not subject.writes_on:
        return {**ids, "mask_token_id": subject.counting.of(subject.network.mask)}
    if getattr(subject.network, "needs_source", False):
        return {**ids, "decoder_start_token_id": ids["bos_token_id"]}
    return ids


def generation_settings(subject: ExportSubject, name: str) -> dict[str, Any]:
    """Return how `regard generate` and `regard translate` write: tokens that they never write are suppressed. A class
    that fails behind its last position ends there."""
    missing = subject.tokenizer.missing
    banned = subject.counting.theirs([id for id in subject.trained.special_tokens.banned if id not in missing])
    settings = {**special_ids(subject), "suppress_tokens": sorted(banned)}
    if not getattr(subject.network, "needs_source", False):
        most = {"max_length": subject.trained.context} if name in BOUNDED else {"max_new_tokens": 256}
        return {**settings, "do_sample": True, "top_k": 0, **most}
    return {**settings, "num_beams": 5, "length_penalty": 1.0, "early_stopping": True,
            "max_length": subject.trained.context}


@contextmanager
def quiet(logging: Any) -> Iterator[None]:
    """Keep transformers' bars and reminders out of the command's output."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return EXACT if subject.precision == "float32" else ROUNDED


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Open the folder as its users will, by the Auto classes."""
    import transformers

    kind = "CausalLM" if subject.writes_on else "MaskedLM"
    if getattr(subject.network, "needs_source", False):
        kind = "Seq2SeqLM"
    with quiet(transformers.utils.logging):
        model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(path, dtype=torch.float32).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    begin, pad = subject.token("bos"), subject.token("pad")
    plainly = transformers.GenerationConfig(
        do_sample=False, num_beams=1, eos_token_id=subject.token("eos"), pad_token_id=begin if pad is None else pad,
        bos_token_id=begin, decoder_start_token_id=begin)
    model.generation_config = plainly                      # what is not set would be taken from the folder's

    def read(tokens: Sequence[int], source: Sequence[int] | None) -> dict[str, Tensor]:
        if source is None:
            return {"input_ids": torch.tensor([list(tokens)])}
        return {"input_ids": torch.tensor([list(source)]), "decoder_input_ids": torch.tensor([list(tokens)])}

    @torch.no_grad()
    def log_probs(tokens: Sequence[int], source: Sequence[int] | None) -> Tensor:
        with quiet(transformers.utils.logging):
            return model(**read(tokens, source)).logits[0].float().log_softmax(-1)

    @torch.no_grad()
    def greedy(tokens: Sequence[int], count: int, source: Sequence[int] | None) -> list[int]:
        given = read(tokens, source)
        real = torch.ones_like(given["input_ids"])
        with quiet(transformers.utils.logging):
            written = model.generate(**given, attention_mask=real, max_new_tokens=count)[0].tolist()
        return written[len(tokens):]

    def encode(text: str) -> list[int]:
        with quiet(transformers.utils.logging):            # it warns of texts longer than the context
            return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    return OpenedExport(
        "transformers", transformers.__version__, log_probs, greedy if subject.writes_on else None, encode,
        decode=lambda tokens: str(tokenizer.decode(tokens)))
