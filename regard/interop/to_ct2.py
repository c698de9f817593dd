"""CTranslate2: a folder with a translator or a language model for a quick engine in C++, in 32, 16 or 8 bits.

The folder has CTranslate2's files, and our tokenizers beside them, which it does not read: whoever uses it cuts texts
into pieces first. A source is given without its end, which CTranslate2 adds.
T tokens · V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.data.tokens.vocabulary import BOS, EOS, SPECIALS, UNK, Tokenizer, TokenizerPair
from regard.errors import SettingError
from regard.interop.architectures import find_architecture
from regard.interop.ct2_spec import decoder_spec, translator_spec
from regard.interop.layout import DecoderLayout, EncoderDecoderLayout
from regard.interop.target import EXACT, ExportSubject, OpenedExport, Tolerance

INSTALL = "CTranslate2 is not installed: pip install 'regard[ct2]'"
ROUNDED = {"float16": Tolerance(0.25, "weights in float16"),
           "int8": Tolerance(5.0, "weights in 8 bits", same_choices=False)}


def write(subject: ExportSubject, path: Path) -> str:
    """Write the folder; return the name of CTranslate2's specification."""
    layout = subject.layout
    kind = find_architecture("ct2", layout).name
    if not is_installed():
        raise SettingError(f"--to ct2: {INSTALL}")
    assert isinstance(layout, DecoderLayout | EncoderDecoderLayout), "the table names no other"
    places = int(layout.context or subject.trained.context)
    if isinstance(layout, EncoderDecoderLayout):
        spec = translator_spec(layout, places)
        add_pair(spec, subject.tokenizer, subject.network.vocab)
    else:
        spec = decoder_spec(layout, places)
        spec.register_vocabulary(pieces_of(subject.tokenizer, subject.network.vocab))
    for name, id in (("bos_token", BOS), ("eos_token", EOS), ("unk_token", UNK)):
        setattr(spec.config, name, SPECIALS[id])
    spec.validate()
    spec.optimize(quantization=subject.precision)
    storage.make_folder(path)
    spec.save(str(path))
    subject.tokenizer.save(path)
    return kind


def is_installed() -> bool:
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def add_pair(spec: Any, pair: TokenizerPair, vocab: int) -> None:
    """Register the vocabularies of both sides; targets begin with <bos>, sources end with <eos>."""
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(pieces_of(pair.source, pair.source.vocab_size))
    spec.register_target_vocabulary(pieces_of(pair.target, vocab))


def pieces_of(tokenizer: Tokenizer, vocab: int) -> list[str]:
    """Return the tokens in the order of their ids, each as it stands in tokenizer.json."""
    values = tokenizer.to_dict()["model"]["vocab"]
    listed = isinstance(values, list)                          # of a unigram tokenizer: pieces with their scores
    pieces = [piece for piece, _ in values] if listed else sorted(values, key=values.__getitem__)
    return pieces + [f"<beyond {id}>" for id in range(len(pieces), vocab)]


# ----------------------------------------------------------------------------------------------- the check


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return ROUNDED.get(subject.precision, EXACT)


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Open the folder in CTranslate2, on the CPU."""
    import ctranslate2

    if isinstance(subject.layout, EncoderDecoderLayout):
        return open_translator(ctranslate2, subject, path)
    return open_generator(ctranslate2, subject, path)


def compute_type(precision: str) -> str:
    """Return how to compute on a CPU, which has no quick float16."""
    return "float32" if precision == "float16" else "default"


def open_generator(ctranslate2: Any, subject: ExportSubject, path: Path) -> OpenedExport:
    model = ctranslate2.Generator(str(path), device="cpu", compute_type=compute_type(subject.precision))
    pieces = pieces_of(subject.tokenizer, subject.network.vocab)

    def log_probs(tokens: Sequence[int], source: Sequence[int] | None = None) -> NDArray[np.float32]:
        return np.array(model.forward_batch([list(tokens)], return_log_probs=True))[0]

    def greedy(tokens: Sequence[int], count: int, source: Sequence[int] | None = None) -> list[int]:
        (result,) = model.generate_batch(
            [[pieces[id] for id in tokens]], beam_size=1, max_length=count, min_length=0, return_end_token=True,
            include_prompt_in_result=False)
        return list(result.sequences_ids[0])

    return OpenedExport("CTranslate2", ctranslate2.__version__, log_probs, greedy)


def open_translator(ctranslate2: Any, subject: ExportSubject, path: Path) -> OpenedExport:
    model = ctranslate2.Translator(str(path), device="cpu", compute_type=compute_type(subject.precision))
    sources = pieces_of(subject.tokenizer.source, subject.tokenizer.source.vocab_size)
    targets = pieces_of(subject.tokenizer.target, subject.network.vocab)
    number = {piece: id for id, piece in enumerate(targets)}

    def run(source: Sequence[int] | None, before: Sequence[int], count: int) -> Any:
        """Write so many tokens behind those before, <bos> left out of these."""
        assert source is not None, "a translator reads a source"
        (result,) = model.translate_batch(
            [[sources[id] for id in source[:-1]]], target_prefix=[[targets[id] for id in before]], beam_size=1,
            max_input_length=0, max_decoding_length=len(before) + count, min_decoding_length=0, return_end_token=True,
            return_logits_vocab=True)
        return result

    def log_probs(tokens: Sequence[int], source: Sequence[int] | None = None) -> NDArray[np.float32]:
        logits = np.array([np.array(row) for row in run(source, tokens[1:], 1).logits[0]]).astype(np.float64)
        return (logits - np.logaddexp.reduce(logits, -1, keepdims=True)).astype(np.float32)

    def greedy(tokens: Sequence[int], count: int, source: Sequence[int] | None = None) -> list[int]:
        return [number[piece] for piece in run(source, tokens[1:], count).hypotheses[0]][len(tokens) - 1:]

    return OpenedExport("CTranslate2", ctranslate2.__version__, log_probs, greedy)
