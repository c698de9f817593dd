"""Speculative generation: a draft guesses the next few tokens, and the model checks them all in one pass.

Leviathan et al. 2023 and Chen et al. 2023 keep the model's distribution by a rule of acceptance. None is needed here:
the noise of a token is a function of (seed, row, position), so the token that plain generation would choose at a
position is known once the model has read what precedes it. A pass over the draft gives that choice at each position. A
guess stands if it equals the choice, and the first choice that differs takes its place. So every token written is the
one that `generate_tokens` writes, up to the rounding of a pass over several tokens, which the law of cuts bounds.

After a wrong guess the state has read too much. A state that can be `cut` (key/value caches) forgets it. Of any other
kind a snapshot was taken, and the tokens that it has not read are read at the beginning of the next pass.
B batch · T time · W guesses and one more · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.contract import CannotCut, Source, State
from regard.decoding.fast.drafts import AHEAD, Acceptance, Drafter, DrafterMaker
from regard.decoding.sampling import Sampling, choose
from regard.decoding.stream import Notice, TokenReader
from regard.errors import SettingError
from regard.models.neural import NeuralLM

LONGEST_REST = 15            # passes without a guess, after many that were wrong


@torch.no_grad()
def speculative_tokens(
    model: NeuralLM,
    prompts: Sequence[Sequence[int]],
    *,
    drafts: DrafterMaker,
    ahead: int = AHEAD,
    new_tokens: int,
    sampling: Sampling | None = None,
    end: int | None = None,
    banned: Sequence[int] = (),
    row_ids: Sequence[int] | None = None,
    source: Source | None = None,
    notice: Notice | None = None,
    tally: Acceptance | None = None,
) -> Iterator[list[int | None]]:
    """Yield what `generate_tokens` yields, in fewer passes: each row has its draft, of at most `ahead` guesses a pass.

    The guesses are counted in `tally`.
    """
    if new_tokens < 0:
        raise SettingError(f"--tokens {new_tokens}: must be 0 or more")
    model.eval()
    ids = range(len(prompts)) if row_ids is None else row_ids
    rows = [SpeculativeRow(number, new_tokens, drafts(prompt), ahead)
            for number, prompt in zip(ids, prompts, strict=True)]
    reader = SpeculativeReader(model, prompts, rows, source, notice, sampling or Sampling(), end, banned, ahead,
                               Acceptance() if tally is None else tally)
    if new_tokens:
        reader.begin()
    for position in range(new_tokens):
        while any(row.running and len(row.written) == position for row in rows):
            reader.advance()
        step = [row.written[position] if position < len(row.written) else None for row in rows]
        yield step
        if all(token is None for token in step):
            return


def after_each(
    model: Any, tokens: Tensor, state: State | None, lengths: Tensor, first: Tensor, width: int
) -> tuple[Tensor, State]:
    """Return log-probabilities (B, W, V) of what follows the W tokens of each row from index `first` (B,) on, and the
    next state. Past the end of a row they mean nothing."""
    index = (first[:, None] + torch.arange(width, device=first.device)).clamp(max=tokens.shape[1] - 1)
    if not model.in_one_pass:
        return model.follow(tokens, state, lengths, index)
    h, after = model.encode(tokens, state, lengths)
    assert after is not None, "a pass needs a state: start(batch, capacity)"
    return model.head(h.gather(1, index[..., None].expand(-1, -1, h.shape[-1]))), after


def can_cut(state: State) -> bool:
    """Return whether a state can forget its last tokens."""
    one = next(iter(state.tensors().values()))
    try:
        state.cut(torch.zeros(len(one), dtype=torch.long, device=one.device))
    except CannotCut:
        return False
    return True


@dataclass
class SpeculativeRow:
    """One text: the tokens written, and those of them that the state has not read yet."""

    number: int                              # whose noise chooses its tokens
    wanted: int                              # tokens to write
    draft: Drafter
    most: int                                # guesses a pass
    written: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    running: bool = True
    wrong: int = 0                           # drafts in a row of which nothing stood
    rest: int = 0                            # passes to go without a draft

    def guess(self, most: int) -> list[int]:
        """Return at most so many guesses; none while the draft rests."""
        if self.rest:
            self.rest -= 1
            return []
        return self.draft.propose(min(most, max(1, self.most >> self.wrong)))

    def learn(self, proposed: int, right: int) -> None:
        """Ask a draft that is wrong again and again for less, and less often: each guess costs a little."""
        if proposed:
            self.wrong = 0 if right else self.wrong + 1
            self.rest = min(2**self.wrong - 1, LONGEST_REST)


class SpeculativeReader(TokenReader):
    """The rows of a TokenReader, read several tokens at a time and set back to the last guess that stood."""

    model: NeuralLM

    def __init__(
        self, model: NeuralLM, prompts: Sequence[Sequence[int]], rows: list[SpeculativeRow], source: Source | None,
        notice: Notice | None, sampling: Sampling, end: int | None, banned: Sequence[int], ahead: int,
        tally: Acceptance,
    ):
        super().__init__(model, prompts, max((row.wanted for row in rows), default=0), source, notice)
        self.rows, self.ahead, self.tally, self.cuts = rows, ahead, tally, True
        self.sampling, self.end, self.banned = sampling, end, list(banned)

    def begin(self) -> None:
        """Read the prompts, and write the first token of every row."""
        log_probs = self.read_prompts()
        assert self.state is not None
        self.cuts = can_cut(self.state)
        self.tally.passes += 1
        numbers, positions = self._whose(1)
        chosen = self._choose(log_probs, numbers[:, 0], positions[:, 0])
        for index, row in enumerate(self.rows):
            self._write(index, row, chosen[index])

    def advance(self) -> None:
        """Read the unread tokens and the guesses after them in one pass; each row gets one token at least."""
        self._make_room()
        guesses = self._guess()
        before = None
        if not self.cuts and any(guesses):
            assert self.state is not None
            before = self.state.keep()
        stood = self._check(guesses)
        self._go_back(before, guesses, stood)

    # -------------------------------------------------------------------------------------- guessing

    def _make_room(self) -> None:
        """Read the last half of each row again that is full but for the token chosen last, as a TokenReader does."""
        full = [index for index, row in enumerate(self.rows)
                if row.running and self.used[index] + len(row.unread) > self.capacity]
        if full:
            self._read_again(full)
            self.tally.passes += 1
            for index in full:
                self.rows[index].unread = self.texts[index][-1:]

    def _guess(self) -> list[list[int]]:
        """Return each row's guesses: within its state, no more than is wanted, and none that cannot be chosen."""
        if any(len(row.unread) > self.ahead for row in self.rows):
            return [[] for _ in self.rows]           # a pass without guesses, after which nothing is unread
        guesses = []
        for index, row in enumerate(self.rows):
            room = min(self.capacity - self.used[index] - len(row.unread), row.wanted - len(row.written) - 1)
            guess = row.guess(room) if row.running and room > 0 else []
            possible = next((place for place, token in enumerate(guess) if token in self.banned), len(guess))
            guesses.append(guess[:possible])
        return guesses

    # -------------------------------------------------------------------------------------- checking

    def _check(self, guesses: list[list[int]]) -> list[int]:
        """Read, choose and write; return how many guesses of each row stood."""
        width = 1 + max(len(guess) for guess in guesses)
        self.tally.passes += 1
        self.tally.proposed += sum(len(guess) for guess in guesses)
        numbers, positions = self._whose(width)
        log_probs = self._read_guesses(guesses, width)
        stood, going = [0] * len(self.rows), [row.running for row in self.rows]
        for place in range(width):                   # no token is chosen that nothing is compared with
            chosen = self._choose(log_probs[:, place], numbers[:, place], positions[:, place])
            for index, row in enumerate(self.rows):
                if going[index]:
                    guess = guesses[index][place] if place < len(guesses[index]) else None
                    right = self._write(index, row, chosen[index], guess)
                    stood[index] += right
                    going[index] = row.running and right
            if not any(going):
                break
        self.tally.accepted += sum(stood)
        return stood

    def _read_guesses(self, guesses: list[list[int]], width: int) -> Tensor:
        """Read unread tokens and guesses; return log-probabilities (B, W, V) after the last unread token and each
        guess."""
        pieces = [row.unread + guess for row, guess in zip(self.rows, guesses, strict=True)]
        first = [max(0, len(row.unread) - 1) for row in self.rows]
        longest = max(len(piece) for piece in pieces)
        tokens = torch.tensor([piece + [0] * (longest - len(piece)) for piece in pieces]).to(self.model.device)
        lengths, begin = torch.tensor([[len(piece) for piece in pieces], first]).to(self.model.device)
        log_probs, self.state = after_each(self.model, tokens, self.state, lengths, begin, width)
        return log_probs

    def _choose(self, log_probs: Tensor, numbers: Tensor, positions: Tensor) -> list[int]:
        """Return a token for each row of (B, V), with the noise of its number and position (B,)."""
        log_probs[:, self.banned] = -torch.inf
        return choose(log_probs, self.sampling, numbers, positions).tolist()

    def _whose(self, width: int) -> tuple[Tensor, Tensor]:
        """Return (B, W) twice: whose noise chooses each token, and its position in the text."""
        numbers = torch.tensor([row.number for row in self.rows])[:, None].expand(-1, width)
        return numbers, torch.tensor([len(text) for text in self.texts])[:, None] + torch.arange(width)

    def _write(self, index: int, row: SpeculativeRow, token: int, guess: int | None = None) -> bool:
        """Write a token unless it ends the row; return whether it was guessed."""
        ended = token == self.end
        new = [] if ended else [token]
        row.written += new
        row.draft.extend(new)
        self.texts[index] += new
        row.unread += new
        self.tally.tokens += len(new)
        row.running = not ended and len(row.written) < row.wanted
        return token == guess

    # -------------------------------------------------------------------------------------- going back

    def _go_back(self, before: State | None, guesses: list[list[int]], stood: list[int]) -> None:
        """Return to the state after the last guess that stood, or to the one from before all guesses."""
        assert self.state is not None
        for row, guess, right in zip(self.rows, guesses, stood, strict=True):
            row.learn(len(guess), right)
        wrong = [len(guess) - right for guess, right in zip(guesses, stood, strict=True)]
        if self.cuts:
            self.state = self.state.cut(torch.tensor(wrong, device=self.model.device))
        elif before is not None and any(more and row.running for row, more in zip(self.rows, wrong, strict=True)):
            self.state = before                      # the tokens that stood are read again, with the next ones
            for row in self.rows:
                row.unread = row.unread if row.running else []
            return
        for index, row in enumerate(self.rows):      # all has been read but the token chosen last
            self.used[index] += len(row.unread) - 1 if row.unread else 0
            row.unread = row.unread[-1:] if row.running else []
