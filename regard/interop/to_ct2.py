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
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import SettingError
from regard.interop.architectures import find_architecture
from regard.interop.ct2_spec import decoder_spec, translator_spec
from regard.interop.found_tokenizer import found_pieces, save_tokenizer
from regard.interop.layout import DecoderLayout, EncoderDecoderLayout
from regard.interop.target import EXACT, ExportSubject, OpenedExport, Tolerance
from regard.interop.target_ids import Counting

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
    sources, targets = pieces_of(subject)
    if isinstance(layout, EncoderDecoderLayout):
        spec = translator_spec(layout, places)
        spec.config.add_source_eos = True                      # a source is given without its end
        spec.config.decoder_start_token = targets[need(subject, "bos")]
        spec.register_source_vocabulary(sources)
        spec.register_target_vocabulary(targets)
    else:
        spec = decoder_spec(layout, places)
        spec.register_vocabulary(targets)
    for name, id in (("bos_token", need(subject, "bos")), ("eos_token", need(subject, "eos")),
                     ("unk_token", subject.token("unk"))):
        setattr(spec.config, name, targets[need(subject, "eos") if id is None else id])
    spec.validate()
    spec.optimize(quantization=subject.precision)
    storage.make_folder(path)
    spec.save(str(path))
    save_tokenizer(subject, path)
    return kind


def need(subject: ExportSubject, role: str) -> int:
    """Return the id of a special token that CTranslate2 cannot do without."""
    found = subject.token(role)
    if found is None:
        raise SettingError(f"--to ct2: the tokenizer that this model came with has no <{role}>, which CTranslate2 "
                           "needs; export with --to hf")
    return found


def is_installed() -> bool:
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def pieces_of(subject: ExportSubject) -> tuple[list[str], list[str]]:
    """Return the tokens of what is read and of what is written, in the order of CTranslate2's ids."""
    tokenizer = subject.tokenizer
    source = getattr(tokenizer, "source", tokenizer)
    return (names_of(source, subject.source_counting),
            names_of(getattr(tokenizer, "main", tokenizer), subject.counting))


def names_of(tokenizer: Tokenizer, counting: Counting) -> list[str]:
    """Return the tokens in the order of the target's ids, each as it stands in the tokenizer's file."""
    if counting.tokenizer is not None:
        return found_pieces(counting.tokenizer)
    values = tokenizer.to_dict()["model"]["vocab"]
    listed = isinstance(values, list)                          # of a unigram tokenizer: pieces with their scores
    pieces = [piece for piece, _ in values] if listed else sorted(values, key=values.__getitem__)
    return pieces + [f"<beyond {id}>" for id in range(len(pieces), counting.size)]


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
    _, pieces = pieces_of(subject)

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
    sources, targets = pieces_of(subject)
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
