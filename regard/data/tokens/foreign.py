"""Tokenizers that other programs made: their own tokenizer.json, with ids counted as ours are.

Ids 0 to 3 are <pad> <bos> <eos> <unk> everywhere here. So the file's tokens in these roles come first, and all others
follow in the order they had. A role that no token has, or whose token has another role already, is a row of its own
behind which no token of the file stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.data.tokens.characters import ByteStream, byte_letters, readable
from regard.data.tokens.library import asked, open_library
from regard.data.tokens.vocabulary import FIRST, SPECIALS, UNK, Ids, StreamDecoder, Tokenizer, check_text
from regard.errors import DataError

FOREIGN = "regard"               # the part of the file that is ours
ADDED = -1                       # in the place of a token's id: a row that no token stands behind
LARGEST = 2**24                  # tokens: more are a slip
SPACE = "\u2581"                 # how SentencePiece writes one
LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)
UNFINISHED = "\ufffd"
LARGEST = 2**22                  # rows of an embedding: no vocabulary has a quarter of it


class ForeignTokenizer(Tokenizer):
    """A tokenizer.json as it was found, over `size` ids of its own; `specials` are those of our roles, in our order.

    A role that no token has may read as one: `alike` tells as which, by the file's id. The token that a masked model
    reads in a blank, `mask`, is no token of texts: it comes after all others. Marian counts its pieces otherwise than
    the model that cuts texts into them: `pieces` are its own, by id. `files` stood beside it, and are kept as they are.
    """

    kind = "foreign"

    def __init__(
        self, value: dict[str, Any], specials: Sequence[int], size: int, pieces: Sequence[str] = (), *,
        alike: Mapping[int, int] | None = None, mask: int | None = None, files: Mapping[str, str] | None = None,
    ):
        if not 0 < size <= LARGEST:
            raise ValueError(f"it has {size:,} rows, and a model at most {LARGEST:,}")
        self.value, self.size, self.pieces, self.mask = value, size, [str(piece) for piece in pieces], mask
        self.alike, self.files = dict(alike or {}), dict(files or {})
        if not all(isinstance(each, str) for each in (*self.files, *self.files.values())):
            raise ValueError("the files beside it are no texts")
        self._id_of = {piece: id for id, piece in enumerate(self.pieces)}
        self.order = permuted(specials, size, mask)            # of each of our ids, the file's, or ADDED
        self.vocab_size = len(self.order)
        self._library: Any = open_library(value)               # <s> in a text is three characters
        ids = self._id_of if self.pieces else self._library.get_vocab()
        beyond = {token: id for token, id in ids.items() if id >= size and token != value["model"].get("unk_token")}
        if beyond:
            raise DataError(f"the tokenizer has a token {max(beyond.values()):,} and the model only {size:,} rows: "
                            "they are of different models")
        known = self.order != ADDED
        self._ours = np.full(max(size, 1 + max(ids.values(), default=0)), UNK, np.int32)
        self._ours[self.order[known]] = np.arange(self.vocab_size, dtype=np.int32)[known]
        self.missing = {n: int(self._ours[self.alike[n]]) if n in self.alike else n
                        for n in range(FIRST) if self.order[n] == ADDED}
        spelled = np.isin(self.order[FIRST:], np.fromiter(ids.values(), np.int64, len(ids)))
        self.unspelled = tuple((FIRST + np.flatnonzero(~spelled)).tolist())
        self._bytes: list[bytes] = []                          # of each token, if tokens are strings of bytes
        if '"ByteLevel"' in json.dumps(value.get("decoder")):
            special = {id for id, token in self._library.get_added_tokens_decoder().items() if token.special}
            names = [None if id in special else self._library.id_to_token(id) for id in self.order[FIRST:].tolist()]
            self._bytes = [b"" if name is None else bytes_of(name) for name in names]
        self.lossless = set(self._bytes) >= {bytes([each]) for each in range(256)} and keeps_every_byte(value)

    @property
    def added(self) -> int:
        """The number of rows that no token of the file stands behind."""
        return int((self.order == ADDED).sum())

    @property
    def rows(self) -> np.ndarray:
        """The file's id of each row of the model, or ADDED: those of texts, and that of a blank where there is one."""
        return self.order if self.mask is None else np.append(self.order, self.mask)

    # ----------------------------------------------------------------------------------- text to ids

    def encode(self, text: str) -> Ids:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        checked = [check_text(text) for text in texts]
        if self.pieces:
            return [self._ours[self._ids_of_pieces(text)] for text in checked]
        found = asked(lambda: self._library.encode_batch_fast(checked, add_special_tokens=False))
        return [self._ours[np.asarray(each.ids, np.int64)] for each in found]

    def _ids_of_pieces(self, text: str) -> np.ndarray:
        """The file's ids; a first `>>fr<<`, by which a translator is told its target, is one token."""
        code = LANGUAGE.match(text)
        rest = text[code.end():] if code else text
        found = asked(lambda: self._library.encode(rest, add_special_tokens=False)).tokens
        found = [] if found == [SPACE] else found              # a blank text has no pieces
        unknown = int(self.order[UNK])
        ids = [self._id_of.get(piece, unknown) for piece in (*([code.group()] if code else ()), *found)]
        return np.asarray(ids, np.int64)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The bytes of the text that each of its tokens stands for; tokens of one character share its bytes."""
        ends = np.cumsum([0, *(len(character.encode()) for character in text)])
        offsets = asked(lambda: self._library.encode(check_text(text), add_special_tokens=False)).offsets
        return [(int(ends[first]), int(ends[last])) for first, last in offsets]

    # ----------------------------------------------------------------------------------- ids to text

    def decode(self, ids: Iterable[int]) -> str:
        if self._bytes:
            return b"".join([self._bytes[int(id) - FIRST] for id in ids if id >= FIRST]).decode(errors="replace")
        foreign = self.order[np.asarray([int(id) for id in ids if id >= FIRST], np.int64)]
        if self.pieces:
            return "".join([self.pieces[id] for id in foreign]).replace(SPACE, " ").lstrip(" ")
        return asked(lambda: str(self._library.decode(foreign.tolist(), skip_special_tokens=True)))

    def token(self, id: int) -> str:
        if id < FIRST:
            return SPECIALS[id]
        name = self.name(id)
        if name is None:
            return f"<{self.order[id]}>"
        return readable(bytes_of(name)) if self._bytes else str(name).replace(SPACE, " ")

    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        if self.pieces:
            return PieceStream(self, after)
        return ByteStream(self._bytes, after) if self._bytes else ForeignStream(self, after)

    def name(self, id: int) -> str | None:
        """The token as its file writes it; None for one of our roles, and for a row beyond the tokenizer's own."""
        if id < FIRST:
            return None
        if self.pieces:
            return self.pieces[self.order[id]]
        found: str | None = self._library.id_to_token(int(self.order[id]))
        return found

    @property
    def is_byte_level(self) -> bool:
        """True if tokens are strings of bytes that were merged."""
        return bool(self._bytes) and self.value["model"].get("type") == "BPE"

    def around(self) -> tuple[list[int], list[int]]:
        """The ids that the file sets before a text and behind it, as it counts them."""
        found, inner = (self._library.encode("a", add_special_tokens=add).ids for add in (True, False))
        first = next((n for n in range(len(found)) if found[n:n + len(inner)] == inner), 0)
        return found[:first], found[first + len(inner):]

    def file_names(self) -> list[str | None]:
        """Every token as the file writes it, by the file's ids; None for a row beyond the tokenizer's own."""
        if self.pieces:
            return list(self.pieces)
        return [self._library.id_to_token(id) for id in range(self.size)]

    # -------------------------------------------------------------------------------------- its file

    def to_dict(self) -> dict[str, Any]:
        ours: dict[str, Any] = {"specials": self.order[:FIRST].tolist(), "size": self.size}
        more = {"pieces": self.pieces, "alike": {str(n): id for n, id in self.alike.items()}, "files": self.files}
        ours |= {name: part for name, part in more.items() if part}
        return {FOREIGN: {**ours, **({} if self.mask is None else {"mask": self.mask})}, **self.value}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> ForeignTokenizer:
        ours = value[FOREIGN]
        rest = {name: part for name, part in value.items() if name != FOREIGN}
        alike = {int(n): id for n, id in ours.get("alike", {}).items()}
        return ForeignTokenizer(rest, ours["specials"], ours["size"], ours.get("pieces", ()), alike=alike,
                                mask=ours.get("mask"), files=ours.get("files"))


BYTES = {letter: value for value, letter in enumerate(byte_letters())}


def keeps_every_byte(value: Mapping[str, Any]) -> bool:
    """Return whether the text comes back exactly from tokens that are strings of bytes: nothing rewrites it before they
    are chosen, and every cut keeps both sides."""
    cuts, left = [], [value.get("pre_tokenizer")]
    while left:
        cut = left.pop() or {}
        left += cut.get("pretokenizers") or ()
        cuts.append((cut.get("type"), cut))
    model, decoder = value["model"], value.get("decoder") or {}
    return (value.get("normalizer") is None and model.get("type") == "BPE" and not model.get("dropout")
            and decoder.get("type") == "ByteLevel"
            and [kind for kind, _ in cuts].count("ByteLevel") == 1
            and all(KEEPING.get(str(kind), lambda cut: False)(cut) for kind, cut in cuts))


# How text may be cut without losing any of it: by these, if this holds of their settings.
KEEPING: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "Sequence": lambda cut: True, "Digits": lambda cut: True, "UnicodeScripts": lambda cut: True,
    "ByteLevel": lambda cut: not cut.get("add_prefix_space", True),
    "Split": lambda cut: cut.get("behavior") != "Removed", "Punctuation": lambda cut: cut.get("behavior") != "Removed"}


def bytes_of(name: str) -> bytes:
    """The bytes whose letters a byte-level token is written in; of one that is added as text, this text."""
    return bytes(BYTES[letter] for letter in name) if all(letter in BYTES for letter in name) else name.encode()


def permuted(specials: Sequence[int], size: int, mask: int | None = None) -> np.ndarray:
    """(V,): the file's id of each of ours, the specials first; ADDED where there is none. The mask is left out."""
    taken = [id for id in (*specials, *([] if mask is None else [mask])) if id != ADDED]
    if not 0 < size <= LARGEST:
        raise ValueError(f"it counts {size} tokens")
    if len(specials) != FIRST or len(set(taken)) < len(taken) or any(not 0 <= id < size for id in taken):
        raise ValueError(f"its special tokens {taken} are not different ones below {size}")
    return np.concatenate([np.asarray(specials, np.int64), np.setdiff1d(np.arange(size), taken)])


class PieceStream(StreamDecoder):
    """Lets out each piece as it comes; spaces before the first word are none."""

    def __init__(self, tokenizer: ForeignTokenizer, after: Iterable[int] = ()):
        self.tokenizer, self.began = tokenizer, False
        for id in after:
            self.push(int(id))

    def push(self, id: int) -> str:
        text = (self.tokenizer.name(id) or "").replace(SPACE, " ")
        text = text if self.began else text.lstrip(" ")
        self.began = self.began or bool(text)
        return text


class ForeignStream(StreamDecoder):
    """Decodes the last few ids again with each new one, and lets out what that adds, once nothing can change it.

    A run of byte tokens is text as a whole or not at all, so that it waits for the token after it.
    """

    def __init__(self, tokenizer: ForeignTokenizer, after: Iterable[int] = ()):
        self.tokenizer = tokenizer
        self.ids: list[int] = []                               # those before what was let out last, and all since
        self.read = 0                                          # how many of them were let out
        for id in after:
            self.push(int(id))
        self.read = len(self.ids)

    def push(self, id: int) -> str:
        name = self.tokenizer.name(id)
        if name is None:
            return ""
        self.ids.append(id)
        text = self.flush()
        if text.endswith(UNFINISHED) or (len(name) == 6 and name.startswith("<0x")):
            return ""
        self.ids, self.read = self.ids[self.read:], len(self.ids) - self.read
        return text

    def flush(self) -> str:
        before, now = self.tokenizer.decode(self.ids[:self.read]), self.tokenizer.decode(self.ids)
        while not now.startswith(before):                      # what ended unfinished is another character now
            before = before[:-1]
        return now[len(before):]
