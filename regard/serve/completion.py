"""Continuations of texts, with the options of OpenAI's completions: several at once, stops, echo, log-probabilities.

The log-probabilities are the model's own, before temperature and cuts: `Overheard` keeps those of its last step. Pieces
never split a character, and text that might become a stop is held back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State
from regard.data.tokens.piece_words import piece_spans
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.decoding.sampling import Sampling
from regard.decoding.special_tokens import text_special_tokens
from regard.decoding.stream import generate_tokens, padded
from regard.serve.limits import in_turns
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened

LOWEST = -9999.0                           # for log 0, which JSON cannot say
AROUND = 8                                 # tokens before a place that decide how another would be spelled there


class Overheard(LanguageModel):
    """A model that keeps the log-probabilities of its last step."""

    def __init__(self, model: LanguageModel):
        self.model, self.vocab, self.context = model, model.vocab, model.context
        self.log_probs: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        return self.model.start(batch, capacity, source)

    def score(self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None) -> Any:
        return self.model.score(tokens, targets, state, lengths)

    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        log_probs, state = self.model.step(tokens, state, lengths)
        self.log_probs = log_probs.detach().clone()         # the caller may write into its own
        return log_probs, state


Log = tuple[float, dict[str, float]]        # log-probabilities: of the chosen token, and of the likeliest by spelling


@dataclass(frozen=True)
class Logged:
    """A token with its log-probabilities, and the place of its piece in the text."""

    piece: str
    log: Log
    start: int


class CompletionRow:
    """One text that is being written: how far it is certain, how far it was taken, and why it ended."""

    def __init__(self, index: int, tokenizer: Tokenizer, prompt: Prompt, stop: Sequence[str]):
        self.index, self.stop = index, stop
        self.ids = list(prompt.ids)                         # of all tokens read and written
        self.writer = tokenizer.stream(after=prompt.ids)
        self.text = prompt.text
        self.sure = self.taken = len(prompt.text)           # after these characters a stop may begin
        self.logs: list[Logged] = []                        # not taken yet
        self.finish: str | None = None
        self.written = 0

    def echo(self, prompt: Prompt, logs: Sequence[Log]) -> None:
        """The prompt itself comes first."""
        self.taken = 0
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
            self.logs.append(Logged(piece, log, len(self.text)))
        self.text += piece
        stops = [start for each in self.stop if (start := self.text.find(each, self.sure)) >= 0]
        if stops:
            certain = self._certain()
            self.text, self.finish = self.text[:min(stops)], "stop"
            self.logs = [*certain, *(each for each in self.logs[len(certain):] if each.start < len(self.text))]
        self.sure = len(self.text) - (0 if stops else self._unsure())

    def _unsure(self) -> int:
        """Return the number of last characters that may be the beginning of a stop."""
        most = max((len(each) - 1 for each in self.stop), default=0)
        return next((n for n in range(min(most, len(self.text) - self.sure), 0, -1)
                     if any(each.startswith(self.text[-n:]) for each in self.stop)), 0)

    def end(self, finish: str) -> None:
        if rest := self.writer.flush():
            self._add(rest)
        if self.finish is None:
            self.sure, self.finish = len(self.text), finish

    def _certain(self) -> list[Logged]:
        """Return the logs of pieces that are certain to their last character."""
        return [each for each in self.logs if self.finish or each.start + len(each.piece) - 1 < self.sure]

    def has_news(self) -> bool:
        return self.finish is not None or self.sure > self.taken or bool(self._certain())

    def take(self) -> tuple[str, dict[str, list[Any]] | None]:
        """Return the text that is certain and was not taken before, and the log-probabilities of its tokens, if any."""
        text, logs = self.text[self.taken:self.sure], self._certain()
        self.taken, self.logs = self.sure, self.logs[len(logs):]
        if not logs:
            return text, None
        return text, {"tokens": [each.piece for each in logs], "token_logprobs": [each.log[0] for each in logs],
                      "top_logprobs": [each.log[1] for each in logs], "text_offset": [each.start for each in logs]}


@dataclass(frozen=True)
class Prompt:
    """A text to continue, its tokens, and the piece of the text that each stands for."""

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
    """Return one or several prompts, of text or of token ids."""
    several = isinstance(given, list) and not isinstance(given[0], int)
    return [prompt_of(each, tokenizer) for each in (given if several else [given])]


class Completions:
    """All texts of one request, written side by side. `notices` are for the user."""

    def __init__(
        self, opened: Opened, prompt: Any, *, new_tokens: int, temperature: float, top_k: int, top_p: float, seed: int,
        draws: int, stop: Sequence[str], echo: bool, top: int | None,
    ):
        self.lock, self.tokenizer = opened.lock, opened.trained.tokenizer
        self.model = Overheard(opened.trained.model)
        self.sampling, self.new_tokens, self.draws = Sampling(temperature, top_k, top_p, seed), new_tokens, draws
        self.echo, self.top = echo, top
        self.prompts = prompts_of(prompt, self.tokenizer)
        self.rows = [CompletionRow(index, self.tokenizer, self.prompts[index // draws], stop)
                     for index in range(len(self.prompts) * draws)]
        self.notices: list[str] = []

    def pieces(self) -> Iterator[CompletionRow]:
        """Yield each row whenever it has something to take; each at least once, at its end."""
        return in_turns(self.lock, self._write())

    def usage(self) -> dict[str, int]:
        """Return how many tokens were read and written, by OpenAI's names."""
        read, written = sum(len(each.ids) for each in self.prompts), sum(row.written for row in self.rows)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _write(self) -> Iterator[CompletionRow]:
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
            self.model, [[t.bos, *row.ids] for row in self.rows], new_tokens=self.new_tokens, sampling=self.sampling,
            end=t.eos, banned=text_special_tokens(t).banned, row_ids=[row.index % self.draws for row in self.rows],
            notice=self.notices.append)

    def _push(self, row: CompletionRow, id: int | None) -> None:
        if id is None:
            row.end("stop")
            return
        log = None
        if self.top is not None:
            assert self.model.log_probs is not None
            log = self._log(self.model.log_probs[row.index], id, row.ids)
        row.push(id, log)

    # ------------------------------------------------------------------------------ log-probabilities

    def _log(self, log_probs: Tensor, id: int, before: Sequence[int]) -> Log:
        """Return the chosen token's log-probability, and those of the likeliest, the chosen one among them."""
        assert self.top is not None
        values, best = log_probs.float().cpu(), log_probs.topk(min(self.top, len(log_probs))).indices.tolist()
        likeliest: dict[str, float] = {}
        for each in [*best, id]:
            likeliest.setdefault(self._spell(each, before), _finite(values[each]))
        return _finite(values[id]), likeliest

    def _spell(self, id: int, before: Sequence[int]) -> str:
        """Return the text that the token would add; its name where it adds nothing by itself."""
        if id < FIRST:
            return self.tokenizer.token(id)
        return self.tokenizer.stream(after=before[-AROUND:]).push(id) or self.tokenizer.token(id)

    @torch.no_grad()
    def _prompt_logs(self) -> list[list[Log]]:
        """Return those of every token of every prompt, as the model reads it, one token at a time."""
        longest, context = max(len(each.ids) for each in self.prompts), self.model.context
        if context is not None and longest > context:
            raise Refusal(400, f"the prompt has {longest} tokens and the model reads at most {context}: to have their "
                               "log-probabilities, send less", param="prompt")
        logs: list[list[Log]] = [[] for _ in self.prompts]
        tokens, lengths = padded([[self.tokenizer.bos, *each.ids[:-1]] for each in self.prompts], self.model.device)
        state = self.model.start(len(logs), longest + 1)
        for place in range(longest):
            assert state is not None
            log_probs, state = self.model.step(tokens[:, place:place + 1], state, (lengths > place).long())
            for log, prompt, each in zip(logs, self.prompts, log_probs, strict=True):
                if place < len(prompt.ids):
                    log.append(self._log(each, prompt.ids[place], prompt.ids[max(0, place - AROUND):place]))
        return logs


def _finite(value: Tensor) -> float:
    return max(LOWEST, float(value))
