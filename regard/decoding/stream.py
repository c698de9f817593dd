"""Generation: read the prompt once, then one token at a time, carrying the state.

Nothing is read twice, except by a model with a bounded context (a Transformer reads at most the length it was trained
on): when a row is full, its last half is read again. On a GPU steps are recorded: see `fast/recorded_stream.py`.
B batch · T time · V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State
from regard.decoding.fast import recorded_stream
from regard.decoding.fast.recorded_stream import RecordedSteps
from regard.decoding.sampling import Sampling, choose
from regard.errors import SettingError
from regard.kernels.cpu.packing import packing

Notice = Callable[[str], None]


@torch.no_grad()
def generate_tokens(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    new_tokens: int,
    sampling: Sampling | None = None,
    end: int | None = None,
    banned: Sequence[int] = (),
    row_ids: Sequence[int] | None = None,
    source: Source | None = None,
    notice: Notice | None = None,
    limits: Sequence[int] | None = None,
) -> Iterator[list[int | None]]:
    """Yield one list a step: the token of each row, or None once it has ended. Prompts are token ids, not empty.

    `limits` are the most tokens of each row, at most `new_tokens`: a row reads nothing beyond its own.
    """
    if new_tokens < 0:
        raise SettingError(f"--tokens {new_tokens}: must be 0 or more")
    if isinstance(model, nn.Module):
        model.eval()
    sampling = sampling or Sampling()
    reader = TokenReader(model, prompts, new_tokens, source, notice)
    ids = torch.tensor(range(len(prompts)) if row_ids is None else row_ids)
    lengths = torch.tensor([len(prompt) for prompt in prompts])

    def pick(log_probs: Tensor, position: int) -> list[int]:
        log_probs[:, list(banned)] = -torch.inf
        return choose(log_probs, sampling, ids, lengths + position).tolist()

    steps = None
    if source is None and recorded_stream.fits(model, new_tokens):
        reader.capacity = recorded_stream.room_for(reader.capacity, model.context)
        steps, why = recorded_stream.take(model, len(prompts), reader.capacity, sampling, banned)
        if notice is not None and why:
            notice(f"tokens are chosen one by one: {why}")
    running = [True] * len(prompts)
    try:
        written = _plain(reader, pick, new_tokens, running) if steps is None else _recorded(
            reader, pick, new_tokens, running, steps, ids, lengths)
        for position, chosen in enumerate(written, 1):
            running[:] = [alive and token != end for alive, token in zip(running, chosen, strict=True)]
            yield [token if alive else None for token, alive in zip(chosen, running, strict=True)]
            if limits is not None:
                running[:] = [alive and position < most for alive, most in zip(running, limits, strict=True)]
            if not any(running):
                return
    finally:
        if steps is not None:
            recorded_stream.RECORDINGS.give_back(steps)


Pick = Callable[[Tensor, int], list[int]]


def _plain(reader: TokenReader, pick: Pick, new_tokens: int, running: list[bool]) -> Iterator[list[int]]:
    """Yield the tokens chosen in each step. The caller updates `running`, the rows that go on."""
    if not new_tokens:
        return
    log_probs = reader.read_prompts()
    for position in range(new_tokens):
        chosen = pick(log_probs, position)
        yield chosen
        if position + 1 < new_tokens:
            log_probs = reader.read(chosen, running)


def _recorded(
    reader: TokenReader, pick: Pick, new_tokens: int, running: list[bool], steps: RecordedSteps, ids: Tensor,
    lengths: Tensor
) -> Iterator[list[int]]:
    """Yield what `_plain` yields, by recorded steps, in which rows that have ended go on unseen. Where a row is full,
    one step is eager."""
    log_probs, position = reader.read_prompts(), 0
    while True:
        chosen = pick(log_probs, position)
        yield chosen
        position += 1
        assert reader.state is not None
        steps.begin(reader.state, ids)
        reader.state = steps.state
        for following in steps.run(chosen, lengths + position, min(reader.room(), new_tokens - position)):
            reader.count_read(chosen, running, every=True)
            chosen = following
            yield chosen
            position += 1
        if position == new_tokens:
            return
        reader.restart_ended(running)
        log_probs = reader.read(chosen, running)


class TokenReader:
    """The state of every row, and its text, for rows that must be read again."""

    def __init__(
        self, model: LanguageModel, prompts: Sequence[Sequence[int]], new_tokens: int,
        source: Source | None, notice: Notice | None,
    ):
        self.model, self.source, self.notice = model, source, notice
        self.texts = [list(prompt) for prompt in prompts]
        needed = max(len(text) for text in self.texts) + new_tokens
        self.capacity = needed if model.context is None else min(needed, model.context)
        self.used = [0] * len(self.texts)                     # tokens in each row's state
        self.state: State | None = None

    def read_prompts(self) -> Tensor:
        self.state = self.model.start(len(self.texts), self.capacity, self.source)
        pieces = [self._fitting(text) for text in self.texts]
        self.used = [len(piece) for piece in pieces]
        return self._step(pieces)

    def read(self, chosen: list[int], running: list[bool]) -> Tensor:
        """Read one more token in each running row; a full row starts again with the last half of its text. Return the
        log-probabilities (B, V) of the next."""
        full = [row for row, alive in enumerate(running) if alive and self.used[row] >= self.capacity]
        self.count_read(chosen, running)
        if full:
            self._read_again(full)
            for row in full:
                self.used[row] += 1
        return self._step([[chosen[row]] if alive else [] for row, alive in enumerate(running)])

    def count_read(self, chosen: list[int], running: list[bool], every: bool = False) -> None:
        """Record that each running row consumes its token; with `every`, finished rows too."""
        for row, alive in enumerate(running):
            if alive:
                self.texts[row].append(chosen[row])
            self.used[row] += alive or every

    def room(self) -> int:
        """Return how many tokens every row can still read."""
        return self.capacity - max(self.used)

    def restart_ended(self, running: list[bool]) -> None:
        """Give full rows that have ended a new state: their tokens are not looked at."""
        rows = [row for row, alive in enumerate(running) if not alive and self.used[row] >= self.capacity]
        fresh = self.model.start(len(rows), self.capacity) if rows else None
        if fresh is not None and self.state is not None:
            self.state = self.state.put(torch.tensor(rows, device=self.model.device), fresh)
            for row in rows:
                self.used[row] = 0

    def _step(self, pieces: list[list[int]]) -> Tensor:
        tokens, lengths = padded(pieces, self.model.device)
        assert self.state is not None
        even = all(len(piece) == tokens.shape[1] for piece in pieces)
        with packing():
            log_probs, self.state = self.model.step(tokens, self.state, None if even else lengths)
        return log_probs

    def _fitting(self, text: list[int]) -> list[int]:
        if len(text) <= self.capacity:
            return text
        last = max(1, self._half())
        self._say(f"the prompt has {len(text)} tokens and the model reads at most {self.model.context}: "
                  f"it begins with the last {last}")
        return text[-last:]

    def _read_again(self, rows: list[int]) -> None:
        """Give these rows a new state that has read the last half of their text, but for the token just chosen."""
        self._say(f"past the {self.model.context} tokens the model can read at once: "
                  f"it goes on from the last {self._half()}")
        pieces = [self.texts[row][-1 - self._half():-1] for row in rows]
        chosen = torch.tensor(rows, device=self.model.device)
        fresh = self.model.start(len(rows), self.capacity, None if self.source is None else self.source.select(chosen))
        assert fresh is not None and self.state is not None
        tokens, lengths = padded(pieces, self.model.device)
        if tokens.shape[1]:
            _, fresh = self.model.step(tokens, fresh, lengths)
        self.state = self.state.put(chosen, fresh, sources=None if self.source is None else chosen)
        for row, piece in zip(rows, pieces, strict=True):
            self.used[row] = len(piece)

    def _half(self) -> int:
        return self.capacity // 2

    def _say(self, text: str) -> None:
        if self.notice is not None:
            self.notice(text)
            self.notice = None                                # once is enough


def padded(pieces: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows of unequal length as (B, T) with zeros at the right, and their lengths (B,)."""
    lengths = torch.tensor([len(piece) for piece in pieces])
    tokens = torch.zeros(len(pieces), int(lengths.max()), dtype=torch.long)
    for row, piece in enumerate(pieces):
        tokens[row, : len(piece)] = torch.tensor(piece, dtype=torch.long)
    return tokens.to(device), lengths.to(device)
