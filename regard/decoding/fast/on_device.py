"""Prompt look-up on a GPU: guessing, checking and setting back, all recorded as one pass that waits for nobody.

A host that looks at every pass before it asks for the next keeps the GPU waiting for longer than a pass takes. Here the
text stands on the device, beside the state that has read it: a pass looks up how the text may go on, reads its last
token and the guesses, writes what was chosen as far as the guesses stood, and cuts the state to that. A few passes are
asked for before any is looked at, as single steps are (see recorded.py).

A pass over several tokens takes longer than a step over one. Where too few guesses stand to make up for it, single
steps on the same state and text take over for a while. Rows that have ended or are full read nothing, so that nothing
goes wrong when more is asked for than is needed. What is written is what `generate_tokens` writes.
B batch · T time · W guesses and one more · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.contract import State
from regard.decoding.fast import recorded
from regard.decoding.fast.drafts import look_up
from regard.decoding.fast.guessing import Acceptance
from regard.decoding.fast.passes import Choice, after_each, can_cut, chosen_from, longest_piece
from regard.decoding.fast.recorded import Steps
from regard.decoding.sampling import Sampling
from regard.decoding.stream import Notice, Reader, padded
from regard.models.neural import NeuralLM

WORTH = 1.5                    # steps that a pass takes as long as, where it was not measured
TRIAL = 4                      # passes that tell whether guesses are worth it
SHORTEST_REST, LONGEST_REST = 32, 512            # steps without guesses, after few of them stood
TIMED = 4                      # launches of each recording that are timed

# ------------------------------------------------------------------------------------------------ on the device


class LookUps(Steps):
    """Texts and the state that has read all but the last token of each, with two ways to go on: a pass and a step.

    Of either the history has, for each row, how many tokens were written, how many guesses there were, and the tokens.
    """

    def __init__(
        self, model: NeuralLM, batch: int, capacity: int, how: Sampling, banned: Sequence[int], ahead: int, room: int
    ):
        super().__init__(model, batch, capacity, how, banned)
        device, width = model.device, longest_piece(ahead, True, capacity)
        self.width, self.asked, self.worth = width, 0, WORTH
        self.text = torch.zeros(batch, room + width, dtype=torch.long, device=device)
        self.lengths = torch.ones(batch, dtype=torch.long, device=device)
        self.stop = torch.zeros(batch, dtype=torch.long, device=device)          # the length at which a row stops
        self.end = torch.full((1,), -1, device=device)
        self.allowed = torch.ones(model.vocab, dtype=torch.bool, device=device).index_fill(0, self.banned, False)
        self.history = torch.zeros(len(self.history), batch, 2 + width, dtype=torch.long, device=device)
        self.ways: dict[bool, Callable[[], None]] = {False: self.step, True: self.check}       # with guesses?

    def check(self) -> None:
        """Look up how each text may go on, read its last token and the guesses, and keep what stood."""
        guesses, most = look_up(self.text, self.lengths, self.width - 1)
        bounds = most, leading(self.allowed[guesses]), self.stop - self.lengths - 1
        many = torch.stack(bounds).amin(0).clamp(min=0)
        reads = self.lengths < self.stop
        pieces = torch.cat((self._last(), guesses), 1)
        log_probs, after = after_each(self.model, pieces, self.state, (1 + many) * reads, torch.zeros_like(many),
                                      self.width)
        chosen = chosen_from(log_probs, self.how, self.banned, self.noise, self.lengths)
        right = torch.minimum(leading(guesses == chosen[:, :-1]), many)
        self._write(chosen, (1 + right) * reads, many)
        self._keep(after.cut(many - right))

    def step(self) -> None:
        """Read the last token of each text, and write what follows it. Whoever does not read forgets it again."""
        reads = self.lengths < self.stop
        log_probs, after = self.model.step(self._last(), self.state)
        chosen = chosen_from(log_probs[:, None], self.how, self.banned, self.noise, self.lengths)
        self._write(chosen, reads.long(), torch.zeros_like(self.lengths))
        self._keep(after.cut(1 - reads.long()))

    def _last(self) -> Tensor:
        return self.text.gather(1, self.lengths[:, None] - 1)

    def _write(self, chosen: Tensor, count: Tensor, many: Tensor) -> None:
        """The first `count` (B,) of the tokens chosen (B, W); behind the end of a text there may be anything."""
        places = torch.arange(chosen.shape[1], device=count.device)
        ended = ((chosen == self.end) & (places < count[:, None])).any(1)
        self.text.scatter_(1, self.lengths[:, None] + places, chosen)
        self.lengths += count
        self.stop.masked_fill_(ended, 0)
        told = torch.cat((count[:, None], many[:, None], chosen), 1)
        self.history[..., :told.shape[1]].index_copy_(0, self.at, told[None])
        self.at.add_(1).remainder_(len(self.history))

    # ------------------------------------------------------------------------------------ what the host asks for

    def record(self) -> None:
        before = self.state.clone()
        self.ways = {guessing: recorded.launch(way) for guessing, way in self.ways.items()}
        self.worth = taken(self.ways[True]) / taken(self.ways[False])
        self._keep(before)

    def go_on(
        self, state: State, ids: Tensor, texts: Sequence[Sequence[int]], more: Sequence[int], end: int | None
    ) -> None:
        """From this state, which has not read the last token of each text; each is to get so many more."""
        self.begin(state, ids)
        tokens, lengths = padded(texts, self.model.device)
        self.text[:, :tokens.shape[1]] = tokens
        self.lengths.copy_(lengths)
        self.stop.copy_(lengths + torch.tensor(more).to(lengths.device))
        self.end.fill_(-1 if end is None else end)
        self.at.zero_()
        self.asked = 0

    def ask(self, guessing: bool, count: int) -> tuple[Tensor, torch.cuda.Event | None]:
        """For so many passes, or steps; `recorded.come` waits for what comes of them."""
        first, self.asked, self.replay = self.asked, self.asked + count, self.ways[guessing]
        return self._ask(first, count)


def leading(true: Tensor) -> Tensor:
    """(B,): how many of each row (B, N) stand before the first that is not true."""
    places = torch.arange(true.shape[1], device=true.device)
    return torch.where(true, true.shape[1], places).amin(1)


def taken(way: Callable[[], None]) -> float:
    """Milliseconds of the GPU, after a first launch that may take longer."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    way()
    begin.record()
    for _ in range(TIMED):
        way()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


# -------------------------------------------------------------------------------------------------- on the host


@dataclass
class Pace:
    """Whether to guess, and how many passes to ask for: as long as enough guesses stand, with rests where they do not.

    What became of guesses is known late. After a rest a few passes are tried, and steps asked for until they tell.
    """

    worth: float                             # tokens that a pass has to give
    rate: float = 1.0                        # that it gave
    sure: bool = False                       # the guesses that came last were worth it
    trying: bool = False                     # those that will tell are on their way
    size: int = TRIAL
    rest: int = 0                            # steps to go without guesses
    pause: int = field(default_factory=lambda: SHORTEST_REST)                    # of the next rest

    def next(self, lacking: int) -> tuple[bool, int]:
        """Whether to guess now, and in how many passes or steps, no more than so many tokens need."""
        guessing = self.sure or not (self.rest or self.trying)
        if self.sure:
            count = self.size = min(2 * self.size, recorded.AHEAD)
        else:
            count = min(self.rest, recorded.AHEAD) or TRIAL
        count = min(count, math.ceil(lacking / self.tokens(guessing)))
        if guessing:
            self.trying = not self.sure
        else:
            self.rest -= min(self.rest, count)
        return guessing, count

    def tokens(self, guessing: bool) -> float:
        """That come of a pass, or of a step."""
        return self.rate if guessing else 1.0

    def judge(self, tokens: int, passes: int) -> None:
        """So many tokens came of so many passes with guesses, both counted for each row that read."""
        self.trying = False
        if not passes:
            return
        self.rate = tokens / passes
        self.sure = self.rate > self.worth
        if self.sure:
            self.rest, self.pause = 0, SHORTEST_REST
        elif not self.rest:                          # else it is known already
            self.size, self.rest, self.pause = TRIAL, self.pause, min(2 * self.pause, LONGEST_REST)


@dataclass
class Line:
    """One text: which noise is its own, how many tokens it is to have, and those that were written."""

    number: int
    wanted: int
    written: list[int] = field(default_factory=list)
    running: bool = True

    @property
    def lacking(self) -> int:
        return self.wanted - len(self.written)


class Asked(NamedTuple):
    guessing: bool
    tokens: int                              # that will come of it, about, in each row
    told: tuple[Tensor, Any]


class LookUpReader(Reader):
    """The rows of a Reader, whose texts go on by themselves on the device; the host reads what has come."""

    model: NeuralLM

    def __init__(
        self, model: NeuralLM, prompts: Sequence[Sequence[int]], ids: Sequence[int], new_tokens: int,
        notice: Notice | None, ahead: int, tally: Acceptance,
    ):
        super().__init__(model, prompts, new_tokens, None, notice)
        self.rows = [Line(number, new_tokens) for number, _ in zip(ids, prompts, strict=True)]
        self.capacity = recorded.room_for(self.capacity, model.context)
        self.tally, self.pace = tally, Pace(WORTH)
        self.passes: LookUps | None = None
        self.kind, self.sizes = LookUps, (ahead, recorded.room_for(max(map(len, prompts)) + new_tokens, None))
        self.waiting: Asked | None = None

    @classmethod
    def of(cls, model: NeuralLM, *arguments: Any) -> LookUpReader | None:
        """A reader, if the states of this model forget what was guessed wrong, and have room for a guess."""
        reader = cls(model, *arguments)
        state = model.start(1, reader.capacity)
        return reader if reader.capacity > 1 and state is not None and can_cut(state) else None

    def begin(self, choice: Choice) -> None:
        """Read the prompts, and write the first token of every row."""
        assert self.passes is not None
        self.pace = Pace(self.passes.worth)
        log_probs = self.read_prompts()
        self.tally.passes += 1
        lengths = torch.tensor([len(text) for text in self.texts])
        chosen = choice(log_probs[:, None], self._numbers()[:, None], lengths[:, None]).tolist()
        for at, tokens in enumerate(chosen):
            self._write(at, tokens, choice)
        self._go_on(choice)

    def advance(self, choice: Choice) -> None:
        """Ask for a few passes or steps more, and then take what came of those that were asked for before."""
        before, self.waiting = self.waiting, None
        if before is None:
            self._make_room(choice)
        lacking = self._lacking() - (0 if before is None else before.tokens)
        if lacking > 0:
            assert self.passes is not None
            guessing, count = self.pace.next(lacking)
            tokens = int(count * self.pace.tokens(guessing))
            self.waiting = Asked(guessing, tokens, self.passes.ask(guessing, count))
        if before is not None:
            self._take(before, choice)

    def _lacking(self) -> int:
        """How many tokens there are to come, until all rows have theirs or one is full."""
        running = [(row.lacking, self.capacity - self.used[at]) for at, row in enumerate(self.rows) if row.running]
        most = max((lacking for lacking, _ in running), default=0)
        return min([most, *(room for lacking, room in running if room < lacking)])

    def _take(self, asked: Asked, choice: Choice) -> None:
        """Write what has come, pass by pass."""
        tokens = reads = 0
        for rows in recorded.come(*asked.told):
            counts = [row[0] for row in rows]
            self.tally.passes += any(counts)
            tokens, reads = tokens + sum(counts), reads + sum(map(bool, counts))
            for at, (count, proposed, *chosen) in enumerate(rows):
                if count:
                    self.used[at] += count
                    self.tally.proposed += proposed
                    self.tally.accepted += min(count - 1, 1 + self._write(at, chosen[:count], choice))
        if asked.guessing:
            self.pace.judge(tokens, reads)

    def _write(self, at: int, tokens: list[int], choice: Choice) -> int:
        """These tokens, up to the end of the row; gives how many they are."""
        row = self.rows[at]
        new, ended = choice.before_end(tokens)
        row.written += new
        self.texts[at] += new
        self.tally.tokens += len(new)
        row.running = not ended and row.lacking > 0
        return len(new)

    # ------------------------------------------------------------------------------------------ full rows

    def _make_room(self, choice: Choice) -> None:
        """Where a row is full but for the token chosen last, read the last half of it again, as a Reader does."""
        full = [at for at, row in enumerate(self.rows) if row.running and self.used[at] >= self.capacity]
        if full:
            self._read_again(full)
            self.tally.passes += 1
            self._go_on(choice)

    def _go_on(self, choice: Choice) -> None:
        """On the device, from the state and the texts as they are."""
        assert self.passes is not None and self.state is not None
        more = [min(row.lacking, self.capacity - self.used[at]) if row.running else 0
                for at, row in enumerate(self.rows)]
        self.passes.go_on(self.state, self._numbers(), self.texts, more, choice.end)
        self.state = self.passes.state

    def _numbers(self) -> Tensor:
        return torch.tensor([row.number for row in self.rows])
