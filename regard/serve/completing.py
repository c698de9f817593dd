"""Continuing texts, with all that OpenAI's completions may ask for: several at once, stops, echo, log-probabilities.

The model's own steps are heard on the way (`Overheard`), so that the log-probabilities are those it chose from: of the
model itself, before temperature and cuts. Pieces never split a character, and what might become a stop is held back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypedDict

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State
from regard.data.tokens.piece_words import piece_spans
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.decoding.marks import text_marks
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens, padded
from regard.serve.limits import in_turns
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened

LOWEST = -9999.0                           # for log 0, which JSON cannot say
AROUND = 8                                 # tokens before a place that decide how another would be spelled there


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Overheard(LanguageModel):
    """The same model; what its last step said is kept."""

    def __init__(self, model: LanguageModel):
        self.model, self.vocab, self.context = model, model.vocab, model.context
        self.said: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        return self.model.start(batch, capacity, source)

    def score(self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None) -> Any:
        return self.model.score(tokens, targets, state, lengths)

    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        log_probs, state = self.model.step(tokens, state, lengths)
        self.said = log_probs.detach().clone()              # who asked may write into the other
        return log_probs, state


Log = tuple[float, dict[str, float]]                    # of a token that was chosen, and of the likeliest in its place


@dataclass(frozen=True)
class Logged:
    """A token with its log-probabilities, and where its piece stands in the text."""

    piece: str
    log: Log
    at: int


class Row:
    """One text that is being written: what is certain of it and not yet taken, and why it ended."""

    def __init__(self, index: int, tokenizer: Tokenizer, prompt: Prompt, stop: Sequence[str]):
        self.index, self.stop = index, stop
        self.ids = list(prompt.ids)                         # all that was read and written
        self.writer = tokenizer.stream(after=prompt.ids)
        self.at = len(prompt.text)                          # characters before the next piece
        self.held = ""                                      # might be the beginning of a stop
        self.ready: list[str] = []
        self.logs: list[Logged] = []
        self.waiting: list[Logged] = []                     # of pieces that are held back
        self.finish: str | None = None
        self.written = 0

    def echo(self, prompt: Prompt, logs: Sequence[Log]) -> None:
        """The prompt itself comes first."""
        self.ready.append(prompt.text)
        ends = list(accumulate(map(len, prompt.pieces)))
        self.logs += [Logged(piece, log, end - len(piece))
                      for piece, log, end in zip(prompt.pieces, logs, ends, strict=True)] if logs else []

    def push(self, id: int, log: Log | None) -> None:
        piece = self.writer.push(id)
        self.ids.append(id)
        self.written += 1
        self._add(piece, log)

    def _add(self, piece: str, log: Log | None = None) -> None:
        if log is not None:
            self.waiting.append(Logged(piece, log, self.at))
        self.at += len(piece)
        self.held += piece
        found = [at for each in self.stop if (at := self.held.find(each)) >= 0]
        if found:
            self._let_go(min(found), last=True)
            self.finish = "stop"
        else:
            self._let_go(len(self.held) - self._unsure())

    def _unsure(self) -> int:
        """How many of the last characters may be the beginning of a stop."""
        most = max((len(each) - 1 for each in self.stop), default=0)
        return next((n for n in range(min(most, len(self.held)), 0, -1)
                     if any(each.startswith(self.held[-n:]) for each in self.stop)), 0)

    def _let_go(self, number: int, last: bool = False) -> None:
        """So many of the held characters are certain; if they are the last, the others are left out."""
        sure = self.at - len(self.held) + number
        self.ready.append(self.held[:number])
        self.held = "" if last else self.held[number:]
        certain = [each for each in self.waiting if (each.at if last else each.at + len(each.piece) - 1) < sure]
        self.logs += certain
        self.waiting = [] if last else self.waiting[len(certain):]

    def end(self, finish: str) -> None:
        if rest := self.writer.flush():
            self._add(rest)
        if self.finish is None:
            self._let_go(len(self.held))
            self.finish = finish

    def has_news(self) -> bool:
        return self.finish is not None or bool(self.logs) or any(self.ready)

    def take(self) -> tuple[str, dict[str, list[Any]] | None]:
        """The text that is certain and was not taken before, and the log-probabilities of its tokens, if any."""
        text, logs = "".join(self.ready), self.logs
        self.ready, self.logs = [], []
        if not logs:
            return text, None
        return text, {"tokens": [each.piece for each in logs], "token_logprobs": [each.log[0] for each in logs],
                      "top_logprobs": [each.log[1] for each in logs], "text_offset": [each.at for each in logs]}


@dataclass(frozen=True)
class Prompt:
    """A text that is to be continued, and what each of its tokens stands for in it."""

    text: str
    ids: list[int]
    pieces: list[str]


def prompt_of(given: str | Sequence[int], tokenizer: Tokenizer) -> Prompt:
    if not isinstance(given, str):
        if max(given) >= tokenizer.vocab_size:
            raise Refusal(400, f"prompt: there is no token {max(given)}; the model has {tokenizer.vocab_size}",
                          param="prompt")
        stream = tokenizer.stream()
        pieces = [stream.push(id) for id in given]
        pieces[-1] += stream.flush()
        return Prompt("".join(pieces), list(given), pieces)
    ids = tokenizer.encode(given).tolist()
    ends = list(accumulate(len(character.encode()) for character in given))
    cuts = [0, *(bisect_right(ends, end) for _, end in piece_spans(tokenizer, given, ids))]
    return Prompt(given, ids, [given[first:last] for first, last in pairwise(cuts)])


def prompts_of(given: Any, tokenizer: Tokenizer) -> list[Prompt]:
    """One or several, of text or of token ids."""
    several = isinstance(given, list) and not isinstance(given[0], int)
    return [prompt_of(each, tokenizer) for each in (given if several else [given])]


class Completing:
    """All texts of one request, written side by side. `notices` are what a user should know."""

    def __init__(
        self, opened: Opened, prompt: Any, *, new_tokens: int, temperature: float, top_k: int, top_p: float, seed: int,
        draws: int, stop: Sequence[str], echo: bool, top: int | None,
    ):
        self.lock, self.tokenizer = opened.lock, opened.trained.tokenizer
        self.model = Overheard(opened.trained.model)
        self.how, self.new_tokens, self.draws = Sampling(temperature, top_k, top_p, seed), new_tokens, draws
        self.echo, self.top = echo, top
        self.prompts = prompts_of(prompt, self.tokenizer)
        self.rows = [Row(index, self.tokenizer, self.prompts[index // draws], stop)
                     for index in range(len(self.prompts) * draws)]
        self.notices: list[str] = []

    def pieces(self) -> Iterator[Row]:
        """The rows that have something to take, as it comes; each at least once, at its end."""
        return in_turns(self.lock, self._write())

    def usage(self) -> Usage:
        read, written = sum(len(each.ids) for each in self.prompts), sum(row.written for row in self.rows)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _write(self) -> Iterator[Row]:
        if self.echo:
            logs = self._prompt_logs() if self.top is not None else [[] for _ in self.prompts]
            for row in self.rows:
                row.echo(self.prompts[row.index // self.draws], logs[row.index // self.draws])
        for chosen in self._steps() if self.new_tokens else ():
            for row, id in zip(self.rows, chosen, strict=True):
                if row.finish is None:
                    self._push(row, id)
                    if row.has_news():
                        yield row
            if all(row.finish for row in self.rows):
                return
        for row in self.rows:
            if row.finish is None:
                row.end("length")
                yield row

    def _steps(self) -> Iterator[list[int | None]]:
        t = self.tokenizer
        return generate_tokens(
            self.model, [[t.bos, *row.ids] for row in self.rows], new_tokens=self.new_tokens, how=self.how, end=t.eos,
            banned=text_marks(t).banned, row_ids=[row.index % self.draws for row in self.rows],
            notice=self.notices.append)

    def _push(self, row: Row, id: int | None) -> None:
        if id is None:
            row.end("stop")
            return
        log = None
        if self.top is not None:
            assert self.model.said is not None
            log = self._log(self.model.said[row.index], id, row.ids)
        row.push(id, log)

    # ------------------------------------------------------------------------------ log-probabilities

    def _log(self, said: Tensor, id: int, before: Sequence[int]) -> Log:
        """The chosen token's, and the likeliest ones by their spelling; the chosen one is among these."""
        assert self.top is not None
        values, best = said.float().cpu(), said.topk(min(self.top, len(said))).indices.tolist()
        found: dict[str, float] = {}
        for each in [*best, id]:
            found.setdefault(self._spelled(each, before), _finite(values[each]))
        return _finite(values[id]), found

    def _spelled(self, id: int, before: Sequence[int]) -> str:
        """What the token would add to the text; its name where it adds nothing by itself."""
        if id < FIRST:
            return self.tokenizer.token(id)
        return self.tokenizer.stream(after=before[-AROUND:]).push(id) or self.tokenizer.token(id)

    @torch.no_grad()
    def _prompt_logs(self) -> list[list[Log]]:
        """Those of every token of every prompt, as the model reads it, one token at a time."""
        longest, context = max(len(each.ids) for each in self.prompts), self.model.context
        if context is not None and longest > context:
            raise Refusal(400, f"the prompt has {longest} tokens and the model reads at most {context}: to have their "
                               "log-probabilities, send less", param="prompt")
        logs: list[list[Log]] = [[] for _ in self.prompts]
        tokens, lengths = padded([[self.tokenizer.bos, *each.ids[:-1]] for each in self.prompts], self.model.device)
        state = self.model.start(len(logs), longest + 1)
        for at in range(longest):
            assert state is not None
            said, state = self.model.step(tokens[:, at:at + 1], state, (lengths > at).long())
            for own, prompt, each in zip(logs, self.prompts, said, strict=True):
                if at < len(prompt.ids):
                    own.append(self._log(each, prompt.ids[at], prompt.ids[max(0, at - AROUND):at]))
        return logs


def _finite(value: Tensor) -> float:
    return max(LOWEST, float(value))
