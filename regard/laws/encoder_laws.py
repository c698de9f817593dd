"""The laws of an Encoder, which reads a whole source in any direction it likes.   S sources · L source length · D width

shapes · padding · order · watching · train is eval · gradients · parameters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from regard.contract import Encoder, Memory, Source
from regard.laws.check import Report, try_laws
from regard.laws.gradient_laws import reach_all
from regard.laws.law import Law, LawBroken, all_finite, bit_equal, same
from regard.laws.prepared import prepared
from regard.watching import watch


class EncoderReader:
    """An encoder of tokens, and sources drawn for it."""

    def __init__(self, encoder: Encoder, *, vocab: int, sources: int = 3, length: int = 6, seed: int = 0):
        self.encoder, self.vocab, self.sources, self.length = encoder, vocab, sources, length
        weight = next(encoder.parameters())
        self.dtype, self.device = weight.dtype, weight.device
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, sources: int, length: int) -> Tensor:
        return torch.randint(0, self.vocab, (sources, length), generator=self.random).to(self.device)

    def in_float64(self) -> EncoderReader:
        """A prepared copy, with a few short sources: gradients are asked of every one of their outputs."""
        return EncoderReader(prepared(self.encoder, torch.float64), vocab=self.vocab, sources=3, length=3)

    def sizes(self) -> Sequence[tuple[int, int]]:
        """The numbers of sources and of positions to try."""
        return (self.sources, self.length), (1, 1), (2, 3)

    def ragged(self, counts: Sequence[int]) -> Tensor | None:
        """Lengths for a batch of sources; none, where a source always fills its row."""
        return self.lengths(counts)

    def lengths(self, counts: Sequence[int]) -> Tensor:
        return torch.tensor(list(counts), device=self.device)

    def draws_of_lengths(self) -> Iterator[list[int]]:
        """Lengths of sources, among them none and all."""
        for _ in range(3):
            yield torch.randint(1, self.length + 1, (self.sources,), generator=self.random).tolist()
        yield [0, self.length, *[1] * self.sources][:self.sources]

    @contextmanager
    def mode(self, *, training: bool) -> Iterator[None]:
        before = self.encoder.training
        self.encoder.train(training)
        try:
            with torch.set_grad_enabled(training):
                yield
        finally:
            self.encoder.train(before)


class PictureReader(EncoderReader):
    """An encoder of pictures (S, C, height, width), in bytes: each fills its row, so only neighbours could leak."""

    def __init__(
        self, encoder: Encoder, *, picture: tuple[int, int, int], length: int, sources: int = 3, seed: int = 0
    ):
        super().__init__(encoder, vocab=256, sources=sources, length=length, seed=seed)
        self.picture = picture

    def draw(self, sources: int, length: int) -> Tensor:
        return torch.randint(0, 256, (sources, *self.picture), generator=self.random, dtype=torch.uint8).to(self.device)

    def in_float64(self) -> PictureReader:
        return PictureReader(prepared(self.encoder, torch.float64), picture=self.picture, length=self.length, sources=2)

    def sizes(self) -> Sequence[tuple[int, int]]:
        return (self.sources, self.length), (1, self.length)

    def ragged(self, counts: Sequence[int]) -> None:
        return None

    def draws_of_lengths(self) -> Iterator[list[int]]:
        yield from ()


def compared(memory: Memory) -> dict[str, Tensor]:
    """The tensors of a memory that must be equal, under names for messages."""
    found = {"the vectors": memory.vectors, "the lengths": memory.lengths}
    return found if memory.summary is None else found | {"the summary": memory.summary}


def shapes(reader: EncoderReader) -> None:
    """Sources of L positions become vectors (S, L, d_out); lengths are told whether they were given or not."""
    if not isinstance(getattr(reader.encoder, "d_out", None), int):
        raise LawBroken("shapes", "d_out is not set: give it in __init__, as self.d_out = ...")
    for sources, length in reader.sizes():
        items = reader.draw(sources, length)
        for lengths in (None, reader.ragged([max(1, length - 1)] * sources)):
            with reader.mode(training=False):
                original = items.clone()
                memory = reader.encoder(Source(items, lengths))
            bit_equal("shapes", items, original, "the source was written into")
            wanted = (sources, length, reader.encoder.d_out)
            if tuple(memory.vectors.shape) != wanted:
                raise LawBroken("shapes", f"the vectors are {tuple(memory.vectors.shape)}, not {wanted}")
            told = reader.lengths([length] * sources) if lengths is None else lengths
            bit_equal("shapes", memory.lengths, told, "the lengths of the memory")
            if memory.summary is not None and (memory.summary.ndim != 2 or len(memory.summary) != sources):
                raise LawBroken("shapes", f"the summary is {tuple(memory.summary.shape)}, not ({sources}, D)")


def padding(reader: EncoderReader) -> None:
    """A source gives the same alone and in any batch: its pads and neighbours, whatever they hold, change nothing."""
    with reader.mode(training=False):
        _neighbours_are_silent(reader)
        for counts in reader.draws_of_lengths():
            real, noise = (reader.draw(reader.sources, reader.length + 2) for _ in range(2))
            inside = torch.arange(reader.length + 2, device=reader.device) < reader.lengths(counts)[:, None]
            memory = reader.encoder(Source(torch.where(inside, real, noise), reader.lengths(counts)))
            changed = (noise + 1) % reader.vocab                   # another token at every pad
            other = reader.encoder(Source(torch.where(inside, real, changed), reader.lengths(counts)))
            for name, values in compared(memory).items():
                all_finite("padding", values, f"{name} of sources of lengths {counts}")
            for row, n in enumerate(counts):
                where = f"source {row} in a batch of lengths {counts}"
                if memory.summary is not None and other.summary is not None:
                    same("padding", other.summary[row], memory.summary[row], f"the summary of {where}, with other pads",
                         dtype=reader.dtype)
                if n:
                    _stands_alone(reader, reader.encoder(Source(real[row:row + 1, :n])), memory, row, n, where)


def _neighbours_are_silent(reader: EncoderReader) -> None:
    items = reader.draw(reader.sources, reader.length)
    for row in range(reader.sources):
        beside = reader.draw(reader.sources, reader.length)
        beside[row] = items[row]
        lone, memory = reader.encoder(Source(items[row:row + 1])), reader.encoder(Source(beside))
        _stands_alone(reader, lone, memory, row, reader.length, f"source {row} beside others")


def _stands_alone(reader: EncoderReader, lone: Memory, memory: Memory, row: int, n: int, where: str) -> None:
    same("padding", memory.vectors[row:row + 1, :n], lone.vectors, f"the vectors of {where}", dtype=reader.dtype)
    if lone.summary is not None and memory.summary is not None:
        same("padding", memory.summary[row:row + 1], lone.summary, f"the summary of {where}", dtype=reader.dtype)


def order(reader: EncoderReader) -> None:
    """Sources in another order, or several times over, give the same memories in that order."""
    items = reader.draw(reader.sources, reader.length)
    lengths = reader.ragged([1 + row % reader.length for row in range(reader.sources)])
    rows = reader.lengths([*reversed(range(reader.sources)), 0, 0])
    with reader.mode(training=False):
        expected = compared(reader.encoder(Source(items, lengths)))
        found = compared(reader.encoder(Source(items, lengths).map(lambda t: t[rows])))
    for name, values in expected.items():
        same("order", found[name], values[rows], f"{name} of sources in another order", dtype=reader.dtype)


def watching(reader: EncoderReader) -> None:
    """Watching changes no number."""
    items = reader.draw(reader.sources, reader.length)
    lengths = reader.ragged([1 + row % reader.length for row in range(reader.sources)])
    for training in (False, True):
        with reader.mode(training=training):
            unseen = compared(reader.encoder(Source(items, lengths)))
            with watch():
                seen = compared(reader.encoder(Source(items, lengths)))
            after = compared(reader.encoder(Source(items, lengths)))
        for name, values in unseen.items():
            bit_equal("watching", seen[name], values, f"{name} while watched")
            bit_equal("watching", after[name], values, f"{name} after having been watched")


def train_is_eval(reader: EncoderReader) -> None:
    """Without dropout, train mode and eval mode give the same."""
    items = reader.draw(reader.sources, reader.length)
    with reader.mode(training=False):
        expected = compared(reader.encoder(Source(items)))
    with reader.mode(training=True):
        found = compared(reader.encoder(Source(items)))
    for name, values in expected.items():
        same("train is eval", found[name], values, f"{name} in train mode", dtype=reader.dtype)


def gradients(reader: EncoderReader) -> None:
    """The gradients of the parameters are those of the outputs, and no pad has a part in them; in float64."""
    reader = reader.in_float64()
    items, lengths = reader.draw(reader.sources, reader.length), reader.ragged([0, 3, 2])
    real = torch.ones(reader.sources, reader.length, dtype=torch.bool, device=reader.device)
    noise = items
    if lengths is not None:
        real = torch.arange(reader.length, device=reader.device) < lengths[:, None]
        noise = torch.where(real, items, reader.draw(reader.sources, reader.length))
    named = {name: weight for name, weight in reader.encoder.named_parameters() if weight.requires_grad}

    def outputs(tokens: Tensor) -> Tensor:
        memory = reader.encoder(Source(tokens, lengths))
        parts = [memory.vectors[real].flatten()]
        return torch.cat([*parts, memory.summary.flatten()] if memory.summary is not None else parts)

    with reader.mode(training=True):
        for name, weight in named.items():
            _right(lambda: outputs(items), weight, name)
        quiet, noisy = (_gradients_of(outputs(tokens), list(named.values())) for tokens in (items, noise))
    for name, expected, found in zip(named, quiet, noisy, strict=True):
        all_finite("gradients", expected, f"the gradient of {name} in a padded batch")
        same("gradients", found, expected, f"the gradient of {name} with other tokens at the pads")


def parameters(reader: EncoderReader) -> None:
    """Every parameter that is learned has a part in the vectors or in the summary."""
    named = {name: weight for name, weight in reader.encoder.named_parameters() if weight.requires_grad}
    with reader.mode(training=True):
        memory = reader.encoder(Source(reader.draw(reader.sources, reader.length)))
        parts = [memory.vectors.flatten(), *([] if memory.summary is None else [memory.summary.flatten()])]
        reach_all(dict(zip(named, _gradients_of(torch.cat(parts), list(named.values())), strict=True)))


def _right(outputs: Callable[[], Tensor], weight: Tensor, name: str) -> None:
    """Against finite differences; gradcheck nudges the very tensor that the encoder computes with."""
    try:
        torch.autograd.gradcheck(lambda _: outputs(), (weight,), fast_mode=True, nondet_tol=1e-10)
    except GradcheckError as error:
        told = " ".join(str(error).split())
        raise LawBroken("gradients", f"the gradient of {name} is not that of the output: {told[:160]}") from None


def _gradients_of(outputs: Tensor, weights: list[Tensor]) -> tuple[Tensor, ...]:
    pull = torch.arange(outputs.numel(), device=outputs.device, dtype=outputs.dtype).cos()
    return torch.autograd.grad((outputs * pull).sum(), weights, allow_unused=True, materialize_grads=True)


ENCODER_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", "sources of L positions become vectors (S, L, d_out), with lengths",
        "d_out is not what comes out, or lengths are forgotten when none are given", shapes),
    Law("padding", "pads and neighbours change nothing of a source",
        "attention reads the pads (mask the keys), a reverse reader starts at them, or a mean counts them", padding),
    Law("order", "sources in another order give their memories in that order",
        "something is kept from row to row, or depends on the place in the batch", order),
    Law("watching", "watching changes no number", "the watched path computes the output itself", watching),
    Law("train is eval", "without dropout, train mode and eval mode give the same",
        "a statistic of the batch is used in training", train_is_eval),
    Law("gradients", "the gradients are those of the outputs, and no pad has a part in them",
        "a detach, an in-place change, or a fully masked row that becomes NaN", gradients),
    Law("parameters", "every parameter has a part in the vectors or the summary",
        "a matrix that is made and never read, or a .detach() on its way: leave it out, or use it", parameters),
)}


def check_encoder(
    encoder: Encoder | Callable[[], Encoder], *, vocab: int, dtype: torch.dtype | None = torch.float64, seed: int = 0
) -> Report:
    """Try every law on a copy of this encoder of token ids below `vocab`, in float64 unless told otherwise."""
    made = encoder if isinstance(encoder, Encoder) else encoder()
    return try_laws(type(made).__name__, ENCODER_LAWS, EncoderReader(prepared(made, dtype), vocab=vocab, seed=seed))
