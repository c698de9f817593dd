"""The check at the end of an export: the program that opens it must say what our model says.

Log-probabilities on held-out lines, and what each would write, token by token.   T tokens · V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.contract import Source
from regard.decoding.sampling import Sampling
from regard.decoding.special_tokens import text_special_tokens
from regard.decoding.stream import generate_tokens
from regard.errors import RegardError, RunError
from regard.interop.target import ExportSubject, OpenedExport, Tolerance

LINES, LONGEST, WRITTEN = 100, 64, 50
LONG, NUMBERS = 512, 2**24                 # tokens of the two longest lines, and log-probabilities of each at most


@dataclass(frozen=True)
class CheckLine:
    """A line to compare on: token ids from <bos> on, and of a translator the source's with its end, or a picture."""

    tokens: tuple[int, ...]
    source: Any = None                     # ids, or pixels (3, height, width)


@dataclass(frozen=True)
class Checked:
    """The distance of an export from our model, in the program that opened it."""

    program: str
    version: str
    difference: float                      # the largest, of a log-probability
    choices: float                         # the share of positions with the same likeliest token
    same_text: bool                        # both wrote the same, token by token
    lines: int
    of: str                                # "held-out lines", or "lines that the model wrote itself"
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        choices = "all choices equal" if self.choices == 1.0 else f"{self.choices:.2%} of choices equal"
        text = "" if self.same_text else "; the greedy texts part where choices are close"
        return (f"checked in {self.program} {self.version} on {self.lines} {self.of}: largest difference "
                f"{self.difference:.1e}, {choices}{text}")


# ----------------------------------------------------------------------------------------------- lines


def find_lines(subject: ExportSubject, *, held_out: bool = True) -> tuple[list[CheckLine], str]:
    """Return lines to compare on, and which they are: held out by the run if its data are there, else its own."""
    given = _held_out(subject) if held_out else []
    if given:
        return _with_long_ones(given, subject), "held-out lines"
    return _with_long_ones(_written(subject), subject), "lines that the model wrote itself"


def _with_long_ones(lines: list[CheckLine], subject: ExportSubject) -> list[CheckLine]:
    """Join the lines to two long ones in the place of the last two: windows, chunks and tables of positions go wrong
    only far from the beginning. A model that reads a source has its lines as they are."""
    network = subject.network
    long = min(LONG, getattr(network, "context", None) or subject.trained.context, NUMBERS // network.vocab)
    if long <= LONGEST or lines[0].source is not None or not hasattr(network, "encode"):
        return lines
    begin, joined = lines[0].tokens[:1], [token for line in lines for token in line.tokens[1:]]
    return [*lines[:-2], *(CheckLine((*begin, *part)) for part in (joined[:long - 1], joined[-(long - 1):]))]


def _held_out(subject: ExportSubject) -> list[CheckLine]:
    corpus = subject.corpus
    if corpus is None:
        return []
    target = _cut(corpus.valid, subject)
    if not hasattr(corpus, "source_valid"):
        return [CheckLine(line) for line in target]
    if subject.reads_pictures:
        some = np.linspace(0, len(corpus.source_valid) - 1, len(target)).astype(int)
        pictures = corpus.source_valid.padded(some)[0]
        return [CheckLine(line, picture) for line, picture in zip(target, pictures, strict=True)]
    sources = _cut(corpus.source_valid, subject, whole=True)
    return [CheckLine(line, source) for line, source in zip(target, sources, strict=False) if source]


def _cut(shard: Any, subject: ExportSubject, whole: bool = False) -> list[tuple[int, ...]]:
    """The first tokens of some documents, spread evenly: behind <bos>, or `whole` with their end."""
    t, most = subject.tokenizer, _longest(subject)
    ends = np.asarray(shard.ends, np.int64)
    if len(ends) < LINES and not whole:                      # few long documents: windows
        starts = np.linspace(0, max(0, len(shard.tokens) - most), LINES).astype(int)
        return [(t.bos, *shard.tokens[start:start + most - 1].tolist()) for start in starts]
    firsts = np.append(0, ends[:-1])
    some = np.unique(np.linspace(0, len(ends) - 1, LINES).astype(int))
    lines = [shard.tokens[firsts[n]:ends[n]].tolist() for n in some]
    if whole:
        return [tuple(line) if len(line) <= subject.trained.context else () for line in lines]
    return [(t.bos, *line[:most - 1]) for line in lines]


def _longest(subject: ExportSubject) -> int:
    context = getattr(subject.network, "context", None)
    return min(LONGEST, context) if context else LONGEST


def _written(subject: ExportSubject) -> list[CheckLine]:
    """Lines drawn from the model with fixed seeds; from a model that needs a source, of random sources."""
    network, t, most = subject.network, subject.tokenizer, _longest(subject)
    generator = torch.Generator().manual_seed(0)
    vocab = t.vocab_size
    if not subject.writes_on or getattr(network, "needs_source", False):
        rows = torch.randint(4, vocab, (LINES, min(most - 1, 24)), generator=generator).tolist()
        sources: Any = [(*row[::-1], t.eos) for row in rows] if subject.writes_on else [None] * LINES
        if subject.reads_pictures:
            sources = torch.randint(0, 256, (LINES, 3, *network.encoder.size), generator=generator).byte().numpy()
        return [CheckLine((t.bos, *row), source) for row, source in zip(rows, sources, strict=True)]
    rows, special = [[t.bos] for _ in range(LINES)], text_special_tokens(t)
    alive = [True] * LINES
    for step in generate_tokens(network, [[t.bos]] * LINES, new_tokens=most - 1, sampling=Sampling(1.0, 0, 1.0, 0),
                                end=special.end, banned=special.banned):
        for n, token in enumerate(step):
            alive[n] = alive[n] and token is not None
            if alive[n]:
                rows[n].append(int(token))                                             # type: ignore[arg-type]
    return [CheckLine(tuple(row)) for row in rows]


# ------------------------------------------------------------------------------------------------ ours


@torch.no_grad()
def our_log_probs(network: Any, line: CheckLine) -> Tensor:
    """Return (T, V) in float32: after each token what follows; of a masked model, what stands there."""
    tokens = torch.tensor([line.tokens], device=getattr(network, "device", None))
    if not hasattr(network, "step"):
        return network.predict(tokens, torch.arange(tokens.shape[1])[None])[0].float().cpu()
    if not hasattr(network, "encode"):                       # an n-gram
        state, rows = network.start(1, tokens.shape[1]), []
        for token in tokens[0]:
            log_probs, state = network.step(token.view(1, 1), state)
            rows.append(log_probs[0].float())
        return torch.stack(rows)
    state = None if line.source is None else network.start(1, None, source_of(network, line))
    return network.head(network.encode(tokens, state)[0])[0].float().cpu()


def source_of(network: Any, line: CheckLine) -> Source:
    if isinstance(line.source, np.ndarray):
        return Source(torch.from_numpy(line.source[None]).to(network.device))
    items = torch.tensor([line.source], device=network.device)
    return Source(items, torch.tensor([len(line.source)], device=network.device))


@torch.no_grad()
def our_greedy(network: Any, line: CheckLine, count: int, end: int) -> tuple[list[int], list[float]]:
    """Return the likeliest tokens one after another, by steps, and how much likelier each is than the next best."""
    prompt = torch.tensor([line.tokens], device=getattr(network, "device", None))
    source = () if line.source is None else (source_of(network, line),)
    state = network.start(1, prompt.shape[1] + count, *source)
    written: list[int] = []
    margins: list[float] = []
    read = prompt
    while len(written) < count and (not written or written[-1] != end):
        log_probs, state = network.step(read, state)
        best = log_probs[0].float().topk(2)
        written.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        read = torch.tensor([[written[-1]]], device=prompt.device)
    return written, margins


# --------------------------------------------------------------------------------------------- compared


def check_export(
    subject: ExportSubject, opened: OpenedExport, tolerance: Tolerance, lines: Sequence[CheckLine] | None = None,
    of: str = "lines",
) -> Checked:
    """Compare and return how far apart they are; beyond the tolerance is a RunError. `lines` are found unless given."""
    if lines is None:
        lines, of = find_lines(subject)
    network = subject.network
    if hasattr(network, "eval"):
        network.eval()
    largest, same, wrong, positions, seen = 0.0, 0, 0, 0, 0
    for line in lines:
        ours = subject.counting.columns(our_log_probs(network, line))
        read = subject.counting.theirs(line.tokens)
        with asked(opened):
            told = opened.log_probs(read, their_source(subject, line))
        theirs = torch.as_tensor(np.asarray(told), dtype=torch.float32)
        if theirs.shape != ours.shape:
            raise RunError(f"{opened.program} {opened.version} gives {tuple(theirs.shape)} log-probabilities where the "
                           f"model gives {tuple(ours.shape)}: the export was not kept")
        largest = float(np.maximum(largest, largest_difference(ours, theirs)))          # max would lose a NaN
        margin = ours.topk(2).values
        near = (margin[:, 0] - margin[:, 1]) <= 2 * tolerance.difference               # as good as equal
        equal = ours.argmax(-1) == theirs.argmax(-1)
        same += int(equal.sum())
        wrong += int((~equal & ~near).sum())
        positions += len(ours)
        seen += 1
        if opened.most and positions * ours.shape[1] >= opened.most:
            break
    same_text, differs = _compare_texts(subject, opened, lines[0], tolerance)
    _compare_tokens(subject, opened, lines)
    checked = Checked(opened.program, opened.version, largest, same / positions, same_text, seen, of, opened.notes)
    if not largest <= tolerance.difference:                                            # `not <=` refuses NaN too
        raise RunError(f"{checked.describe()}: more than {tolerance.difference:.1e}; the export was not kept")
    if tolerance.same_choices and (wrong or differs):
        raise RunError(f"{checked.describe()}: the choices must be equal; the export was not kept")
    return checked


@contextmanager
def asked(opened: OpenedExport) -> Iterator[None]:
    """Turn whatever the other program raises at a question into one line."""
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        raise RunError(f"{opened.program} {opened.version} opens what was written, and then fails "
                       f"({first_line(error)}): the export was not kept") from error


def first_line(error: Exception) -> str:
    return str(error).split("\n")[0] or type(error).__name__


def their_source(subject: ExportSubject, line: CheckLine) -> Any:
    """Return the source of a line as the target reads it: its ids, or the pixels."""
    source = line.source
    return source if source is None or isinstance(source, np.ndarray) else subject.source_counting.theirs(source)


def _compare_tokens(subject: ExportSubject, opened: OpenedExport, lines: Sequence[CheckLine]) -> None:
    """Refuse an export whose tokenizer cuts the text of these lines otherwise than ours."""
    if opened.encode is None:
        return
    ours = getattr(subject.tokenizer, "source", subject.tokenizer)
    counting = subject.counting if ours is subject.tokenizer else subject.source_counting
    for line in lines:
        text = ours.decode(line.tokens if line.source is None else line.source)
        with asked(opened):
            theirs = opened.encode(text)
        if theirs != counting.theirs(ours.encode(text).tolist()):
            raise RunError(f"{opened.program} {opened.version} cuts {text[:60]!r} into other tokens: the export was "
                           "not kept")


def largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference of two tensors of log-probabilities; what is impossible for both is equal."""
    both = torch.isneginf(ours) & torch.isneginf(theirs)
    return float(torch.where(both, 0.0, (ours - theirs).abs()).max())


def _compare_texts(
    subject: ExportSubject, opened: OpenedExport, line: CheckLine, tolerance: Tolerance
) -> tuple[bool, bool]:
    """Return True if both write the same, and True if they part where our choice was clear."""
    if opened.greedy is None or not subject.writes_on:
        return True, False
    source = line.source
    prompt = CheckLine(line.tokens[:1] if source is not None else line.tokens[:max(1, len(line.tokens) // 2)], source)
    count = WRITTEN
    if (context := getattr(subject.network, "context", None)) is not None:
        count = min(count, context - len(prompt.tokens))
    written, margins = our_greedy(subject.network, prompt, count, subject.tokenizer.eos)
    ours = subject.counting.theirs(written)
    with asked(opened):
        theirs = opened.greedy(subject.counting.theirs(prompt.tokens), count, their_source(subject, prompt))
    for mine, other, margin in zip(ours, theirs, margins, strict=False):
        if mine != other:
            return False, margin > 2 * tolerance.difference
    return True, len(ours) != len(theirs)
