"""The laws of a LanguageModel, in the order in which they are tried.   B batch · T time · V vocabulary"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.laws.law import Law, LawBroken, LawSkipped, bit_equal
from regard.laws.layer_laws import READING_LAWS
from regard.laws.reader import ModelReader


def shapes(reader: ModelReader) -> None:
    """score gives (B, T) and step gives (B, V); no state in, no state out."""
    model, batch, time = reader.thing, reader.batch, reader.time
    if not isinstance(getattr(model, "vocab", None), int):
        raise LawBroken("shapes", "vocab is not set: the number of tokens the model knows")
    inputs = reader.draw(batch, time)
    with reader.mode(training=False):
        scores, state = reader.read(inputs, reader.start(batch) if reader.sources else None)
        _shaped(scores, (batch, time), "score gives (B, T)")
        if not reader.sources and state is not None:
            raise LawBroken("shapes", f"without a state, score returned a {type(state).__name__}: none in, none out")
        following, _ = model.step(inputs[..., 0].contiguous(), reader.start(batch, capacity=time))
        _shaped(following, (batch, model.vocab), "step gives (B, V)")


def _shaped(values: Tensor, expected: tuple[int, ...], rule: str) -> None:
    if tuple(values.shape) != expected:
        raise LawBroken("shapes", f"{rule}: expected {expected}, got {tuple(values.shape)}")


def probabilities(reader: ModelReader) -> None:
    """step gives logarithms of probabilities that sum to one."""
    with reader.mode(training=False):
        said = reader.each_step(reader.draw(reader.batch, reader.time))
    total = said.logsumexp(-1)
    reader.same("probabilities", total, torch.zeros_like(total), "the logarithm of their sum")


def steps(reader: ModelReader) -> None:
    """score is what step says about the targets, whatever was read at once."""
    inputs = reader.draw(reader.batch, reader.time)
    targets = inputs[..., 1]
    with reader.mode(training=False):
        scores, by_step = reader.whole(inputs), reader.each_step(inputs)
        reader.same("steps", by_step.gather(-1, targets[..., None])[..., 0], scores, "the targets' share of each step")
        for _ in range(3):
            counts = reader.whole_numbers(1, reader.time, reader.batch)
            tokens = reader.padded(inputs, counts)[..., 0].contiguous()
            lengths = reader.lengths(counts)
            following, _ = reader.thing.step(tokens, reader.start(reader.batch, reader.time), lengths)
            rows = torch.arange(reader.batch, device=by_step.device)
            reader.same("steps", following, by_step[rows, lengths - 1], f"one step over rows of lengths {counts}")


def targets(reader: ModelReader) -> None:
    """Changing a target changes its own score and no other."""
    inputs = reader.draw(reader.enough_rows(reader.time), reader.time)
    rows = torch.arange(len(inputs), device=inputs.device)
    places, changed = rows % reader.time, inputs.clone()                       # each row has another target at its own
    changed[rows, places, 1] = (changed[rows, places, 1] + 1) % reader.thing.vocab
    for name, training, read in reader.ways_to_read():
        with reader.mode(training=training):
            before, after = read(inputs), read(changed)
        after[rows, places] = before[rows, places]
        for t in range(reader.time):
            own = slice(t, None, reader.time)
            bit_equal("targets", after[own], before[own], f"{name}, after the target at position {t} changed")


def needs_source(reader: ModelReader) -> None:
    """A model that needs a source refuses to start without one."""
    model = reader.thing
    if not model.needs_source:
        raise LawSkipped("it needs no source")
    for capacity in (None, reader.time):
        try:
            model.start(reader.batch, capacity)
        except (RegardError, ValueError):
            continue
        except Exception as error:
            raise LawBroken("source", f"started without a source it crashed with {type(error).__name__} instead of "
                            "saying that it needs one (raise a SettingError)") from None
        raise LawBroken("source", f"start(batch, {capacity}) was accepted without a source")


MODEL_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", shapes, "score must return (scores, state) and step (log-probabilities, state)"),
    *READING_LAWS,
    Law("steps", steps, "step must answer at each row's last real token (last_real), with the same head as score"),
    Law("probabilities", probabilities, "logits instead of log-probabilities: end with log_softmax over the tokens"),
    Law("targets", targets, "targets are read as if they were tokens, or the loss is averaged over them"),
    Law("source", needs_source, "start must raise a SettingError when needs_source and no source is given"),
)}
