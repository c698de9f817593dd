"""TMX: translation memories in XML, parsed as they stream.

The parser is expat, and refuses what makes XML dangerous: a DTD of the file's own, entities, anything to be fetched.
A bare DOCTYPE that names the standard's DTD, as translators' tools write it, is passed over and never opened.
Depth, segments and tags have their limits, so that no file can fill the memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from regard.data.pairs.pair_readers import LAYOUT, NO_SIDES, PairSettings, likeness, marker, name_them, unmarked
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import LONGEST, TOO_LONG, RawPair, list_names
from regard.errors import DataError

BLOCK = 2**16
DEEPEST = 64
CODES = {"bpt", "ept", "it", "ph", "ut"}             # what stands inside these is markup of the original, not text
STANDARD_DTD = re.compile(r"(?:.*/)?tmx\d*\.dtd")
UTF8 = re.compile(rb"""\s*(<\?xml(?![^>]*encoding)[^>]*>|<\?xml[^>]*encoding\s*=\s*["']utf-?8["']|<(?!\?))""", re.I)


def read_tmx(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Every translation unit's two segments, chosen by language, with inline markup taken out."""
    if options.languages is None:
        raise DataError(f"{source.name} may hold many languages: {name_them(options)}")
    units = Units(source.name, options.languages)
    with open_source(source) as stream:
        data = stream.read(BLOCK)
        mark = marker(options.on_bad_text) if UTF8.match(data.removeprefix(codecs.BOM_UTF8)) else bytes
        while data:
            units.feed(mark(data))
            yield from (unmarked(found, options, tally) for found in units.take())
            data = stream.read(BLOCK)
        units.feed(b"", last=True)
    if units.number and not units.both:
        raise DataError(f"{source.name} has no unit in both {options.languages[0]!r} and {options.languages[1]!r} "
                        f"(it has: {list_names(sorted(units.languages))}): {name_them(options)}")


class Units:
    """The state of the parser: the unit, variant and segment it is in, and the units that are ready."""

    def __init__(self, name: str, languages: tuple[str, str]):
        self.name, self.wanted = name, languages
        self.ready: list[RawPair] = []
        self.number = self.both = 0                  # units seen; those with both languages
        self.languages: set[str] = set()             # seen so far, for the message when ours are not there
        self.path: list[str] = []                    # open elements
        self.language = ""
        self.parts: list[str] | None = None          # the text of the open segment
        self.size = self.hidden = 0                  # its length; how many open elements hide what is in them
        self.best: list[tuple[int, str | None]] = []         # for each side, likeness and text; None: too long
        self.fed = 0
        self.parser = self._parser()

    def _parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = lambda name, *_: self._refuse(f"declares an entity, {name[:40]!r}")
        parser.ExternalEntityRefHandler = lambda *_: self._refuse("refers to something outside")
        parser.SkippedEntityHandler = lambda name, _: self._refuse(f"uses an unknown entity, {name[:40]!r}")
        return parser

    def feed(self, data: bytes, last: bool = False) -> None:
        try:
            self.parser.Parse(data, last)
        except expat.ExpatError as error:
            cure = "" if last else ", or pass --on-bad-text replace or drop if bytes are bad"
            raise DataError(f"{self.name} line {error.lineno} is not well-formed XML "
                            f"({expat.ErrorString(error.code)}): mend it{cure}") from None
        except (LookupError, ValueError) as error:           # an encoding that Python does not know, or of many bytes
            raise DataError(f"{self.name} is in an encoding that is not read ({error}): convert it to UTF-8") from None
        self.fed += len(data)
        if not last and self.fed - self.parser.CurrentByteIndex > LONGEST:
            self._refuse(f"has a tag or comment of more than {LONGEST // 2**20} MB")

    def take(self) -> list[RawPair]:
        ready, self.ready = self.ready, []
        return ready

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self.name} line {self.parser.CurrentLineNumber} {what}, which is not read as it may be "
                        "an attack: take it out, or export the file anew")

    def _doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal or (system and not STANDARD_DTD.fullmatch(system)):
            self._refuse("has a DTD")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.path and name != "tmx":
            raise DataError(f"{self.name} is XML but not TMX (its first element is {name[:40]!r}): "
                            "give a file that begins with <tmx>")
        if len(self.path) >= DEEPEST:
            self._refuse(f"nests elements more than {DEEPEST} deep")
        self.path.append(name)
        if self.parts is not None:
            self.hidden += name in CODES or self.hidden > 0
        elif name == "tu":
            self.best = [(0, ""), (0, "")]
        elif name == "tuv":
            self.language = (attributes.get("xml:lang") or attributes.get("lang") or "")[:40]
        elif name == "seg":
            self.parts, self.size, self.hidden = [], 0, 0

    def _data(self, text: str) -> None:
        if self.parts is None or self.hidden:
            return
        self.size += len(text)
        if self.size <= LONGEST:
            self.parts.append(text)

    def _end(self, name: str) -> None:
        self.path.pop()
        if self.hidden:
            self.hidden -= 1
        elif name == "seg" and self.parts is not None and "seg" not in self.path:
            self._segment("".join(self.parts).strip(LAYOUT) if self.size <= LONGEST else None)
            self.parts = None
        elif name == "tu" and self.parts is None and self.best:
            self._unit()

    def _segment(self, text: str | None) -> None:
        if len(self.languages) < 100:
            self.languages.add(self.language)
        for side, wanted in enumerate(self.wanted):
            score = likeness(wanted, self.language)
            if self.best and score > self.best[side][0]:
                self.best[side] = (score, text)

    def _unit(self) -> None:
        self.number += 1
        where = f"{self.name} line {self.parser.CurrentLineNumber}"
        (first, source), (second, target) = self.best
        self.both += bool(first and second)
        if not (first and second):
            self.ready.append(RawPair(where, lost=NO_SIDES))
        elif source is None or target is None:
            self.ready.append(RawPair(where, lost=TOO_LONG))
        else:
            self.ready.append(RawPair(where, source, target))
        self.best = []
