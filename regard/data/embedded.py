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
from typing import Any

from regard import corpora, storage
from regard.corpora import ab, gists, origins, phrasebook, sally, shapes, stories, tagged
from regard.corpora.origins import LabelledText
from regard.data.reading.seals import Say, check_folder, open_or_make, tell, write_folder
from regard.errors import SettingError

HELD_OUT = 10                    # one line in so many is held out; `valid` and `test` are so much smaller than `train`
PARTS = ("train", "valid", "test")
UNSEEN = "unseen"

Draw = Callable[[int, int, str], Iterator[Any]]      # (how many, seed, part) -> lines, pairs, pictures or texts


@dataclass(frozen=True)
class Embedded:
    """A corpus by name: what it is, how many there are to learn from, who writes them, and how they are best cut.

    A corpus of pairs has a source, a target and an `alignment` each, and one of pictures is written by `write`.
    """

    description: str
    count: int
    draw: Draw
    tokenizer: str = "word"
    modules: tuple[str, ...] = ()                    # the files that decide the lines, word lists among them
    unit: str = "lines"                              # lines · pairs · pictures · texts
    parts: tuple[str, ...] = PARTS
    show: Callable[[Any], str] = str                 # one of them, for people to read, or as a line of its file
    suffixes: tuple[str, ...] = (".txt",)            # of the files that it is written to
    prompts: tuple[str, ...] = ()                    # of lines: to be continued by a model that learned them
    languages: tuple[str, str] = ("", "")            # of pairs, or the names of long and short
    shared: bool = False                             # of pairs: both sides are of one language
    labels: str = ""                                 # of labelled texts, what has a label: text · word
    smaller: int = HELD_OUT                          # than `train` is each other part, so many times
    write: Callable[[Path, int, int, str], Path] | None = None      # where, how many, seed, part


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
                   10_000, ab.generate, "whitespace", _files("ab.py"), prompts=ab.PROMPTS),
    "sally": Embedded("stories that greet someone at the end by the name told at the beginning, near or far",
                      20_000, _sally, "word", _files("sally.*"), prompts=sally.PROMPTS),
}


def paired(
    description: str, count: int, languages: tuple[str, str], draw: Draw, tokenizer: str, modules: tuple[str, ...],
    show: Callable[[Any], str] = phrasebook.show, shared: bool = False,
) -> Embedded:
    """A corpus of pairs. `test` goes on where `valid` ended in their stream, in which each pair comes once."""

    def draw_part(number: int, seed: int, part: str) -> Iterator[Any]:
        return islice(draw(2 * number, seed, "valid"), number, None) if part == "test" else draw(number, seed, part)

    return Embedded(description, count, draw_part, tokenizer, modules, "pairs", (*PARTS, UNSEEN), show,
                    tuple(f".{language}" for language in languages), languages=languages, shared=shared)


PAIRED = {
    "phrasebook": paired("French and English sentences, with which word says which",
                         100_000, ("fr", "en"), phrasebook.pairs, "word",
                         _files("phrasebook*.py", "phrasebook*.t*")),
    "gists": paired("small-world stories, and in one line what each comes down to",
                    30_000, ("document", "gist"), gists.pairs, "word",
                    _files("gist*.*", "stories.*", "story_world.*"), gists.show, shared=True),
}
PICTURED = {
    "shapes": Embedded("pictures of coloured shapes, what is to be seen on each, and where", 20_000, shapes.pictures,
                       unit="pictures", parts=shapes.PARTS, show=shapes.show, smaller=20, write=shapes.write),
}


def _tagged(number: int, seed: int, part: str) -> Iterator[LabelledText]:
    return (LabelledText(" ".join(each.tags), each.text) for each in tagged.sentences(number, seed, part))


def _show_tagged(labelled: LabelledText) -> str:
    """The words with their tags: `Her/DET watch/NOUN`."""
    return tagged.show(tagged.TaggedSentence(tuple(labelled.text.split()), tuple(labelled.label.split())))


LABELLED = {
    "origins": Embedded("a few words of a line, and which corpus the line is of",
                        12_000, origins.texts, "word", _files("*.py", "*.t*"), "texts", show="\t".join,
                        suffixes=(".tsv",), labels="text"),
    "tagged": Embedded("English sentences with the part of speech of each word; many words have more than one",
                       20_000, _tagged, "bpe", _files("tagged*.py", "tagged*.t*", "phrasebook_words.*"), "texts",
                       show=_show_tagged, labels="word"),
}


def every() -> dict[str, Embedded]:
    """All that comes with Regard: lines, pairs, pictures and labelled texts."""
    return {**CORPORA, **PAIRED, **PICTURED, **LABELLED}


def size(name: str, part: str = "train") -> int:
    """The number of lines, pairs or pictures of a part."""
    corpus = every()[name]
    if part not in corpus.parts:
        raise SettingError(f"{name} has no part {part}: it has {', '.join(corpus.parts)}")
    return corpus.count if part == "train" else corpus.count // corpus.smaller


def known(files: Sequence[str]) -> Embedded | None:
    """The embedded corpus meant by these names, unless there are files called so."""
    if not files or not all(str(name) in CORPORA and not Path(name).exists() for name in files):
        return None
    return CORPORA[str(files[0])]


def known_pairs(files: Sequence[str], among: Mapping[str, Embedded] = PAIRED) -> Embedded | None:
    """The embedded corpus of pairs (or of another table) meant by this name, unless there is a file called so."""
    return among.get(str(files[0])) if len(files) == 1 and not Path(files[0]).exists() else None


def known_labelled(files: Sequence[str], labels: str) -> Embedded | None:
    """The embedded corpus of texts (or of words) with labels meant by this name, unless there is a file called so."""
    return known_pairs(files, {name: corpus for name, corpus in LABELLED.items() if corpus.labels == labels})


def items(name: str, part: str = "train", number: int | None = None) -> Iterator[Any]:
    """The lines, pairs, pictures or labelled texts of a part, or the first of them."""
    most = size(name, part)
    drawn = every()[name].draw(most, 0, part)
    return drawn if number is None else islice(drawn, number)


lines = pairs = pictures = labelled = items          # of a corpus that has these


def write(name: str, part: str, folder: Path, say: Say = tell) -> list[Path]:
    """A part as a file under this folder, or of pairs as two aligned ones, written once for each version of the
    generator."""
    corpus = every()[name]
    files = [f"{name}-{part}{suffix}" for suffix in corpus.suffixes]

    def texts() -> Mapping[str, Iterable[str]]:
        if len(files) == 1:
            return {files[0]: map(corpus.show, items(name, part))}
        found = list(items(name, part))
        return {files[0]: [pair.source for pair in found], files[1]: [pair.target for pair in found]}

    def fill(unfinished: Path) -> None:
        for file, found in texts().items():
            storage.write_part(unfinished / file, "".join(f"{line}\n" for line in found))

    kept, _ = open_or_make(folder / f"{name}-{part}-{_version(corpus.modules)}", check_folder,
                           lambda path: write_folder(path, fill, check_folder), say)
    return [kept / file for file in files]


def _version(modules: Sequence[str]) -> str:
    code = b"".join(Path(module).read_bytes() for module in (__file__, *modules))
    return hashlib.sha256(code).hexdigest()[:12]
