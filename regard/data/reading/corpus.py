"""A corpus: from the names of some files to token shards, a tokenizer and a split, ready to train on.

Three streaming passes, each cached by content. The survey validates everything and counts it; the tokenizer
learns from the training part alone, so that nothing leaks from what is held out; then both parts are encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache as remember
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import embedded
from regard.data.reading.in_segments import Stretch, count_segments, encode_segments, is_large, stretches_of
from regard.data.reading.readers import ReadSettings, TextFile, find_sources, read, refuse_empty
from regard.data.reading.records import find_column
from regard.data.reading.shards import Counts, Shard, group_by_size, write_shard
from regard.data.reading.split import WHOLE, CorpusParts, TextSpan, first_share, split_parts, take
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, content_hash, key_of
from regard.data.tokens.characters import CODES, code_points
from regard.data.tokens.tokenizers import check_kind, choose_tokenizer, default_vocab, train_tokenizer
from regard.data.tokens.vocabulary import Tokenizer
from regard.data.workers import keep_workers
from regard.errors import SettingError

Say = Callable[[str], None]

VERSION = 1                                          # of everything cached: raise it when reading changes
SAMPLE = {"bpe": 2**25, "unigram": 2**22}            # characters subwords are learned from, evenly spaced
JOINED = 2**20                                       # characters handed to a trainer at once


@dataclass(frozen=True)
class DataSettings:
    """The [data] table: which files, what to hold out, and how to read them."""

    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    valid_share: float = 0.1
    documents: str = "auto"
    on_bad_text: str = "fail"
    field: str = "text"
    content: str = ""                # a hash of the text, filled in by training: resuming with another text is refused
    test: tuple[str, ...] = ()       # files that training never reads: a trained model is measured on them
    train_share: float = 1.0         # of the training part, its beginning: what is learned from; the tokenizer sees all
    halve: bool = False              # without such files, hold out two halves: one chooses, the other is measured

    def columns(self, names: list[str], where: str) -> list[str]:
        """Return the column with the text; without it, a DataError that lists those there are."""
        return [find_column(names, self.field, where)]


@dataclass(frozen=True)
class TokenizerSettings:
    """The [tokenizer] table: its kind and size; auto and 0 are chosen from the data."""

    kind: str = "auto"
    vocab: int = 0


class PreparedCorpus:
    """Answers of a corpus that is ready for training, whatever its parts are."""

    valid: Any
    tokenizer: Any
    content: str                     # a hash of all that was read
    test: Callable[[], Any] | None = None          # a part that training never reads, where there is one

    def resolved(self, data: Any) -> Any:
        """The [data] table with what was chosen and found."""
        return replace(data, content=self.content)

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        return TokenizerSettings(self.tokenizer.kind, self.tokenizer.vocab_size)

    def test_counts(self) -> Counts | None:
        """The counts of the test part, where there is one."""
        return self.test().counts if self.test else None

    @property
    def judged(self) -> Any:
        """The part that a trained model is measured on: test, or else valid."""
        return self.test() if self.test else self.valid


@dataclass
class Corpus(PreparedCorpus):
    """A text, ready for training, and how it was read."""

    train: Shard
    valid: Shard
    tokenizer: Tokenizer
    documents: str
    tally: Tally
    content: str = ""                # a hash of all the text
    test: Callable[[], Shard] | None = None        # a part that training never reads, where there is one
    measured_on: str = ""                          # what that is: "test", or "half" of what was held out

    def resolved(self, data: DataSettings) -> DataSettings:
        return replace(super().resolved(data), documents=self.documents)


@dataclass(frozen=True)
class Survey:
    """The counts of a first reading: characters, documents, distinct characters."""

    sources: list[TextFile]
    content: str
    characters: int
    documents: int
    distinct: int
    tally: Tally


def prepare(
    data: DataSettings, tokenizer: TokenizerSettings | Tokenizer, cache: Path | None = None, say: Say = print
) -> Corpus:
    """Read, split, learn a tokenizer where none is given, and encode; what was done before is reused."""
    store = Cache(cache, say)
    built_in = embedded.known(data.files)
    kind = _kind(tokenizer, built_in)
    settings = ReadSettings(_documents(data.documents, kind, built_in), data.on_bad_text, data.field)
    settings.check()
    parts = divide(data, settings, store, say)
    survey, part = parts.train, parts.train_part
    if not isinstance(tokenizer, Tokenizer):
        learned = Learned(lambda: (piece.text for piece in take(read(survey.sources, settings), part)),
                          int(survey.characters * _share(part, survey)), survey.distinct,
                          key_of(VERSION, survey.content, asdict(settings), asdict(part)),
                          partial(known_stretches, survey, settings, part, store, say)
                          if is_large(survey.sources) else None)
        tokenizer = learn_tokenizer(learned, kind, tokenizer.vocab, store, say)
    encode = partial(encode_part, settings=settings, tokenizer=tokenizer, store=store, say=say)
    learned_part = first_share(part, survey.characters, survey.documents, settings.documents, data.train_share)
    train = encode(survey.sources, survey.content, part=learned_part, name="train")
    valid = encode(parts.valid.sources, parts.valid.content, part=parts.valid_part, name="valid")
    tested = [content_hash(_sources(data.test, "test", store))] if data.test else []
    corpus = Corpus(train, valid, tokenizer, settings.documents, parts.tally,
                    key_of(survey.content, parts.valid.content, *tested), measured_on=parts.measured_on)
    if (find := parts.test) is not None:
        def encode_test() -> Shard:
            tested, part = find()
            return encode(tested.sources, tested.content, part=part, name="test")

        corpus.test = remember(keep_workers(encode_test))
    return corpus


def divide(data: DataSettings, settings: ReadSettings, store: Cache, say: Say) -> CorpusParts[Survey]:
    """Read the text once, and return which part of it is for what."""

    def read_part(data: DataSettings, part: str) -> Survey:
        files = data.files if part == "train" or not data.valid else data.valid
        return survey_of(_sources(files, part, store), settings, store, say)

    return split_parts(data, embedded.known(data.files) is not None, settings.documents, read_part,
                       lambda survey: (survey.characters, survey.documents))


def find_parts(data: DataSettings, cache: Path | None = None) -> dict[str, Callable[[], Iterator[str]]]:
    """The texts of train, valid and, where there is one, test, as `prepare` divides them; each may be read again."""
    store, built_in = Cache(cache, lambda text: None), embedded.known(data.files)
    settings = ReadSettings(_documents(data.documents, "auto", built_in), data.on_bad_text, data.field)
    settings.check()
    text = divide(data, settings, store, lambda line: None)
    parts = {"train": (text.train, text.train_part), "valid": (text.valid, text.valid_part)}
    if text.test is not None:
        parts["test"] = text.test()
    return {name: partial(_texts_of, *each, settings) for name, each in parts.items()}


def _texts_of(survey: Survey, span: TextSpan, settings: ReadSettings) -> Iterator[str]:
    for piece in take(read(survey.sources, settings), span):
        yield piece.text + ("\n" if piece.ends else "")


def encode_files(
    files: Sequence[str], tokenizer: Tokenizer, settings: ReadSettings | None = None,
    cache: Path | None = None, say: Say = print, part: str | None = None,
) -> Shard:
    """The whole of some files as one shard; of an embedded corpus a part, `test` unless told."""
    if part:
        refuse_files(part, files)
    store = Cache(cache, say)
    built_in = embedded.known(files)
    given = settings or ReadSettings()
    resolved = ReadSettings(_documents(given.documents, tokenizer.kind, built_in), given.on_bad_text, given.field)
    survey = survey_of(_sources(files, part or "test", store), resolved, store, say)
    return encode_part(survey.sources, survey.content, resolved, WHOLE, tokenizer, store, say, "text")


def refuse_files(part: str, files: Sequence[str]) -> None:
    """Only embedded corpora have parts."""
    for name in files:
        if name not in embedded.every() or Path(name).exists():
            raise SettingError(f"--part {part} is of an embedded corpus, and {name} is a file: leave it out")


def read_documents(files: Sequence[str], settings: ReadSettings, cache: Path | None = None) -> Iterator[str]:
    """The text of each document of some files, whole: for what works on one after another and not on a corpus."""
    held: list[str] = []
    for piece in read(_sources(files, "valid", Cache(cache)), settings):
        held.append(piece.text)
        if piece.ends:
            yield "".join(held)
            held = []


def _kind(tokenizer: TokenizerSettings | Tokenizer, built_in: embedded.Embedded | None) -> str:
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.kind
    kind = built_in.tokenizer if built_in and tokenizer.kind == "auto" else tokenizer.kind
    if kind != "auto":
        check_kind(kind, tokenizer.vocab or None)
    return kind


def _documents(given: str, kind: str, built_in: embedded.Embedded | None) -> str:
    """Auto: a line is a document where words are modelled, as is their custom; else a file is."""
    if given != "auto":
        return given
    return "line" if built_in or kind in ("whitespace", "word") else "file"


def _sources(files: Sequence[str], part: str, store: Cache) -> list[TextFile]:
    return find_sources([path for name in files for path in (
        embedded.write(name, part, store.folder / "embedded", store.say) if embedded.known([name]) else [name])])


def survey_of(
    sources: list[TextFile], settings: ReadSettings, store: Cache, say: Say, content: str | None = None
) -> Survey:
    """The counts of a text, and its content hash, unless that is known already."""
    content = content_hash(sources) if content is None else content
    key = key_of(VERSION, content, asdict(settings))

    def make() -> dict[str, Any]:
        if is_large(sources):
            found = count_segments(sources, settings, key, store, say).survey
            refuse_empty(sources, Tally.from_dict(found["tally"]))
            return found
        tally = Tally()
        characters, seen = 0, np.zeros(CODES, dtype=bool)
        for text in _joined(piece.text for piece in read(sources, settings, tally)):
            characters += len(text)
            seen[code_points(text)] = True
        return {"characters": characters, "distinct": int(seen.sum()), "tally": tally.to_dict()}

    found, _ = store.json("surveys", key, make)
    tally = Tally.from_dict(found["tally"])
    say(tally.line())
    return Survey(sources, content, found["characters"], tally.documents, found["distinct"], tally)


def known_stretches(
    survey: Survey, settings: ReadSettings, part: TextSpan, store: Cache, say: Say
) -> Iterable[Stretch]:
    """The segments of a part of a large text."""
    key = key_of(VERSION, survey.content, asdict(settings))
    return stretches_of(survey.sources, settings, part, count_segments(survey.sources, settings, key, store, say))


@dataclass(frozen=True)
class Learned:
    """The text that a tokenizer learns from, as often as it is asked for; how much it is, and a key of it."""

    texts: Callable[[], Iterator[str]]
    characters: int
    distinct: int
    key: str
    stretches: Callable[[], Iterable[Stretch]] | None = None         # the text in parts, where these are known


def learn_tokenizer(text: Learned, kind: str, vocab: int, store: Cache, say: Say) -> Tokenizer:
    """A tokenizer from the training part."""
    size: int | None = vocab or None
    if kind == "auto":
        kind, chosen = choose_tokenizer(text.characters, text.distinct)
        size = size or chosen
    if kind in SAMPLE:
        size = size or default_vocab(text.characters)
    check_kind(kind, size)

    def make() -> Tokenizer:
        if kind in SAMPLE:
            stretches = text.stretches() if text.stretches is not None else [(None, text.texts)]
            return train_tokenizer(kind, sample_stretches(stretches, text.characters, SAMPLE[kind]), size)
        # Words must not grow together where documents meet; characters are counted as they come.
        return train_tokenizer(kind, _joined(text.texts(), "\n" if kind in ("whitespace", "word") else ""), size)

    tokenizer, reused = store.tokenizer(key_of(text.key, kind, size), make)
    say(f"tokenizer {tokenizer.kind}: {tokenizer.vocab_size:,} tokens, "
        + ("reused from the cache" if reused else "learned from the training part"))
    return tokenizer


def _share(part: TextSpan, survey: Survey) -> float:
    whole = survey.characters if part.unit == "characters" else survey.documents
    return 1.0 if part.stop is None else part.stop / whole


def sample(texts: Iterator[str], total: int, limit: int) -> Iterator[str]:
    """All of the texts, or, when they are long, evenly spaced ones of about `limit` characters in all."""
    return sample_stretches([(None, lambda: texts)], total, limit)


def sample_stretches(stretches: Iterable[Stretch], total: int, limit: int) -> Iterator[str]:
    """A sample of texts that lie in stretches: one of which nothing would be taken is not read."""
    seen = taken = 0
    for size, texts in stretches:
        if size is not None and total > limit and taken * total > (seen + size) * limit:
            seen += size
            continue
        for text in texts():
            if total <= limit or taken * total <= seen * limit:
                part = text if total <= limit else text[:JOINED // 4]
                taken += len(part)
                yield part
            seen += len(text)


def _joined(texts: Iterator[str], between: str = "") -> Iterator[str]:
    """Short texts put together, so that each is not counted alone."""
    return map(between.join, group_by_size(texts, len, JOINED))


def encode_part(
    sources: list[TextFile], content: str, settings: ReadSettings, part: TextSpan, tokenizer: Tokenizer,
    store: Cache, say: Say, name: str,
) -> Shard:
    def make(path: Path) -> Shard:
        if is_large(sources):
            counted = partial(count_segments, sources, settings, key_of(VERSION, content, asdict(settings)), store, say)
            return encode_segments(path, sources, settings, part, tokenizer, counted, store, say, name)
        return write_shard(path, take(read(sources, settings), part), tokenizer)

    key = key_of(VERSION, content, asdict(settings), asdict(part), tokenizer.digest())
    shard, reused = store.entry("shards", key, Shard.open, make)
    counts = shard.counts
    unknown = f", {counts.unknown:,} unknown" if counts.unknown else ""
    say(f"{name}: {counts.tokens:,} tokens in {counts.documents:,} document{'s' * (counts.documents != 1)}{unknown}"
        + (" (reused from the cache)" if reused else ""))
    return shard
