"""Recurrent decoders that read a source: at every step, at none, or only its mean.

    before     c[t] = A([x[t]; h[t-1]]),  h[t] = cell(ReLU(W_c [x[t]; c[t]]), h[t-1]),  y[t] = h[t]
    after      h[t] = cell(x[t], h[t-1]),  c[t] = A(h[t]),  y[t] = tanh(W_c [h[t]; c[t]])
    feeding    the same with cell([x[t]; y[t-1]], h[t-1]): what was read at one step is an input of the next

Bahdanau et al. 2014 look before the cell, Luong et al. 2015 after it. Queries and keys are those states, or projected
first: see projections.py. After the cell, and without feeding, all steps are read at once. Without attention the source
passes through the first state alone, whatever the decoder reads later.
B rows, k beams for each of S sources · T time · D width · N hidden width · L source length
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import one_of
from regard.contract import Memory, SequenceLayer, State
from regard.errors import SettingError
from regard.layers.cross_attention import SourceKeys, queries, read_source, score_of, source_keys
from regard.layers.gated import GRU, LSTM
from regard.layers.projections import bend, check_heads, compared, head_widths
from regard.layers.recurrent import Elman, Recurrence, Vectors
from regard.layers.whole import mean_of_real
from regard.watching import Reading, watching

CELLS = ("rnn", "relu", "gru", "lstm")
READERS = ("attention", "mean", "none")
WHEN = ("before", "after")


def make_cell(name: str, d_in: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> Recurrence:
    one_of("model.cell", name, CELLS)
    if name in ("rnn", "relu"):
        return Elman(d_in, hidden, f="tanh" if name == "rnn" else "relu", layers=layers, dropout=dropout)
    return {"gru": GRU, "lstm": LSTM}[name](d_in, hidden, layers=layers, dropout=dropout)


# ------------------------------------------------------------------------------------------ what is read


class Attention(nn.Module):
    """A(q, K, V): keys and values from the source. Values are its vectors, unless they have a width of their own."""

    def __init__(
        self, d_query: int, d_memory: int, width: int, *, heads: int = 1, score: str = "additive", places: int = 128,
        projections: str = "auto", f: str = "none", head_width: int = 0, value_width: int = 0,
    ):
        super().__init__()
        self.heads, self.f, self.d_out = heads, f, heads * value_width or d_memory
        self.compares = compared(projections, score, f=f, head_width=head_width, heads=heads, d_query=d_query,
                                 d_memory=d_memory, states=True)
        if not value_width:
            check_heads(d_memory, heads)
        own = head_widths(width, heads, head_width)[0] if self.compares.queries else 0
        self.query = nn.Linear(d_query, heads * own, bias=False) if self.compares.queries else None
        self.key = nn.Linear(d_memory, heads * own, bias=False) if self.compares.keys else None
        self.value = nn.Linear(d_memory, heads * value_width, bias=False) if value_width else None
        self.score = score_of(self.compares, heads, own, d_query=d_query, d_memory=d_memory, places=places)

    def start(self, memory: Memory) -> SourceKeys:
        keys, values = (None if project is None else bend(project(memory.vectors), self.f)
                        for project in (self.key, self.value))
        return source_keys(self.compares, keys, values, memory, self.heads)

    def forward(self, asking: Tensor, source: SourceKeys, seen_by: object) -> Tensor:
        """(B, T, d_out): what each position reads of its source."""
        q = queries(self.compares, self.query, asking, self.heads, self.f)
        return read_source(q, source, score=self.score, seen_by=seen_by).transpose(1, 2).flatten(2)


class Mean(nn.Module):
    """The mean of the source, whatever is asked: the baseline that attention has to beat."""

    def __init__(self, d_memory: int):
        super().__init__()
        self.d_out = d_memory

    def start(self, memory: Memory) -> SourceKeys:
        mean = mean_of_real(memory.vectors, memory.lengths)[:, None, None]            # (S, 1, 1, d_memory)
        return SourceKeys(mean, mean, memory.lengths.clamp(max=1))

    def forward(self, asking: Tensor, source: SourceKeys, seen_by: object) -> Tensor:
        rows = asking.shape[0] // len(source.values)
        return source.values[:, 0].repeat_interleave(rows, 0).expand(-1, asking.shape[1], -1)


# --------------------------------------------------------------------------------------------- the layer


@dataclass
class DecoderState(State):
    """The cell's state, the last output (for feeding), and the source; `whole`: for one read of everything."""

    cell: State
    fed: Tensor | None
    source: SourceKeys | None
    whole: bool = False


class AttentiveRecurrence(SequenceLayer):
    """A recurrent decoder. It starts from the source's summary, and reads the source as `reader` and `when` say."""

    def __init__(
        self, d_in: int, hidden: int, *, d_memory: int, d_summary: int, cell: str = "gru", layers: int = 1,
        reader: str = "attention", when: str = "after", feeding: bool = False, score: str = "additive", heads: int = 1,
        places: int = 128, projections: str = "auto", f: str = "none", head_width: int = 0, value_width: int = 0,
        dropout: float = 0.0,
    ):
        super().__init__()
        one_of("model.reader", reader, READERS)
        one_of("model.when", when, WHEN)
        if feeding and (when == "before" or reader == "none"):
            raise SettingError("model.feeding = true feeds what was read after the cell: it wants model.when = after "
                               "and something that is read")
        self.d_in, self.d_out, self.when, self.feeding = d_in, hidden, when, feeding
        self.cell = make_cell(cell, d_in + hidden * feeding, hidden, layers, dropout)
        self.bridge = nn.Linear(d_summary, layers * hidden * len(self.cell._carried()))
        d_query = d_in + hidden if when == "before" else hidden
        self.reads = "source" if reader == "attention" else ""
        self.reader: Attention | Mean | None = None
        if reader == "attention":
            self.reader = Attention(d_query, d_memory, hidden, heads=heads, score=score, places=places, f=f,
                                    projections=projections, head_width=head_width, value_width=value_width)
        elif reader == "mean":
            self.reader = Mean(d_memory)
        if self.reader is not None:
            before = when == "before"
            self.combine = nn.Linear((d_in if before else hidden) + self.reader.d_out, d_in if before else hidden)

    @property
    def one_by_one(self) -> bool:
        """True if a step needs what the one before it gave: nothing is read at once."""
        return self.feeding or (self.when == "before" and self.reader is not None)

    # ------------------------------------------------------------------------------------- the state

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> DecoderState:
        if memory is None or memory.summary is None:
            raise SettingError("this decoder begins with the summary of a source: start it with one")
        first = torch.tanh(self.bridge(memory.summary)).repeat_interleave(batch // len(memory.lengths), 0)
        carried = first.view(batch, len(self.cell._carried()), self.cell.layers, self.d_out).unbind(1)
        return DecoderState(
            self.cell.remembers(*(each.contiguous() for each in carried)),
            first.new_zeros(batch, self.d_out) if self.feeding else None,
            None if self.reader is None else self.reader.start(memory), whole=capacity is None)

    # ------------------------------------------------------------------------------------- reading

    def forward(
        self, x: Tensor, state: DecoderState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, DecoderState | None]:
        if state is None:
            raise SettingError("this decoder begins with the summary of a source: start it with one")
        if self.one_by_one:
            y, after = self._one_by_one(x, state, lengths)
        else:
            y, after = self._all_at_once(x, state, lengths)
        return y, None if state.whole else after

    def _all_at_once(self, x: Tensor, state: DecoderState, lengths: Tensor | None) -> tuple[Tensor, DecoderState]:
        if state.whole:                        # nothing is kept, so pads at the right need no care
            h, cell = self.cell(x, state.cell)
        else:
            h, cell = self.cell(x, state.cell, lengths)
        return self.output(h, state.source), DecoderState(cell, state.fed, state.source)

    def _one_by_one(self, x: Tensor, state: DecoderState, lengths: Tensor | None) -> tuple[Tensor, DecoderState]:
        """By the equations, a step at a time."""
        cell, fed, outputs, recorder = state.cell, state.fed, [], watching()
        seen = 0 if recorder is None else len(recorder.readings)
        for t, now in enumerate(x.split(1, 1)):                                       # (B, 1, D)
            y, new_cell, new_fed = self.step(now, cell, fed, state.source)
            outputs.append(y)
            if lengths is None:
                cell, fed = new_cell, new_fed
                continue
            real = t < lengths
            cell, fed = kept(real, new_cell, cell), new_fed if new_fed is None else choose(real, new_fed, fed)
        if recorder is not None and len(recorder.readings) > seen:    # one map of all steps
            recorder.readings[seen:] = [of_all_steps(recorder.readings[seen:])]
        return torch.cat(outputs, 1), DecoderState(cell, fed, state.source)

    def step(
        self, x: Tensor, cell: State, fed: Tensor | None, source: SourceKeys | None
    ) -> tuple[Tensor, State, Tensor | None]:
        if self.when == "before" and self.reader is not None:
            (h, *_) = self.vectors(cell)
            context = self.reader(torch.cat((x, h[:, -1:].to(x.dtype)), -1), source, self)
            x = torch.relu(self.combine(torch.cat((x, context), -1)))
        elif fed is not None:
            x = torch.cat((x, fed[:, None].to(x.dtype)), -1)
        h, cell = self.cell(x, cell)
        y = self.output(h, source)
        return y, cell, None if fed is None else y[:, 0].to(fed.dtype)

    def output(self, h: Tensor, source: SourceKeys | None) -> Tensor:
        """(B, T, N): the state, and what it reads of the source if it reads after the cell."""
        if self.reader is None or self.when == "before":
            return h
        return torch.tanh(self.combine(torch.cat((h, self.reader(h, source, self)), -1)))

    def vectors(self, cell: State) -> Vectors:
        return tuple(getattr(cell, name) for name in self.cell._carried())


def of_all_steps(steps: list[Reading]) -> Reading:
    """One reading of all steps; tensors with a row for each step are concatenated."""
    about = dict(steps[0].about)
    for name in ("q", "allowed", "scores", "output"):
        if about.get(name) is not None:
            about[name] = torch.cat([step.about[name] for step in steps], 2)
    return replace(steps[0], values=torch.cat([step.values for step in steps], 2), about=about)


def kept(real: Tensor, new: Any, old: Any) -> Any:
    """The new state where a token was real, the old one where it was a pad."""
    before = iter(old.tensors().values())
    return new.map(lambda t: choose(real, t, next(before)))


def choose(real: Tensor, new: Tensor, old: Any) -> Tensor:
    return torch.where(real.view(-1, *(1,) * (new.ndim - 1)), new, old.to(new.dtype))
