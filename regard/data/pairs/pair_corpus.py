"""A corpus of pairs: from the names of some files to two shards a part, a tokenizer or two, and a split.

The pairs are cleaned first, and written side by side into two plain files of the cache, line k of one for line k of the
other. From there on each language is a text of lines like any other, read, learned from and encoded as a corpus is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from regard import storage
from regard.data import embedded
from regard.data.pairs.pairs import PairSettings, TextPair, find_pair_sources, guess_langs, read_pairs
from regard.data.reading.corpus import SAMPLE as SUBWORDS
from regard.data.reading.corpus import Learned, Say, Survey, encode_part, learn_tokenizer, survey_of
from regard.data.reading.readers import ReadSettings, TextFile
from regard.data.reading.seals import check_folder, write_folder
from regard.data.reading.shards import Shard
from regard.data.reading.split import WHOLE, TextSpan, halve, split
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, content_hash, key_of
from regard.data.tokens.tokenizer_pair import TokenizerPair
from regard.data.tokens.tokenizers import pair_vocab
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import DataError

VERSION = 1                                       # of what is cached: raise it when cleaning changes
LINES = ReadSettings("line")
SIDES, TALLY = ("source.txt", "target.txt"), "tally.json"


@dataclass(frozen=True)
class PairTokenizerSettings:
    """The [tokenizer] table of pairs: kind and size of each, and whether one serves both languages."""

    kind: str = "auto"
    vocab: int = 0
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

    def held_out(self, most: int) -> list[TextPair]:
        """The first held-out pairs, as they were written."""
        return list(islice(self.lines(), most))

    def judged(self, most: int) -> list[TextPair]:
        """The first pairs that a trained model is measured on: of the test part, or else of those held out."""
        return list(islice((self.test or self.lines)(), most))


@dataclass(frozen=True)
class Clean:
    """Pairs on disk, side by side: a file a language."""

    source: TextFile
    target: TextFile
    tally: Tally
    content: str

    def pairs(self) -> Iterator[TextPair]:
        with open(self.source.path, encoding="utf-8", newline="\n") as one, \
                open(self.target.path, encoding="utf-8", newline="\n") as other:
            for source, target in zip(one, other, strict=True):
                yield TextPair(source.removesuffix("\n"), target.removesuffix("\n"))


def prepare_pairs(
    data: PairSettings, tokenizer: PairTokenizerSettings | TokenizerPair, cache: Path | None = None, say: Say = print
) -> PairCorpus:
    """Clean, split, learn tokenizers where none are given, and encode; what was done before is reused."""
    store = Cache(cache, say)
    built_in, langs = embedded.known_pairs(data.files), languages(data)
    train = clean(embedded_files(data, "train", store), langs, store, say)
    train_part, valid_part, valid, tally = WHOLE, WHOLE, train, train.tally
    if data.valid or built_in:
        valid = clean(whole(embedded_files(data, "valid", store)), langs, store, say)
        tally = Tally.from_dict(train.tally.to_dict())
        tally.add(valid.tally)
    else:
        train_part, valid_part = split(0, train.tally.kept, "line", data.valid_share)
    tested = bool(data.test or (built_in and not data.valid))
    halves = halve(valid_part, 0, valid.tally.kept, "line") if data.halve and not tested else None
    valid_part = halves[0] if halves else valid_part
    surveys = [survey_of([side], LINES, store, lambda text: None) for side in (train.source, train.target)]
    if not isinstance(tokenizer, TokenizerPair):
        wanted = tokenizer if not built_in else replace(
            tokenizer, kind=built_in.tokenizer if tokenizer.kind == "auto" else tokenizer.kind,
            shared=built_in.shared or (tokenizer.shared and tokenizer.kind not in ("auto", "word")))
        tokenizer = learn_pair(train, surveys, train_part, wanted, store, say)
    shards = [encode_part([getattr(clean, side)], key_of(clean.content, side), LINES, part, getattr(tokenizer, side),
                          store, say, f"{name} {side}")
              for name, clean, part in (("train", train, train_part), ("valid", valid, valid_part))
              for side in ("source", "target")]
    for source, target in (shards[:2], shards[2:]):
        if len(source.ends) != len(target.ends):
            raise DataError(f"{len(source.ends):,} sources and {len(target.ends):,} targets came out of the cache: "
                            "remove it, and it is made again")
    first, step = valid_part.start, 2 if halves else 1
    corpus = PairCorpus(
        shards[1], shards[3], shards[0], shards[2], tokenizer, tally, lambda: islice(valid.pairs(), first, None, step),
        langs, key_of(train.content, valid.content))
    if halves:
        corpus.test, corpus.measured_on = lambda: islice(valid.pairs(), first + 1, None, 2), "half"
    elif tested:
        add_test(corpus, data, store, say)
    return corpus


def add_test(corpus: PairCorpus, data: PairSettings, store: Cache, say: Say) -> None:
    """The test part of an embedded corpus, made when it is asked for; or files of the user's own, read now, so that a
    change of them shows in the content."""

    def read() -> Clean:
        of_files = replace(data, files=data.test or data.files, valid=())
        return clean(whole(embedded_files(of_files, "test", store)), corpus.langs, store, say)

    corpus.measured_on = "test"
    if data.test:
        given = read()
        corpus.test, corpus.content = given.pairs, key_of(corpus.content, given.content)
    else:
        corpus.test = lambda: read().pairs()


def whole(data: PairSettings) -> PairSettings:
    """Return the settings for a part to measure on: no pair of it is too long, too unlike or a duplicate."""
    return replace(data, max_words=0, max_characters=0, max_ratio=0.0, drop_duplicates=False, drop_identical=False)


def languages(data: PairSettings) -> str:
    """The names of the languages, as given or as the files tell them."""
    built_in = embedded.known_pairs(data.files)
    return data.langs or ("-".join(built_in.languages) if built_in else guess_langs(data.files))


def embedded_files(data: PairSettings, part: str, store: Cache) -> PairSettings:
    """The settings with the files of one part, which for an embedded corpus are written first."""
    files = data.files if part == "train" or not data.valid else data.valid
    if embedded.known_pairs(files):
        files = tuple(map(str, embedded.write_pairs(str(files[0]), part, store.folder / "embedded", store.say)))
    return replace(data, files=files)


def clean(data: PairSettings, langs: str, store: Cache, say: Say) -> Clean:
    """The pairs that are fit, on disk; read once for each content and each way of reading. `langs` are as they were
    given or found: a run that goes on is given what was found at first, and reads the same."""
    sources = find_pair_sources(data.files)
    settings = {name: value for name, value in asdict(data).items()
                if name not in ("files", "valid", "valid_share", "content", "test", "halve")}
    content = key_of(VERSION, content_hash(sources), settings | {"langs": langs})

    def write(folder: Path) -> Clean:
        tally = Tally()
        return write_sides(folder, read_pairs(data, tally, sources), tally)

    found, _ = store.entry("pairs", content, open_clean, write)
    say(found.tally.line())
    return found


def open_clean(folder: Path) -> Clean:
    """Pairs that were cleaned before, if every bit of them is as it was written."""
    check_folder(folder)
    tally = Tally.from_dict(json.loads((folder / TALLY).read_text("utf-8")))
    source, target = (TextFile(name, folder / name) for name in SIDES)
    return Clean(source, target, tally, folder.name)


def write_sides(folder: Path, pairs: Iterable[TextPair], tally: Tally) -> Clean:
    """Write both files and the tally of reading the pairs, which appear together or not at all."""

    def fill(part: Path) -> None:
        with open(part / SIDES[0], "w", encoding="utf-8", newline="\n") as one, \
                open(part / SIDES[1], "w", encoding="utf-8", newline="\n") as other:
            for pair in pairs:
                one.write(pair.source + "\n")
                other.write(pair.target + "\n")
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
        text = Learned(lambda: (text for pair in islice(train.pairs(), part.stop) for text in texts(pair)), characters,
                       0, key_of(VERSION, train.content, part.stop, name))
        vocab = wanted.vocab or (pair_vocab(characters) if kind in SUBWORDS else 0)
        return learn_tokenizer(text, kind, vocab, store, say)

    if wanted.shared:
        both = learn(lambda pair: pair, sum(survey.characters for survey in surveys), "both")
        return TokenizerPair(both, both)
    return TokenizerPair(learn(lambda pair: pair[:1], surveys[0].characters, "source"),
                         learn(lambda pair: pair[1:], surveys[1].characters, "target"))
