"""The corpora of the regret table: texts and pairs of different kind and size, each in three parts.

Nothing here was used to tune a default. Made from what is at hand: the embedded corpora, ../shared/data where it is,
and the packages installed on this machine (Python source, manual pages, documentation, French message catalogs).
"""

from __future__ import annotations

import gzip
import random
import re
import site
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SHARED = Path(__file__).parents[3] / "shared" / "data"
SEED = 0
HELD = 0.05                    # of a corpus for each of the two held-out parts
MOST_HELD = {"text": 400_000, "pairs": 1000}         # characters, or pairs, of each
Item = tuple[str, ...]                               # a document, or a source and its target


@dataclass(frozen=True)
class Source:
    """A corpus before it is split: its kind, where it comes from, and how much of it is taken."""

    kind: str                              # text · pairs
    items: Callable[[], Iterator[Item]]
    most: int                              # characters, or pairs
    shuffled: bool = True                  # documents of one text are shuffled; a play is not
    parts: Callable[[], dict[str, list[Item]]] | None = None       # where the corpus comes in three parts


def python_source() -> Iterator[Item]:
    for folder in site.getsitepackages():
        for path in sorted(Path(folder).rglob("*.py")):
            if 500 <= path.stat().st_size <= 60_000:
                yield (path.read_text("utf-8", "replace"),)


def manual_pages() -> Iterator[Item]:
    """The words of manual pages in English, without the marks of their typesetting."""
    for path in sorted(Path("/usr/share/man").glob("man[1-8]/*.gz")):
        if path.is_symlink():
            continue
        lines = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines()
        kept = (re.sub(r"\\f.|\\[&|]|\\\(..", "", re.sub(r"^\.\w+ ?", "", line)) for line in lines
                if not line.startswith((".\\\"", "'\\\"")))
        text = "\n".join(line for line in kept if line.strip())
        if len(text) > 500:
            yield (text,)


def documentation() -> Iterator[Item]:
    for path in sorted(Path("/usr/share/doc").rglob("*")):
        if path.is_symlink() or not path.is_file() or not re.search(r"(README|NEWS|TODO|FAQ|\.txt|\.md)", path.name):
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8", "replace")
        if 500 < len(text) < 100_000 and text.isprintable() is False and "\x00" not in text:
            yield (text,)


def shakespeare() -> Iterator[Item]:
    path = SHARED / "tinyshakespeare.txt"
    if path.is_file():
        yield (path.read_text("utf-8"),)


def stories() -> Iterator[Item]:
    from regard.data.embedded import items

    yield from ((text,) for text in items("stories"))


def phrasebook() -> Iterator[Item]:
    from regard.data.embedded import items

    yield from ((pair.source, pair.target) for pair in items("phrasebook"))


def read_flickr(source: str, target: str) -> Callable[[], dict[str, list[Item]]]:
    """Multi30k as it was published: its own three parts, the last of them test 2016."""
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

    def read() -> dict[str, list[Item]]:
        parts = {}
        for part, name in names.items():
            paths = [SHARED / "multi30k" / f"{name}.{language}.gz" for language in (source, target)]
            if not all(path.is_file() for path in paths):
                return {}
            first, second = (gzip.decompress(path.read_bytes()).decode("utf-8").splitlines() for path in paths)
            parts[part] = list(zip(first, second, strict=True))
        return parts

    return read


def multi30k(source: str, target: str) -> Callable[[], Iterator[Item]]:
    def read() -> Iterator[Item]:
        paths = [SHARED / "multi30k" / f"train.{language}.gz" for language in (source, target)]
        if all(path.is_file() for path in paths):
            first, second = (gzip.decompress(path.read_bytes()).decode("utf-8").splitlines() for path in paths)
            yield from zip(first, second, strict=True)

    return read


def tatoeba() -> Iterator[Item]:
    path = SHARED / "tatoeba" / "eng-fra.tsv"
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            english, french, *_ = line.split("\t")
            yield french, english


def catalogs() -> Iterator[Item]:
    """Messages of GNU and GNOME programs, French to English, each pair once."""
    import polib

    seen: set[Item] = set()
    for path in sorted(Path("/usr/share/locale/fr/LC_MESSAGES").glob("*.mo")):
        for entry in polib.mofile(str(path)):
            pair = " ".join(entry.msgstr.split()), " ".join(entry.msgid.split())
            if all(4 <= len(text) <= 300 for text in pair) and pair not in seen:
                seen.add(pair)
                yield pair


def no_items() -> Iterator[Item]:
    return iter(())


SOURCES = {
    "source": Source("text", python_source, 11_000_000),
    "manuals": Source("text", manual_pages, 6_000_000),
    "documentation": Source("text", documentation, 3_000_000),
    "shakespeare": Source("text", shakespeare, 2_000_000, shuffled=False),
    "play": Source("text", shakespeare, 200_000, shuffled=False),
    "scene": Source("text", shakespeare, 40_000, shuffled=False),
    "stories": Source("text", stories, 1_000_000),
    "multi30k-fr-en": Source("pairs", multi30k("fr", "en"), 30_000),
    "multi30k-en-de": Source("pairs", multi30k("en", "de"), 30_000),
    "catalogs": Source("pairs", catalogs, 26_000),
    "tatoeba": Source("pairs", tatoeba, 5_000),
    "phrasebook": Source("pairs", phrasebook, 20_000),
}
# These stand in no table of regret, and are made where they are asked for.
NAMED = {
    "code": Source("text", python_source, 60_000_000),
    "flickr2016-fr-en": Source("pairs", no_items, 0, parts=read_flickr("fr", "en")),
    "flickr2016-en-de": Source("pairs", no_items, 0, parts=read_flickr("en", "de")),
}


@dataclass(frozen=True)
class Parts:
    """The files of a corpus on disk."""

    name: str
    kind: str
    folder: Path

    def files(self, part: str) -> tuple[str, ...]:
        endings = ("txt",) if self.kind == "text" else ("source", "target")
        return tuple(str(self.folder / f"{part}.{ending}") for ending in endings)


def usual_vocabulary(parts: Parts) -> int:
    """Return how many subwords a corpus of this size gets by default."""
    from regard.data.tokens.tokenizers import default_vocab, pair_vocab

    sizes = [len(Path(name).read_text("utf-8")) for name in parts.files("train")]
    return default_vocab(sizes[0]) if parts.kind == "text" else pair_vocab(max(sizes))


def make_corpora(folder: Path, names: Sequence[str] = ()) -> list[Parts]:
    """Write the corpora that this machine has, once; return them."""
    made = []
    for name, source in (SOURCES | NAMED).items():
        if name not in (names or SOURCES):
            continue
        parts = Parts(name, source.kind, folder / name)
        if not (parts.folder / "made").exists() and not write_parts(parts, source):
            print(f"{name}: nothing of it on this machine, left out")
            continue
        made.append(parts)
    return made


def write_parts(parts: Parts, source: Source) -> bool:
    split = source.parts() if source.parts else split_items(source)
    if not split:
        return False
    parts.folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in split.items():
        for path, column in zip(parts.files(name), zip(*chosen, strict=True), strict=True):
            Path(path).write_text("\n".join(column) + "\n", "utf-8")
    (parts.folder / "made").touch()
    return True


def split_items(source: Source) -> dict[str, list[Item]]:
    items = list(source.items())
    if source.shuffled:
        random.Random(SEED).shuffle(items)
    return (split_text if source.kind == "text" else split_pairs)(items, source.most) if items else {}


def split_pairs(items: list[Item], most: int) -> dict[str, list[Item]]:
    items = items[:most]
    held = min(MOST_HELD["pairs"], int(HELD * len(items)))
    return {"test": items[:held], "valid": items[held : 2 * held], "train": items[2 * held :]}


def split_text(items: list[Item], most: int) -> dict[str, list[Item]]:
    """Split by documents; a single text by characters, its last parts held out."""
    text = "\n".join(document for (document,) in islice(items, 100_000))[:most]
    held = min(MOST_HELD["text"], int(HELD * len(text)))
    return {"train": [(text[: -2 * held],)], "valid": [(text[-2 * held : -held],)], "test": [(text[-held:],)]}
