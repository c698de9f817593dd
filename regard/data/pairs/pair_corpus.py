"""A corpus of pairs: from the names of some files to two shards a part, a tokenizer or two, and a split.

The pairs are cleaned first, and written side by side into two plain files of the cache, line k of one for line k of the
other. From there on each language is a text of lines like any other, read, learned from and encoded as a corpus is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from regard import storage
from regard.data import embedded
from regard.data.cleaning.clean_segments import CleanJob, Sides, cleaned
from regard.data.cleaning.clean_worker import AT_ONCE, SIDES, TALLY
from regard.data.pairs.pairs import PairSettings, TextPair, find_pair_sources, guess_langs, read_pairs, refuse_none
from regard.data.reading.corpus import SAMPLE as SUBWORDS
from regard.data.reading.corpus import (
    Learned,
    Say,
    Survey,
    TokenizerSettings,
    encode_part,
    learn_tokenizer,
    survey_of,
)
from regard.data.reading.readers import ReadSettings, TextFile
from regard.data.reading.seals import check_folder, write_folder
from regard.data.reading.shards import Counts, Shard
from regard.data.reading.split import WHOLE, CorpusParts, TextSpan, first_share, split_parts
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, content_hash, key_of
from regard.data.tokens.tokenizers import pair_vocab
from regard.data.tokens.vocabulary import Tokenizer, TokenizerPair
from regard.errors import DataError

VERSION = 1                                       # of what is cached: raise it when cleaning changes
LINES = ReadSettings("line")


@dataclass(frozen=True)
class PairTokenizerSettings(TokenizerSettings):
    """The [tokenizer] table of pairs: kind and size of each, and whether one serves both languages."""

    shared: bool = True


@dataclass
class PairCorpus:
    """Sentence pairs, ready for training; where one text is asked for, it is the target's."""

    train: Shard
    valid: Shard
    source_train: Shard
    source_valid: Shard
    tokenizer: TokenizerPair
    tally: Tally
    lines: Callable[[], Iterator[TextPair]]           # the held-out pairs as they were written
    langs: str = ""
    content: str = ""
    documents: str = "pair"
    test: Callable[[], Iterator[TextPair]] | None = None        # a part that training never reads, where there is one
    measured_on: str = ""                         # what that is: "test", or "half" of what was held out

    def resolved(self, data: PairSettings) -> PairSettings:
        """The [data] table with what was chosen and found."""
        return replace(data, langs=self.langs, content=self.content)

    @property
    def tokenizer_settings(self) -> PairTokenizerSettings:
        return PairTokenizerSettings(self.tokenizer.kind, self.tokenizer.vocab_size, self.tokenizer.shared)

    def test_counts(self) -> Counts | None:
        """The pairs of the test part and the characters of their targets, where there is one; it is not encoded."""
        lengths = None if self.test is None else [len(pair.target) for pair in self.test()]
        return None if lengths is None else Counts(documents=len(lengths), characters=sum(lengths))

    def held_out(self, most: int) -> list[TextPair]:
        """The first held-out pairs, as they were written."""
        return list(islice(self.lines(), most))

    def judged(self, most: int) -> list[TextPair]:
        """The first pairs that a trained model is measured on: of the test part, or else of those held out."""
        return list(islice((self.test or self.lines)(), most))


@dataclass(frozen=True)
class Clean:
    """Pairs on disk, side by side: a file a language, or labels beside texts."""

    source: TextFile
    target: TextFile
    tally: Tally
    content: str

    def pairs(self, part: TextSpan = WHOLE) -> Iterator[TextPair]:
        first, step = part.start + (part.unit == "odd documents"), 2 if part.unit.startswith(("even", "odd")) else 1
        with open(self.source.path, encoding="utf-8", newline="\n") as one, \
                open(self.target.path, encoding="utf-8", newline="\n") as other:
            for source, target in islice(zip(one, other, strict=True), first, part.stop, step):
                yield TextPair(source.removesuffix("\n"), target.removesuffix("\n"))


def split_clean(data: Any, built_in: bool, read: Callable[[Any, str], Clean]) -> tuple[CorpusParts[Clean], str]:
    """The parts of what `read(settings, part)` cleans, and a hash of it all. Test files of the user's own are read now,
    so that a change of them shows in the hash."""
    parts = split_parts(data, built_in, "line", read, lambda clean: (0, clean.tally.kept))
    content = key_of(parts.train.content, parts.valid.content)
    return parts, key_of(content, parts.test()[0].content) if data.test and parts.test else content


def prepare_pairs(
    data: PairSettings, tokenizer: PairTokenizerSettings | TokenizerPair, cache: Path | None = None, say: Say = print
) -> PairCorpus:
    """Clean, split, learn tokenizers where none are given, and encode; what was done before is reused."""
    store = Cache(cache, say)
    built_in, langs = embedded.known_pairs(data.files), languages(data)

    def read(data: PairSettings, part: str) -> Clean:
        files = embedded_files(data, part, embedded.known_pairs, store)
        return clean(files if part == "train" else whole(files), langs, store, say)

    parts, content = split_clean(data, built_in is not None, read)
    train = parts.train
    surveys = [survey_of([getattr(train, side)], LINES, store, lambda text: None, key_of(train.content, side))
               for side in ("source", "target")]
    if not isinstance(tokenizer, TokenizerPair):
        wanted = tokenizer if not built_in else replace(
            tokenizer, kind=built_in.tokenizer if tokenizer.kind == "auto" else tokenizer.kind,
            shared=built_in.shared or (tokenizer.shared and tokenizer.kind not in ("auto", "word")))
        tokenizer = learn_pair(train, surveys, parts.train_part, wanted, store, say)
    learned_part = first_share(parts.train_part, 0, train.tally.kept, "line", data.train_share)
    shards = [encode_part([getattr(clean, side)], key_of(clean.content, side), LINES, part, getattr(tokenizer, side),
                          store, say, f"{name} {side}")
              for name, clean, part in (("train", train, learned_part), ("valid", parts.valid, parts.valid_part))
              for side in ("source", "target")]
    for source, target in (shards[:2], shards[2:]):
        if len(source.ends) != len(target.ends):
            raise DataError(f"{len(source.ends):,} sources and {len(target.ends):,} targets came out of the cache: "
                            "remove it, and it is made again")
    corpus = PairCorpus(
        shards[1], shards[3], shards[0], shards[2], tokenizer, parts.tally,
        lambda: parts.valid.pairs(parts.valid_part), langs, content, measured_on=parts.measured_on)
    if (find := parts.test) is not None:
        corpus.test = lambda: Clean.pairs(*find())
    return corpus


def whole(data: PairSettings) -> PairSettings:
    """Return the settings for a part to measure on: no pair of it is too long, too unlike or a duplicate."""
    return replace(data, max_words=0, max_characters=0, max_ratio=0.0, drop_duplicates=False, drop_identical=False)


def languages(data: PairSettings) -> str:
    """The names of the languages, as given or as the files tell them."""
    built_in = embedded.known_pairs(data.files)
    return data.langs or ("-".join(built_in.languages) if built_in else guess_langs(data.files))


def embedded_files(data: Any, part: str, known: Callable[[Sequence[str]], Any], store: Cache, **fields: str) -> Any:
    """The settings with the files of one part. Those of an embedded corpus are written first; `fields` are its."""
    files = data.files if part == "train" or not data.valid else data.valid
    if not known(files):
        return replace(data, files=files)
    written = embedded.write(str(files[0]), part, store.folder / "embedded", store.say)
    return replace(data, files=tuple(map(str, written)), **fields)


def clean(data: PairSettings, langs: str, store: Cache, say: Say) -> Clean:
    """The pairs that are fit, on disk; read once for each content and each way of reading. `langs` are as they were
    given or found: a run that goes on is given what was found at first, and reads the same."""
    sources = find_pair_sources(data.files)
    settings = {name: value for name, value in asdict(data).items()
                if name not in ("files", "valid", "valid_share", "train_share", "content", "test", "halve")}
    content = key_of(VERSION, content_hash(sources), settings | {"langs": langs})
    job = CleanJob("pair", sources, asdict(data), partial(refuse_none, sources))
    return keep_clean("pairs", content, lambda tally: read_pairs(data, tally, sources), job, store, say)


def keep_clean(
    kind: str, key: str, read: Callable[[Tally], Iterable[TextPair]], job: CleanJob, store: Cache, say: Say
) -> Clean:
    """The pairs that `read` gives, on disk; read only where the cache has none of them. Large files are a `job` for
    several processes, which gives the same."""

    def write(folder: Path) -> Clean:
        tally = Tally(noun=job.unit if job.unit == "pair" else "text")
        if segments := job.cut():
            with cleaned(job, segments, key, tally, store, say) as sides:
                return write_sides(folder, sides, tally)
        return write_sides(folder, in_batches(read(tally)), tally)

    found, _ = store.entry(kind, key, open_clean, write)
    say(found.tally.line())
    return found


def open_clean(folder: Path) -> Clean:
    """Pairs that were cleaned before, if every bit of them is as it was written."""
    check_folder(folder)
    tally = Tally.from_dict(json.loads((folder / TALLY).read_text("utf-8")))
    source, target = (TextFile(name, folder / name) for name in SIDES)
    return Clean(source, target, tally, folder.name)


def in_batches(pairs: Iterable[TextPair]) -> Iterator[Sides]:
    """Yield both sides of some pairs at a time, a line each."""
    coming = iter(pairs)
    while some := list(islice(coming, AT_ONCE)):
        yield ("".join(f"{pair.source}\n" for pair in some).encode(),
               "".join(f"{pair.target}\n" for pair in some).encode())


def write_sides(folder: Path, sides: Iterable[Sides], tally: Tally) -> Clean:
    """Write both files and the tally of reading the pairs, which appear together or not at all."""

    def fill(part: Path) -> None:
        storage.perform("write", part, lambda: write(part))

    def write(part: Path) -> None:
        with open(part / SIDES[0], "wb") as one, open(part / SIDES[1], "wb") as other:
            for source, target in sides:
                one.write(source)
                other.write(target)
            for file in (one, other):
                file.flush()
                os.fsync(file.fileno())
        storage.write_part(part / TALLY, json.dumps(tally.to_dict()))

    return write_folder(folder, fill, open_clean)


def learn_pair(
    train: Clean, surveys: list[Survey], part: TextSpan, wanted: PairTokenizerSettings, store: Cache, say: Say
) -> TokenizerPair:
    """One tokenizer from both sides, or one from each."""
    kind = "bpe" if wanted.kind == "auto" else wanted.kind

    def learn(texts: Callable[[TextPair], Iterable[str]], characters: int, name: str) -> Tokenizer:
        text = Learned(lambda: (text for pair in train.pairs(part) for text in texts(pair)), characters,
                       0, key_of(VERSION, train.content, part.stop, name))
        vocab = wanted.vocab or (pair_vocab(characters) if kind in SUBWORDS else 0)
        return learn_tokenizer(text, kind, vocab, store, say)

    if wanted.shared:
        both = learn(lambda pair: pair, sum(survey.characters for survey in surveys), "both")
        return TokenizerPair(both, both)
    return TokenizerPair(learn(lambda pair: pair[:1], surveys[0].characters, "source"),
                         learn(lambda pair: pair[1:], surveys[1].characters, "target"))
