"""The laws of an Encoder, which reads a whole source in any direction it likes.   S sources · L source length · D width

shapes · padding · order · watching · train is eval · gradients · parameters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from regard.contract import Encoder, Source
from regard.laws.check import Report, try_laws
from regard.laws.law import Law, LawBroken, bit_equal
from regard.laws.prepared import prepared
from regard.laws.whole_laws import WHOLE_LAWS, WholeReader


class EncoderReader(WholeReader):
    """An encoder of tokens, and sources drawn for it."""

    def __init__(self, encoder: Encoder, *, vocab: int, sources: int = 3, length: int = 6, seed: int = 0):
        super().__init__(encoder, batch=sources, time=length, seed=seed)
        self.vocab = vocab

    def draw(self, batch: int, time: int) -> Tensor:
        return torch.randint(0, self.vocab, (batch, time), generator=self.random).to(self.device)

    def outputs(self, items: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
        memory = self.thing(Source(items, lengths))
        named = {"the vectors": memory.vectors, "the lengths": memory.lengths[:, None]}
        return named if memory.summary is None else named | {"the summary": memory.summary}

    def learned(self, items: Tensor, lengths: Tensor | None = None) -> Tensor:
        memory = self.thing(Source(items, lengths))
        real = memory.vectors if lengths is None else memory.vectors[self.inside(lengths)]
        return torch.cat([each.flatten() for each in (real, memory.summary) if each is not None])

    def in_float64(self) -> EncoderReader:
        """A prepared copy, with a few short sources: gradients are asked of every one of their outputs."""
        return EncoderReader(prepared(self.thing, torch.float64), vocab=self.vocab, sources=3, length=3)

    def some_counts(self) -> list[int]:
        """Lengths of sources: none, all, and all but one."""
        return [0, self.time, *[self.time - 1] * self.batch][:self.batch]

    def sizes(self) -> Sequence[tuple[int, int]]:
        """The numbers of sources and of positions to try."""
        return (self.batch, self.time), (1, 1), (2, 3)

    def draws_of_lengths(self) -> Iterator[list[int]]:
        yield from super().draws_of_lengths()
        yield [0, self.time, *[1] * self.batch][:self.batch]


class PictureReader(EncoderReader):
    """An encoder of pictures (S, C, height, width), in bytes: each fills its row, so only neighbours could leak."""

    def __init__(
        self, encoder: Encoder, *, picture: tuple[int, int, int], length: int, sources: int = 3, seed: int = 0
    ):
        super().__init__(encoder, vocab=256, sources=sources, length=length, seed=seed)
        self.picture = picture

    def draw(self, batch: int, time: int) -> Tensor:
        return torch.randint(0, 256, (batch, *self.picture), generator=self.random, dtype=torch.uint8).to(self.device)

    def in_float64(self) -> PictureReader:
        return PictureReader(prepared(self.thing, torch.float64), picture=self.picture, length=self.time, sources=2)

    def sizes(self) -> Sequence[tuple[int, int]]:
        return (self.batch, self.time), (1, self.time)

    def ragged(self, counts: Sequence[int]) -> None:
        return None

    def padded(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        return inputs

    def draws_of_lengths(self) -> Iterator[list[int]]:
        yield [self.time] * self.batch


def shapes(reader: EncoderReader) -> None:
    """Sources of L positions become vectors (S, L, d_out), with lengths, whether they were given or not."""
    if not isinstance(getattr(reader.thing, "d_out", None), int):
        raise LawBroken("shapes", "d_out is not set: give it in __init__, as self.d_out = ...")
    for sources, length in reader.sizes():
        items = reader.draw(sources, length)
        for lengths in (None, reader.ragged([max(1, length - 1)] * sources)):
            with reader.mode(training=False):
                original = items.clone()
                memory = reader.thing(Source(items, lengths))
            bit_equal("shapes", items, original, "the source was written into")
            wanted = (sources, length, reader.thing.d_out)
            if tuple(memory.vectors.shape) != wanted:
                raise LawBroken("shapes", f"the vectors are {tuple(memory.vectors.shape)}, not {wanted}")
            told = reader.lengths([length] * sources) if lengths is None else lengths
            bit_equal("shapes", memory.lengths, told, "the lengths of the memory")
            if memory.summary is not None and (memory.summary.ndim != 2 or len(memory.summary) != sources):
                raise LawBroken("shapes", f"the summary is {tuple(memory.summary.shape)}, not ({sources}, D)")


ENCODER_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", shapes, "d_out is not what comes out, or lengths are forgotten when none are given"), *WHOLE_LAWS)}


def check_encoder(
    encoder: Encoder | Callable[[], Encoder], *, vocab: int, dtype: torch.dtype | None = torch.float64, seed: int = 0
) -> Report:
    """Try every law on a copy of this encoder of token ids below `vocab`, in float64 unless told otherwise."""
    made = encoder if isinstance(encoder, Encoder) else encoder()
    return try_laws(type(made).__name__, ENCODER_LAWS, EncoderReader(prepared(made, dtype), vocab=vocab, seed=seed))
