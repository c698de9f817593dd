"""arpa: an n-gram as text, the format of SRILM and KenLM. Of a mixed run it is the n-gram beside the network.

Words are separated by spaces there, so that tokens which are or hold white space are spelled otherwise.
T tokens · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.tokens.foreign import ForeignTokenizer
from regard.data.tokens.vocabulary import FIRST, SPECIALS
from regard.errors import SettingError
from regard.interop.target import ExportSubject, OpenedExport, Tolerance
from regard.models.ngram import write_arpa

PICTURES = 0x2400              # of control characters and the space: ␠ for the space, ␊ for the end of a line
MOST = 4_000_000               # probabilities that KenLM is asked for, one by one
ROUNDED_TEXT = Tolerance(1e-4, "numbers have eight digits, and KenLM adds in float32")


def write(subject: ExportSubject, path: Path) -> str:
    """Write the n-gram; a run without one is a SettingError."""
    ngram = subject.network
    if not hasattr(ngram, "orders"):
        raise SettingError("--to arpa: this run has no n-gram; train one with --family ngram, or a network with --mix")
    write_arpa(ngram, spell_words(subject.tokenizer), path)
    return f"{len(ngram.orders)}-gram"


def spell_words(tokenizer: Any) -> list[str]:
    """Return each token as a word without white space, as tokenizer.json has it otherwise."""
    if tokenizer.kind == ForeignTokenizer.kind:
        names = (tokenizer.name(id) or f"<row_{tokenizer.order[id]}>" for id in range(FIRST, tokenizer.vocab_size))
        return picture_spaces([*SPECIALS, *names])
    vocab = tokenizer.to_dict()["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__) if isinstance(vocab, dict) else [token for token, _ in vocab]
    return picture_spaces(tokens)


def picture_spaces(tokens: Iterable[str]) -> list[str]:
    """Return the tokens with a picture for each ASCII white space; where that word is taken, with another behind it."""
    tokens = list(tokens)
    used = {token for token in tokens if not holds_space(token)}
    spelled = []
    for token in tokens:
        word = token
        if holds_space(token):
            word = "".join(chr(PICTURES + ord(each)) if holds_space(each) else each for each in token)
            while word in used:
                word += chr(PICTURES + ord(" "))
            used.add(word)
        spelled.append(word)
    return spelled


def holds_space(text: str) -> bool:
    return any(each in " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f" for each in text)


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return ROUNDED_TEXT


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Open the file with KenLM, which is asked for one word at a time."""
    import kenlm

    quietly = kenlm.Config()
    quietly.show_progress, quietly.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(path), quietly)
    words = spell_words(subject.tokenizer)
    t = subject.tokenizer
    words[t.bos], words[t.eos], words[t.unk] = "<s>", "</s>", "<unk>"

    def log_probs(tokens: Sequence[int], source: Sequence[int] | None) -> np.ndarray:
        state, after, rows = kenlm.State(), kenlm.State(), []
        model.BeginSentenceWrite(state)
        for number, token in enumerate(tokens):
            if number:
                moved = kenlm.State()
                model.BaseScore(state, words[token], moved)
                state = moved
            row = [model.BaseScore(state, word, after) * math.log(10) for word in words]
            row[t.pad] = row[t.bos] = -math.inf              # a beginning is never predicted, and <pad> is ours alone
            rows.append(row)
        log_probs = np.array(rows)
        return np.where(log_probs <= -99 * math.log(10), -np.inf, log_probs)

    return OpenedExport("KenLM", version_of("kenlm"), log_probs, most=MOST)


def version_of(package: str) -> str:
    from importlib.metadata import version

    return version(package)
