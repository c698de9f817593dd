"""Speculative generation: a draft guesses the next few tokens, and the model checks them all in one pass.

Leviathan et al. 2023 and Chen et al. 2023 keep the model's distribution by a rule for what to accept. Here nothing is
left to prove: the noise of a token is a function of (seed, row, position), so the token that plain generation would
choose at a position is known once the model has read what stands before it. A pass over the draft gives that choice
at each position; a guess stands as long as it is what was chosen, and the first choice that differs takes its place.
So every token written is the one that `generate_tokens` writes, whatever was guessed, up to the rounding of a pass over
several tokens (which the law of cuts bounds).

After a wrong guess the state has read too much. A state that can be `cut` (key/value caches) forgets it; of any other
kind, the state from before was kept, and the tokens it has not read yet are read at the beginning of the next pass.

On a GPU passes are recorded. Where drafts are looked up in the text and the state can be cut, everything takes place on
the device (see on_device.py); otherwise the host guesses, and waits for each pass.
B batch · T time · W guesses and one more · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.contract import Source, State
from regard.decoding.fast import passes, recorded
from regard.decoding.fast.drafts import Draft, DraftMaker, PromptLookup
from regard.decoding.fast.guessing import AHEAD, Acceptance
from regard.decoding.fast.on_device import LookUpReader
from regard.decoding.fast.passes import Choice, Passes, after_each, can_cut, longest_piece
from regard.decoding.sampling import Sampling
from regard.decoding.stream import Notice, Reader, generate_tokens
from regard.errors import SettingError
from regard.models.neural import NeuralLM

LONGEST_REST = 15            # passes without a guess, after many that were wrong
WAITS = ("the guesses are the host's, for which the GPU waits at every pass: without --speculate, or with "
         "--speculate prompt for a Transformer, it may be quicker")


@torch.no_grad()
def speculative_tokens(
    model: NeuralLM,
    prompts: Sequence[Sequence[int]],
    *,
    drafts: DraftMaker,
    ahead: int = AHEAD,
    new_tokens: int,
    how: Sampling | None = None,
    end: int | None = None,
    banned: Sequence[int] = (),
    row_ids: Sequence[int] | None = None,
    source: Source | None = None,
    notice: Notice | None = None,
    tally: Acceptance | None = None,
) -> Iterator[list[int | None]]:
    """What `generate_tokens` gives, in fewer passes: each row has its draft, of at most `ahead` guesses a pass.

    What became of the guesses is added to `tally`.
    """
    if new_tokens < 0:
        raise SettingError(f"--tokens {new_tokens}: must be 0 or more")
    model.eval()
    how, ids = how or Sampling(), range(len(prompts)) if row_ids is None else row_ids
    choice, tally = Choice(how, banned, end), Acceptance() if tally is None else tally
    recording = source is None and recorded.fits(model, new_tokens)
    reader: LookUpReader | SpeculativeReader | None = None
    if recording and drafts is PromptLookup:
        reader = LookUpReader.of(model, prompts, ids, new_tokens, notice, ahead, tally)
    if reader is None:
        rows = [Row(number, new_tokens, drafts(prompt), ahead) for number, prompt in zip(ids, prompts, strict=True)]
        reader = SpeculativeReader(model, prompts, rows, source, notice, ahead, tally)
    if not recording:
        yield from _written(reader, choice, new_tokens)
        return
    reader.capacity = recorded.room_for(reader.capacity, model.context)
    taken: Any                                       # of the kind that the reader wants
    own = (model, len(prompts), reader.capacity, how, banned, *reader.sizes)
    taken, why = passes.take(reader.kind, *own)
    if taken is None:                                # steps one by one, which can be recorded, are quicker
        if notice is not None:
            notice(f"written without drafts: {why}")
        yield from _counted(tally, generate_tokens(model, prompts, new_tokens=new_tokens, how=how, end=end,
                                                   banned=banned, row_ids=row_ids, notice=notice))
        return
    reader.passes = taken
    if isinstance(reader, SpeculativeReader) and notice is not None:
        notice(WAITS)
    try:
        yield from _written(reader, choice, new_tokens)
    finally:
        passes.give_back(taken, *own)


def _counted(tally: Acceptance, steps: Iterator[list[int | None]]) -> Iterator[list[int | None]]:
    """Steps without guesses, each a pass."""
    for step in steps:
        tally.passes += 1
        tally.tokens += sum(token is not None for token in step)
        yield step


def _written(
    reader: LookUpReader | SpeculativeReader, choice: Choice, new_tokens: int
) -> Iterator[list[int | None]]:
    """Step by step what the rows have written, as soon as each has a token for the step."""
    if new_tokens:
        reader.begin(choice)
    for position in range(new_tokens):
        while any(row.running and len(row.written) == position for row in reader.rows):
            reader.advance(choice)
        step = [row.written[position] if position < len(row.written) else None for row in reader.rows]
        yield step
        if all(token is None for token in step):
            return


@dataclass
class Row:
    """One text: what was written, and what of it the state has not read yet."""

    number: int                              # which noise is its own
    wanted: int                              # tokens to write
    draft: Draft
    most: int                                # guesses a pass
    written: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    running: bool = True
    wrong: int = 0                           # drafts in a row of which nothing stood
    rest: int = 0                            # passes to go without a draft

    def guess(self, most: int) -> list[int]:
        if self.rest:
            self.rest -= 1
            return []
        return self.draft.propose(min(most, max(1, self.most >> self.wrong)))

    def learn(self, proposed: int, right: int) -> None:
        """Drafts that are wrong again and again are asked for less, and less often: each costs a little."""
        if proposed:
            self.wrong = 0 if right else self.wrong + 1
            self.rest = min(2**self.wrong - 1, LONGEST_REST)


class SpeculativeReader(Reader):
    """The rows of a Reader, read several tokens at a time and set back to what was right."""

    model: NeuralLM

    def __init__(
        self, model: NeuralLM, prompts: Sequence[Sequence[int]], rows: list[Row], source: Source | None,
        notice: Notice | None, ahead: int, tally: Acceptance,
    ):
        super().__init__(model, prompts, max((row.wanted for row in rows), default=0), source, notice)
        self.rows, self.ahead, self.tally = rows, ahead, tally
        self.cuts, self.on_host = True, model.device.type == "cpu"
        self.passes: Passes | None = None            # recorded ones
        self.kind, self.sizes = Passes, (ahead,)     # which

    def begin(self, choice: Choice) -> None:
        """Read the prompts, and write the first token of every row."""
        log_probs = self.read_prompts()
        assert self.state is not None
        self.cuts = can_cut(self.state)
        self._go_on_from(self.state)
        self.tally.passes += 1
        numbers, positions = self._whose(1)
        chosen = choice(log_probs[:, None], numbers, positions).tolist()
        for at, row in enumerate(self.rows):
            self._write(at, row, chosen[at], choice)

    def advance(self, choice: Choice) -> None:
        """One pass over what is unread and the guesses behind it; each row gets one token at least."""
        self._make_room()
        guesses = self._guesses(choice.banned)
        before = None
        if not self.cuts and any(guesses):
            assert self.state is not None
            before = self.state.keep()
        stood = self._check(guesses, choice)
        self._go_back(before, guesses, stood)

    # -------------------------------------------------------------------------------------- guessing

    def _make_room(self) -> None:
        """Where a row is full but for the token chosen last, read the last half of it again, as a Reader does."""
        full = [at for at, row in enumerate(self.rows)
                if row.running and self.used[at] + len(row.unread) > self.capacity]
        if full:
            self.state = self.state if self.passes is None else self.passes.settled()
            self._read_again(full)
            self._go_on_from(self.state)
            self.tally.passes += 1
            for at in full:
                self.rows[at].unread = self.texts[at][-1:]

    def _guesses(self, banned: Sequence[int]) -> list[list[int]]:
        """For each row what may follow: within its state, no more than is wanted, and nothing that cannot be chosen."""
        if any(len(row.unread) > self.ahead for row in self.rows):
            return [[] for _ in self.rows]           # a pass without guesses, after which there is nothing unread
        found = []
        for at, row in enumerate(self.rows):
            room = min(self.capacity - self.used[at] - len(row.unread), row.wanted - len(row.written) - 1)
            guess = row.guess(room) if row.running and room > 0 else []
            cannot = next((place for place, token in enumerate(guess) if token in banned), len(guess))
            found.append(guess[:cannot])
        return found

    # -------------------------------------------------------------------------------------- checking

    def _check(self, guesses: list[list[int]], choice: Choice) -> list[int]:
        """Read, choose and write; gives how many guesses of each row stood."""
        pieces = [row.unread + guess for row, guess in zip(self.rows, guesses, strict=True)]
        first = [max(0, len(row.unread) - 1) for row in self.rows]
        width = 1 + max(len(guess) for guess in guesses)
        self.tally.passes += 1
        self.tally.proposed += sum(len(guess) for guess in guesses)
        stood, still, done = [0] * len(self.rows), [row.running for row in self.rows], 0
        for chosen in self._chosen(pieces, first, width, choice):
            here = slice(done, done + len(chosen[0]))
            done = min(here.stop, width)
            for at, row in enumerate(self.rows):
                if still[at]:
                    right = self._write(at, row, chosen[at], choice, guesses[at][here])
                    stood[at] += right
                    still[at] = row.running and done < width and right == len(chosen[at])
            if not any(still):
                break
        self.tally.accepted += sum(stood)
        return stood

    def _chosen(
        self, pieces: list[list[int]], first: list[int], width: int, choice: Choice
    ) -> Iterator[list[list[int]]]:
        """Read the pieces; gives for each row what is chosen after its token at `first`, and after each one behind it.

        A token costs little to choose on a GPU, and much to wait for: there all are chosen at once.
        """
        numbers, positions = self._whose(width)
        if self.passes is not None:
            yield self.passes.over(pieces, first, positions[:, 0].tolist())
            return
        log_probs = self._pass(pieces, first, width)                                  # (B, W, V)
        at_once = 1 if self.on_host else width
        for begin in range(0, width, at_once):
            here = slice(begin, begin + at_once)
            yield choice(log_probs[:, here], numbers[:, here], positions[:, here]).tolist()

    def _pass(self, pieces: list[list[int]], first: list[int], width: int) -> Tensor:
        """(B, W, V): log-probabilities after the token at `first` of each piece, and after each one behind it."""
        device, longest = self.model.device, max(len(piece) for piece in pieces)
        if not self.on_host:                         # the same shapes again and again: kernels are chosen once
            width, longest = 1 + self.ahead, longest_piece(self.ahead, self.cuts, self.capacity)
        tokens = torch.tensor([piece + [0] * (longest - len(piece)) for piece in pieces]).to(device)
        lengths, begin = torch.tensor([[len(piece) for piece in pieces], first]).to(device)
        log_probs, self.state = after_each(self.model, tokens, self.state, lengths, begin, width)
        return log_probs

    def _whose(self, width: int) -> tuple[Tensor, Tensor]:
        """(B, W) twice: whose noise chooses each token, and at which position of the text it stands."""
        ahead = torch.arange(width)
        numbers = torch.tensor([row.number for row in self.rows])[:, None].expand(-1, width)
        return numbers, torch.tensor([len(text) for text in self.texts])[:, None] + ahead

    def _write(self, at: int, row: Row, chosen: Sequence[int], choice: Choice, guess: Sequence[int] = ()) -> int:
        """Write what was chosen as long as the guess before it was right; gives how many guesses were."""
        right = 0
        while right < len(guess) and right < len(chosen) and guess[right] == chosen[right]:
            right += 1
        new, ended = choice.before_end(list(chosen[:right + 1]))
        row.written += new
        row.draft.extend(new)
        self.texts[at] += new
        row.unread += new
        self.tally.tokens += len(new)
        row.running = not ended and len(row.written) < row.wanted
        return min(right, len(new) + 1)              # the end itself may have been guessed

    # -------------------------------------------------------------------------------------- going back

    def _go_back(self, before: State | None, guesses: list[list[int]], stood: list[int]) -> None:
        """The state after the last guess that stood, or the one from before all of them."""
        assert self.state is not None
        for row, guess, right in zip(self.rows, guesses, stood, strict=True):
            row.learn(len(guess), right)
        wrong = [len(guess) - right for guess, right in zip(guesses, stood, strict=True)]
        if self.cuts and self.passes is not None:
            self.passes.forget(wrong)
        elif self.cuts:
            self.state = self.state.cut(torch.tensor(wrong, device=self.model.device))
        elif before is not None and any(more and row.running for row, more in zip(self.rows, wrong, strict=True)):
            self._go_on_from(before)                 # what stood is read again, together with what comes next
            for row in self.rows:
                row.unread = row.unread if row.running else []
            return
        for at, row in enumerate(self.rows):         # but for the last token chosen, all has been read
            self.used[at] += len(row.unread) - 1 if row.unread else 0
            row.unread = row.unread[-1:] if row.running else []

    def _go_on_from(self, state: State | None) -> None:
        """From this state; recorded passes have one of their own, which becomes like it."""
        assert state is not None
        self.state = state
        if self.passes is not None:
            self.passes.begin(state, torch.tensor([row.number for row in self.rows]))
            self.state = self.passes.state
