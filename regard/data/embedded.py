"""The corpora that come with Regard: generated when asked for, the same every time.

Each has three parts: `train` to learn from, `valid` to choose by while learning, `test` to measure on afterwards. A
hash of the line, pair or caption decides what is held out, so that nothing of `valid` or `test` is ever in `train`.
Nor is a line, pair or picture of `test` in `valid`. (`ab` says what that means where only one row exists, `shapes`
where only a few captions of one thing do.) Some corpora have a fourth part, `unseen`: words that are
known, in combinations that are not.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard import corpora, storage
from regard.corpora import ab, gists, origins, phrasebook, sally, shapes, stories, tagged
from regard.data.reading.seals import Say, check_folder, open_or_make, tell, write_folder
from regard.errors import SettingError

HELD_OUT = 10                    # one line in so many is held out; `valid` and `test` are so much smaller than `train`
PARTS = ("train", "valid", "test")
UNSEEN = "unseen"


@dataclass(frozen=True)
class Embedded:
    """A corpus by name: what it is, how many lines it has to learn from, who writes them, and how they are best cut."""

    description: str
    count: int
    generate: Callable[[int, int, str], Iterator[str]]               # how many, seed, part
    tokenizer: str
    modules: tuple[str, ...]     # the files that decide the lines, word lists among them
    prompts: tuple[str, ...] = ()                                    # to be continued by a model that learned it
    parts: tuple[str, ...] = PARTS

    @property
    def held_out(self) -> int:
        """The number of lines of `valid`, and of `test`."""
        return self.count // HELD_OUT


def _stories(number: int, seed: int, part: str) -> Iterator[str]:
    """`train` has a stream of its own. `test` goes on where `valid` ended in theirs, without what was there."""
    held = part != "train"
    endless = stories.generate(HELD_OUT**2 * 2 * number, seed + held)
    chosen = (line for line in endless if (zlib.crc32(line.encode()) % HELD_OUT == 0) == held)
    before = set(islice(chosen, number)) if part == "test" else set()
    return islice((line for line in chosen if line not in before), number)


def _sally(number: int, seed: int, part: str) -> Iterator[str]:
    return (story.text for story in sally.generate(number, seed, part=part))


def _files(*patterns: str) -> tuple[str, ...]:
    """The code and the word lists that a corpus is made of."""
    return tuple(str(path) for pattern in patterns for path in sorted(Path(corpora.__file__).parent.glob(pattern)))


CORPORA = {
    "stories": Embedded("small-world English stories, one a line: who has what, where, and how it ends",
                        20_000, _stories, "word", _files("stories.*", "story_world.*")),
    "ab": Embedded("rows of A and B of many lengths, and after an arrow whether there was a B",
                   10_000, ab.generate, "whitespace", (ab.__file__,), ab.PROMPTS),
    "sally": Embedded("stories that greet someone at the end by the name told at the beginning, near or far",
                      20_000, _sally, "word", (sally.__file__,), sally.PROMPTS),
}


class AlignedPair(Protocol):
    """Two texts, and which word of the one says which of the other."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def alignment(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def pharaoh(self) -> str: ...


@dataclass(frozen=True)
class EmbeddedPairs:
    """A corpus of pairs, in two languages or long and short: what it is, how many there are to learn from, and who
    writes them."""

    description: str
    count: int
    languages: tuple[str, str]
    pairs: Callable[[int, int, str], Iterator[AlignedPair]]           # how many, seed, part
    tokenizer: str
    modules: tuple[str, ...]                                         # the files that decide the lines
    show: Callable[[Any], str] = phrasebook.show                     # a pair, for people to read
    shared: bool = False                                             # both sides are of one language
    parts: tuple[str, ...] = (*PARTS, UNSEEN)

    @property
    def held_out(self) -> int:
        """The number of pairs of each part but `train`."""
        return self.count // HELD_OUT


PAIRED = {
    "phrasebook": EmbeddedPairs("French and English sentences, with which word says which",
                                100_000, ("fr", "en"), phrasebook.pairs, "word",
                                _files("phrasebook*.py", "phrasebook*.t*")),
    "gists": EmbeddedPairs("small-world stories, and in one line what each comes down to",
                           30_000, ("document", "gist"), gists.pairs, "word",
                           _files("gist*.*", "stories.*", "story_world.*"), gists.show, shared=True),
}


@dataclass(frozen=True)
class EmbeddedPictures:
    """A corpus of captioned pictures: what it is, how many there are to learn from, who draws them, and as files."""

    description: str
    count: int
    held_out: int                                                    # how many each other part has
    pictures: Callable[[int, int, str], Iterator[shapes.Picture]]    # how many, seed, part
    write: Callable[[Path, int, int, str], Path]                     # where, how many, seed, part
    show: Callable[[shapes.Picture], str]                            # a picture, for people to read
    parts: tuple[str, ...] = shapes.PARTS


PICTURED = {
    "shapes": EmbeddedPictures("pictures of coloured shapes, what is to be seen on each, and where",
                               20_000, 1_000, shapes.pictures, shapes.write, shapes.show),
}


class LabelledText(NamedTuple):
    """A text and its label; where each word has one, as many as words, with spaces between them."""

    label: str
    text: str


@dataclass(frozen=True)
class EmbeddedLabels:
    """A corpus of labelled texts: what it is, how many there are to learn from, who writes them, and what has a
    label."""

    description: str
    count: int
    texts: Callable[[int, int, str], Iterator[LabelledText]]         # how many, seed, part
    tokenizer: str
    modules: tuple[str, ...]                                         # the files that decide the lines
    unit: str = "text"                                               # text · word: what has a label
    show: Callable[[LabelledText], str] = "\t".join                  # a text with its label, as a line of a file,
    suffix: str = ".tsv"                                             # whose name ends so
    parts: tuple[str, ...] = PARTS

    @property
    def held_out(self) -> int:
        """The number of texts of `valid`, and of `test`."""
        return self.count // HELD_OUT


def _origins(number: int, seed: int, part: str) -> Iterator[LabelledText]:
    return (LabelledText(*found) for found in origins.texts(number, seed, part))


def _tagged(number: int, seed: int, part: str) -> Iterator[LabelledText]:
    return (LabelledText(" ".join(each.tags), each.text) for each in tagged.sentences(number, seed, part))


def _show_tagged(labelled: LabelledText) -> str:
    """The words with their tags: `Her/DET watch/NOUN`."""
    return tagged.show(tagged.TaggedSentence(tuple(labelled.text.split()), tuple(labelled.label.split())))


LABELLED = {
    "origins": EmbeddedLabels("a few words of a line, and which corpus the line is of",
                              12_000, _origins, "word", _files("*.py", "*.t*")),
    "tagged": EmbeddedLabels("English sentences with the part of speech of each word; many words have more than one",
                             20_000, _tagged, "bpe", _files("tagged*.py", "tagged*.t*", "phrasebook_words.*"), "word",
                             _show_tagged, ".txt"),
}


def every() -> dict[str, Embedded | EmbeddedPairs | EmbeddedPictures | EmbeddedLabels]:
    """All that comes with Regard: lines, pairs, pictures and labelled texts."""
    return {**CORPORA, **PAIRED, **PICTURED, **LABELLED}


def unit(name: str) -> str:
    """The unit that a corpus is counted in."""
    tables = (("lines", [*CORPORA]), ("pairs", [*PAIRED]), ("pictures", [*PICTURED]), ("texts", [*LABELLED]))
    return next(unit for unit, names in tables if name in names)


def size(name: str, part: str = "train") -> int:
    """The number of lines, pairs or pictures of a part."""
    corpus = every()[name]
    if part not in corpus.parts:
        raise SettingError(f"{name} has no part {part}: it has {', '.join(corpus.parts)}")
    return corpus.count if part == "train" else corpus.held_out


def known(files: Sequence[str]) -> Embedded | None:
    """The embedded corpus meant by these names, unless there are files called so."""
    if not files or not all(str(name) in CORPORA and not Path(name).exists() for name in files):
        return None
    return CORPORA[str(files[0])]


def lines(name: str, part: str = "train") -> Iterator[str]:
    """The lines of a part of a corpus."""
    return CORPORA[name].generate(size(name, part), 0, part)


def pairs(name: str, part: str = "train") -> Iterator[AlignedPair]:
    """The pairs of a part. `test` goes on where `valid` ended in their stream, in which each pair comes once."""
    number, draw = size(name, part), PAIRED[name].pairs
    return islice(draw(2 * number, 0, "valid"), number, None) if part == "test" else draw(number, 0, part)


def pictures(name: str, part: str = "train", number: int | None = None) -> Iterator[shapes.Picture]:
    """The pictures of a part, or the first of them."""
    most = size(name, part)
    return PICTURED[name].pictures(most if number is None else min(number, most), 0, part)


def write(name: str, part: str, folder: Path, say: Say = tell) -> Path:
    """The lines as a file under this folder, written once for each version of the generator."""
    file = f"{name}-{part}.txt"
    stem = f"{name}-{part}-{_version(CORPORA[name].modules)}"
    return _written(folder / stem, lambda: {file: lines(name, part)}, say) / file


def known_pairs(files: Sequence[str]) -> EmbeddedPairs | None:
    """The embedded corpus of pairs meant by this name, unless there is a file called so."""
    if len(files) != 1 or str(files[0]) not in PAIRED or Path(files[0]).exists():
        return None
    return PAIRED[str(files[0])]


def write_pairs(name: str, part: str, folder: Path, say: Say = tell) -> tuple[Path, Path]:
    """The pairs of a part as two aligned files under this folder, written once for each version of the generator."""
    one, other = (f"{name}-{part}.{language}" for language in PAIRED[name].languages)

    def texts() -> dict[str, Iterable[str]]:
        found = list(pairs(name, part))
        return {one: [pair.source for pair in found], other: [pair.target for pair in found]}

    kept = _written(folder / f"{name}-{part}-{_version(PAIRED[name].modules)}", texts, say)
    return kept / one, kept / other


def known_labelled(files: Sequence[str], unit: str) -> EmbeddedLabels | None:
    """The embedded corpus of texts (or of words) with labels meant by this name, unless there is a file called so."""
    found = LABELLED.get(str(files[0])) if len(files) == 1 and not Path(files[0]).exists() else None
    return found if found is not None and found.unit == unit else None


def labelled(name: str, part: str = "train") -> Iterator[LabelledText]:
    """The labelled texts of a part."""
    return LABELLED[name].texts(size(name, part), 0, part)


def write_labelled(name: str, part: str, folder: Path, say: Say = tell) -> Path:
    """The labelled texts as a file under this folder, written once for each version of the generator."""
    corpus = LABELLED[name]
    file = f"{name}-{part}{corpus.suffix}"
    stem = f"{name}-{part}-{_version(corpus.modules)}"
    return _written(folder / stem, lambda: {file: map(corpus.show, labelled(name, part))}, say) / file


def _written(folder: Path, texts: Callable[[], Mapping[str, Iterable[str]]], say: Say) -> Path:
    """A sealed folder with a file for each of the texts, given as lines; generated again where it is damaged."""

    def fill(part: Path) -> None:
        for file, found in texts().items():
            storage.write_part(part / file, "".join(f"{line}\n" for line in found))

    return open_or_make(folder, check_folder, lambda path: write_folder(path, fill, check_folder), say)[0]


def _version(modules: Sequence[str]) -> str:
    code = b"".join(Path(module).read_bytes() for module in (__file__, *modules))
    return hashlib.sha256(code).hexdigest()[:12]
