"""The corpora that come with Regard: generated when asked for, the same every time.

What is held out is decided by a hash of the line itself, so that no line is ever in both parts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from regard import storage
from regard.text import ab, gists, phrasebook, shapes, stories, story_world
from regard.text.seals import Say, check_folder, open_or_make, tell, write_folder

HELD_OUT = 10                    # one line in so many belongs to the held-out part


@dataclass(frozen=True)
class Embedded:
    """A corpus by name: what it is, how many lines it has, who writes them, and how they are best cut."""

    description: str
    count: int
    generate: Callable[[int, int], Iterator[str]]
    tokenizer: str
    modules: tuple[str, ...]     # the files that decide the lines


CORPORA = {
    "stories": Embedded("small-world English stories, one a line: who has what, where, and how it ends",
                        20_000, stories.generate, "word", (stories.__file__, story_world.__file__)),
    "ab": Embedded("rows of A and B whose last symbol tells whether there was a B",
                   10_000, ab.generate, "whitespace", (ab.__file__,)),
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


def _files(*patterns: str) -> tuple[str, ...]:
    return tuple(str(path) for pattern in patterns for path in sorted(Path(__file__).parent.glob(pattern)))


PAIRED = {
    "phrasebook": EmbeddedPairs("French and English sentences, with which word says which",
                                100_000, ("fr", "en"), phrasebook.pairs, "word",
                                _files("phrasebook*.py")),
    "gists": EmbeddedPairs("small-world stories, and in one line what each comes down to",
                           30_000, ("document", "gist"), gists.pairs, "word",
                           _files("gist*.py", "stories.py", "story_world.py"), gists.show, shared=True),
}


@dataclass(frozen=True)
class EmbeddedPictures:
    """A corpus of captioned pictures: what it is, how many there are to learn from, who draws them, and as files."""

    description: str
    count: int
    pictures: Callable[[int], Iterator[shapes.Picture]]              # how many
    write: Callable[[Path, int], Path]                               # where, how many
    show: Callable[[shapes.Picture], str]                            # a picture, for people to read


PICTURED = {
    "shapes": EmbeddedPictures("pictures of coloured shapes, what is to be seen on each, and where",
                               20_000, shapes.pictures, shapes.write, shapes.show),
}


def every() -> dict[str, Embedded | EmbeddedPairs | EmbeddedPictures]:
    """All that comes with Regard: lines, pairs and pictures."""
    return {**CORPORA, **PAIRED, **PICTURED}


def unit(name: str) -> str:
    """What a corpus is counted in."""
    return "lines" if name in CORPORA else "pairs" if name in PAIRED else "pictures"


def known(files: Sequence[str]) -> Embedded | None:
    """The embedded corpus meant by these names, unless there are files called so."""
    if not files or not all(str(name) in CORPORA and not Path(name).exists() for name in files):
        return None
    return CORPORA[str(files[0])]


def lines(name: str, part: str = "train") -> Iterator[str]:
    """The lines of a corpus: those to learn from, or a tenth as many that are held out."""
    corpus = CORPORA[name]
    wanted = corpus.count if part == "train" else corpus.count // HELD_OUT
    seed = 0 if part == "train" else 1
    endless = corpus.generate(corpus.count * HELD_OUT, seed)
    chosen = (line for line in endless if _held_out(line) == (part == "valid"))
    return islice(chosen, wanted)


def _held_out(line: str) -> bool:
    return zlib.crc32(line.encode()) % HELD_OUT == 0


def pairs(name: str, part: str = "train") -> Iterator[AlignedPair]:
    """The pairs of a corpus: those to learn from, or a tenth as many of another part."""
    corpus = PAIRED[name]
    return corpus.pairs(corpus.count if part == "train" else corpus.count // HELD_OUT, 0, part)


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


def _written(folder: Path, texts: Callable[[], Mapping[str, Iterable[str]]], say: Say) -> Path:
    """A sealed folder with a file for each of the texts, given as lines; generated again where it is damaged."""

    def fill(part: Path) -> None:
        for file, found in texts().items():
            storage.write_part(part / file, "".join(f"{line}\n" for line in found))

    return open_or_make(folder, check_folder, lambda path: write_folder(path, fill, check_folder), say)[0]


def _version(modules: Sequence[str]) -> str:
    code = b"".join(Path(module).read_bytes() for module in (__file__, *modules))
    return hashlib.sha256(code).hexdigest()[:12]
