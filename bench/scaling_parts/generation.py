"""Generation by every family: a prompt, one token after so many, the whole of a text; beams; blanks.

A language model reads a prompt and then one token at a time; a translator and a captioner search with beams; a masked
model fills blanks. Nothing is trained: the weights are drawn, and no end is ever said. Bytes are, of a prompt, those of
the largest tensor that is made; of one token, those of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from regard.contract import Source
from regard.data.tokens.vocabulary import BOS, EOS, FIRST, PAD, UNK
from regard.decoding.beam import BeamOptions, beam_search, search_batches
from regard.decoding.fill import fill_places
from regard.decoding.sampling import Sampling
from regard.decoding.source_batches import in_batches, text_batches
from regard.decoding.special_tokens import SpecialTokens
from regard.decoding.stream import generate_tokens
from scaling_parts.curve import Curve, Setting, Work, doubling, largest_tensor
from scaling_parts.families import ATTENDS, PATCH, VOCAB, Kind, kinds

GREEDY = Sampling(temperature=0.0)
NEVER = (PAD, BOS, EOS, UNK)


def curves(setting: Setting) -> Iterator[Curve]:
    for kind in kinds():
        if kind.task == "lm":
            yield from writing(kind, setting)
        elif kind.task == "masked":
            yield filling(kind, setting)
        else:
            yield from searching(kind, setting)
    yield from of_sources(setting)


# --------------------------------------------------------------------------------------- language models


def writing(kind: Kind, setting: Setting) -> Iterator[Curve]:
    attends = kind.name in ATTENDS

    def one_token(length: int) -> Work:
        model: Any = kind.build(setting, length=length + 2).eval()
        state = model.start(1, length + 1)
        with torch.no_grad():
            for piece in drawn(length, setting).split(256, 1):
                _, state = model.step(piece, state)

        def run() -> None:
            with torch.no_grad():
                model.step(drawn(1, setting), state)     # again and again from the same state, into the same slot

        return Work(run, state.nbytes)

    def prompt(length: int) -> Work:
        model: Any = kind.build(setting, length=length + 2).eval()

        def run() -> None:
            with torch.no_grad():
                model.step(drawn(length, setting), model.start(1, length + 1))

        return Work(run, lambda: largest_tensor(run))

    def whole(length: int) -> Work:
        model: Any = kind.build(setting, length=length + 2).eval()
        return Work(lambda: list(generate_tokens(model, [[BOS]], new_tokens=length, sampling=GREEDY, banned=NEVER)))

    longest = setting.pick(8192, 65536)
    yield Curve(f"{kind.name}: prompt", "length", doubling(64, longest), prompt, 2.0 if attends else 1.0, 1.0)
    yield Curve(f"{kind.name}: one token after", "length", doubling(256, longest), one_token, 1.0 if attends else 0.0,
                1.0 if attends else 0.0)
    yield Curve(f"{kind.name}: all tokens of", "length", doubling(32, longest), whole, 2.0 if attends else 1.0)


def drawn(length: int, setting: Setting, rows: int = 1) -> torch.Tensor:
    return torch.randint(FIRST, VOCAB, (rows, length), generator=torch.Generator().manual_seed(0)).to(setting.device)


# -------------------------------------------------------------------------------- what reads a source


def searching(kind: Kind, setting: Setting) -> Iterator[Curve]:
    def search(length: int = 8, beams: int = 4, rows: int = 1) -> Work:
        model: Any = kind.build(setting, length=length + 2, image=4 * PATCH, patch=PATCH).eval()
        if kind.task == "caption":
            source = Source(torch.zeros(rows, 3, 4 * PATCH, 4 * PATCH, dtype=torch.uint8, device=setting.device))
        else:
            source = Source(drawn(length, setting, rows), torch.full((rows,), length, device=setting.device))
        options = BeamOptions(beams, n_best=1)
        return Work(lambda: beam_search(model, source, limits=[length] * rows, begin=BOS, end=EOS, options=options,
                                        banned=NEVER))

    most = 2.0 if kind.name in ATTENDS else 1.0
    name = f"{kind.name}: beam search"
    yield Curve(name, "length", doubling(16, setting.pick(512, 2048)), lambda n: search(length=n), most)
    yield Curve(name, "beams", doubling(4, 1024), lambda n: search(beams=n), 1.0)
    yield Curve(name, "sources", doubling(4, 4096), lambda n: search(rows=n), 1.0)


def of_sources(setting: Setting) -> Iterator[Curve]:
    """Many sources: how they are put into batches, and all of it with the least model."""
    lengths = [5 + at % 40 for at in range(2**20)]
    yield Curve("translate: sources put into batches", "sources", doubling(2**13, 2**19),
                lambda n: Work(lambda: [len(some) for some in in_batches(lengths[:n], 1024)]), 1.0)
    kind = next(each for each in kinds() if each.name == "translate rnn")
    model: Any = kind.build(setting, width=8, layers=1, length=8).eval()

    def all_of_them(count: int) -> Work:
        sources = [row.tolist() for row in drawn(6, setting, count)]
        special_tokens, options = SpecialTokens(BOS, EOS, NEVER), BeamOptions(1)
        return Work(lambda: search_batches(model, text_batches(model, sources, 8, beams=1), special_tokens, options))

    yield Curve("translate: all sources", "sources", doubling(256, 2**15), all_of_them, 1.0)


def filling(kind: Kind, setting: Setting) -> Curve:
    """Each blank is filled in the light of those before, by reading the text once more."""

    def fill(blanks: int) -> Work:
        model: Any = kind.build(setting, length=4 * blanks).eval()
        row, places = drawn(4 * blanks, setting)[0], list(range(0, 4 * blanks, 4))
        row[places] = model.mask

        def run() -> None:
            with torch.no_grad():
                fill_places(model, row, places, beams=2)

        return Work(run)

    return Curve(f"{kind.name}: filling blanks", "blanks", doubling(8, 256), fill,
                 3.0 if kind.name in ATTENDS else 2.0)
