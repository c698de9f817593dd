"""ARPA, the text format in which n-gram models are exchanged (SRILM, KenLM).

    \\data\\                     then for each order a section \\1-grams: ... of lines, and \\end\\ last
    ngram 1=15459               log10 p <tab> the words <tab> log10 of the back-off weight
    ngram 2=90000

-99 stands for a probability of zero. The three words every model has are called <s>, </s> and <unk>.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np
import torch

from regard.data.reading.unpacking import unpacked
from regard.errors import DataError, SettingError, StorageError
from regard.models.ngram.counting import BOS, EOS, UNK
from regard.models.ngram.model import BACKOFF, HIGHEST, NGram
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.room import Floats, Ints
from regard.models.ngram.saved import order_from_keys
from regard.storage import own_part

NAMES = {BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
ZERO = -99.0              # log10 of what is impossible
LONGEST_LINE = 1 << 16
AT_ONCE = 1 << 16         # lines formatted at a time

# --------------------------------------------------------------------------------------------- writing


def write_arpa(model: NGram, words: Sequence[str], path: Path | str) -> None:
    """Write the model, with words[id] for each id (those of the specials are not asked)."""
    if model.smoothing == "add-k":
        raise SettingError("smoothing add-k: an ARPA file holds back-off models only; train with kneser-ney")
    names = _names(words, model.vocab)
    path = Path(path)
    part = own_part(path)
    try:
        with gzip.open(part, "wb") if path.suffix == ".gz" else open(part, "wb") as file:
            file.writelines(text.encode() for text in _pieces(model, names))
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(f"could not write {path}: {error.strerror or error}") from error


def _names(words: Sequence[str], vocab: int) -> np.ndarray:
    if len(words) != vocab:
        raise DataError(f"{len(words)} words given for a vocabulary of {vocab}")
    names = [NAMES.get(id, word) for id, word in enumerate(words)]
    for word in names[EOS:]:
        if word.encode().split() != [word.encode()]:                    # in bytes, only ASCII spaces divide
            raise DataError(f"the word {word!r} cannot stand in an ARPA file: words are separated by spaces there")
    if len(set(names[BOS:])) < vocab - 1:
        raise DataError("two words of the vocabulary are spelt alike: an ARPA file cannot tell them apart")
    return np.array(names, dtype=object)


def _pieces(model: NGram, names: np.ndarray) -> Iterator[str]:
    yield "\\data\\\n"
    for k, order in enumerate(model.orders, start=1):
        yield f"ngram {k}={len(order) - (k == 1)}\n"                # <pad> is ours alone
    words = np.zeros((1, 0), np.int64)                                  # (N, k): the k-grams of the order
    for k, order in enumerate(model.orders, start=1):
        yield f"\n\\{k}-grams:\n"
        words = np.column_stack([np.repeat(words, order.first.sizes(), axis=0), order.words])
        for start in range(int(k == 1), len(words), AT_ONCE):
            yield _some_lines(order, names, words, slice(start, start + AT_ONCE))
    yield "\n\\end\\\n"


def _some_lines(order: OrderTable, names: np.ndarray, words: Ints, some: slice) -> str:
    spelt = map(" ".join, names[words[some]].tolist())
    probabilities = _log10(order.logprobs[some])
    if order.backoffs is None:
        return "".join([f"{p:.8g}\t{gram}\n" for p, gram in zip(probabilities, spelt, strict=True)])
    weights = _log10(order.backoffs[some])
    return "".join([f"{p:.8g}\t{gram}\t{b:.8g}\n" for p, gram, b in zip(probabilities, spelt, weights, strict=True)])


def _log10(logs: Floats) -> list[float]:
    return np.maximum(logs.astype(np.float64) / math.log(10), ZERO).tolist()


# --------------------------------------------------------------------------------------------- reading


def read_arpa(path: Path | str, dtype: torch.dtype = torch.float32) -> tuple[NGram, list[str]]:
    """The model in an ARPA file (or .gz), and its words by id; the file's are numbered from 4 as they come."""
    try:
        with open(path, "rb") as file:
            packed = Path(path).suffix == ".gz"
            return _Reader(unpacked(file, str(path)) if packed else file, str(path)).model(dtype)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"could not read {path} ({error}): fetch it again") from None


class Lines(Protocol):
    def readline(self, size: int, /) -> bytes: ...


class _Reader:
    """Reads line by line, believes nothing, and names the line where something is wrong."""

    def __init__(self, file: Lines, name: str) -> None:
        self.file, self.name, self.number = file, name, 0
        self.words = ["<pad>", *NAMES.values()]
        self.ids = {word.encode(): id for id, word in NAMES.items()}

    def model(self, dtype: torch.dtype) -> tuple[NGram, list[str]]:
        sizes = self._header()
        number = np.float64 if dtype == torch.float64 else np.float32
        orders: list[OrderTable] = []
        for k, size in enumerate(sizes, start=1):
            first = self.number
            grams, values, weights = self._section(k, size, last=k == len(sizes))
            if k == 1:
                grams, values, weights = self._unigrams(grams, values, weights)
            places = self._keys(grams, orders, first)
            order = np.argsort(places)
            if np.any(np.diff(places[order]) == 0):
                self._fail(f"one of the {k}-grams stands there twice")
            orders.append(order_from_keys(
                places[order], values[order].astype(number), None if k == len(sizes) else weights[order].astype(number),
                contexts=len(orders[-1]) if orders else 1, vocab=len(self.words)))
        self._expect("\\end\\")
        if len(self.file.readline(LONGEST_LINE)) == LONGEST_LINE or self.file.readline(LONGEST_LINE).strip():
            self._fail("text stands after \\end\\")          # and to its end a packed file must be read to be checked
        return NGram(orders, vocab=len(self.words), smoothing=BACKOFF, dtype=dtype), self.words

    def _header(self) -> list[int]:
        self._expect("\\data\\")
        sizes: list[int] = []
        while (line := self._line()).startswith(b"ngram "):
            order, _, size = line.removeprefix(b"ngram ").partition(b"=")
            if order.strip() != b"%d" % (len(sizes) + 1) or not size.strip().isdigit() or len(sizes) == HIGHEST:
                self._fail(f"expected `ngram {len(sizes) + 1}=COUNT`, with orders up to {HIGHEST}")
            sizes.append(int(size))
        if not sizes or line:
            self._fail("expected `ngram 1=COUNT` and so on, then an empty line")
        return sizes

    def _section(self, k: int, size: int, last: bool) -> tuple[Ints, Floats, Floats]:
        """The k-grams (N, k) of a section in the file's order, log p and log of the back-off weights."""
        self._expect(f"\\{k}-grams:")
        grams: list[int] = []
        values: list[float] = []
        weights: list[float] = []
        while line := self._line():
            fields = line.split()
            if len(values) == size or len(fields) not in ((k + 1,) if last else (k + 1, k + 2)):
                self._fail(f"expected {size} lines of a number, {k} words" + ("" if last else " and perhaps a number"))
            if k == 1 and fields[1] not in self.ids:
                self.ids[fields[1]] = len(self.words)
                self.words.append(fields[1].decode())
            values.append(self._number(fields[0]))
            weights.append(self._number(fields[-1]) if len(fields) == k + 2 else 0.0)
            try:
                grams += [self.ids[word] for word in fields[1:k + 1]]
            except KeyError as unknown:
                self._fail(f"the word {str(unknown)[1:]} is not among the 1-grams")
        if len(values) != size:
            self._fail(f"{size} {k}-grams were promised, and {len(values)} stand there")
        return np.array(grams, np.int64).reshape(-1, k), np.array(values), np.array(weights)

    def _unigrams(self, grams: Ints, values: Floats, weights: Floats) -> tuple[Ints, Floats, Floats]:
        """Every word of the vocabulary, impossible where the file does not have it."""
        missing = np.setdiff1d(np.arange(len(self.words)), grams)
        grams = np.concatenate([grams, missing[:, None]])
        values = np.concatenate([values, np.full(len(missing), -np.inf)])
        values[grams[:, 0] == BOS] = -np.inf                            # KenLM writes 0 there: it is never predicted
        return grams, values, np.concatenate([weights, np.zeros(len(missing))])

    def _keys(self, grams: Ints, orders: list[OrderTable], first: int) -> Ints:
        """The keys of the k-grams, whose beginnings and ends must be in the file as (k-1)-grams."""
        if not orders:
            return grams[:, 0]
        contexts = _ids(grams[:, :-1], orders)
        for wrong in np.flatnonzero((contexts < 0) | (_ids(grams[:, 1:], orders) < 0))[:1]:
            gram = " ".join(self.words[id] for id in grams[wrong])
            self.number = first + 2 + int(wrong)
            self._fail(f"`{gram}` stands there without the shorter n-grams it begins and ends with")
        return np.multiply(contexts, len(self.words), dtype=np.int64) + grams[:, -1]

    def _number(self, field: bytes) -> float:
        """The natural logarithm for a base-10 one."""
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if math.isnan(value) or value == math.inf:
            self._fail(f"{str(field[:40])[1:]} is not a logarithm")
        return value * math.log(10) if value > ZERO else -math.inf

    def _line(self) -> bytes:
        line = self.file.readline(LONGEST_LINE)
        self.number += 1
        if len(line) == LONGEST_LINE:
            self._fail(f"the line is longer than {LONGEST_LINE} bytes")
        return line.strip()

    def _expect(self, wanted: str) -> None:
        while not (line := self.file.readline(LONGEST_LINE)).strip() and line:
            self.number += 1
        self.number += 1
        if line.strip() != wanted.encode():
            self._fail(f"expected {wanted}")

    def _fail(self, what: str) -> NoReturn:
        raise DataError(f"{self.name}, line {self.number}: {what}")


def _ids(grams: Ints, orders: list[OrderTable]) -> Ints:
    """The ids of these k-grams (N, k), -1 for one that is not there."""
    ids = grams[:, 0]
    for order, words in zip(orders[1:], grams.T[1:], strict=True):
        ids = np.where(ids >= 0, order.find(np.maximum(ids, 0), words), -1)
    return ids
