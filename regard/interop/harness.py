"""A language model as EleutherAI's lm-evaluation-harness asks for one: networks, mixtures and n-grams alike.

    loglikelihood           log p(continuation | context), and whether greedy search would write it
    loglikelihood_rolling   log p(text) after <bos>, its end not scored
    generate_until          a continuation up to the first of some texts, or <eos>

Each text begins with <bos>, as in training. The answers are those of `regard score` and `regard generate`: one window
of a network holds as many tokens as in training; an n-gram has no windows. lm-eval itself is needed by
`lm_eval_plugin` alone.   T tokens of a row · N tokens that are scored · V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoding.sampling import Sampling
from regard.errors import SettingError, note
from regard.models.distributions import by_head, distributions
from regard.tasks import USUAL
from regard.tasks.trained_model import count_parameters
from regard.trained import load

BATCH = 16                     # rows at once, where the user does not say how many
WRITTEN = 256                  # tokens written at most, unless a task says
# How a task asks for what `Sampling` has; other arguments of transformers' generate are refused by name.
SAMPLED = {"temperature": float, "top_k": int, "top_p": float, "seed": int}
IGNORED = ("until", "do_sample", "max_gen_toks", "max_new_tokens", "max_tokens", "max_length")


@dataclass(frozen=True)
class ScoredRow:
    """Token ids that are read in one window, of which the last N are scored."""

    tokens: list[int]
    scored: int


@dataclass(frozen=True)
class RowScore:
    log_prob: float
    greedy: bool                           # each scored token is the likeliest of those that are ever written


class HarnessModel:
    """A trained language model behind the three questions of the harness. `requests` have `args`, as its instances."""

    def __init__(
        self, run: str | Path, device: str | None = None, batch_size: int | str | None = None, trust: bool = False,
        **unknown: Any,
    ):
        super().__init__()
        strange = [name for name, value in unknown.items() if name != "max_batch_size" and value is not None]
        if strange:
            raise SettingError(f"--model_args {strange[0]}: there is run, device, batch_size and trust")
        self.trained = load(run, find_device(device), trust=trust, task=USUAL)
        self.batch = int(batch_size) if batch_size is not None and str(batch_size).isdigit() else BATCH
        if isinstance(self.trained.model, nn.Module):
            self.trained.model.eval()

    # ------------------------------------------------------------------------------------------ questions

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        rows = [self.continuation_row(*request.args) for request in requests]
        answers = [(score.log_prob, score.greedy) for score in self.score_rows(rows)]
        return self.remember("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        windows = [list(self.rolling_rows(request.args[0])) for request in requests]
        scores = iter(self.score_rows([row for rows in windows for row in rows]))
        answers = [sum(next(scores).log_prob for _ in rows) for rows in windows]
        return self.remember("loglikelihood_rolling", requests, answers)

    @torch.no_grad()
    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        answers: dict[int, str] = {}
        for numbers in group_alike([request.args[1] for request in requests], self.batch):
            contexts = [str(requests[number].args[0]) for number in numbers]
            written = self.write_until(contexts, dict(requests[numbers[0]].args[1]))
            answers.update(zip(numbers, written, strict=True))
        return self.remember("generate_until", requests, [answers[number] for number in range(len(requests))])

    def remember(self, question: str, requests: Sequence[Any], answers: list[Any]) -> list[Any]:
        """Hand the answers to the harness's cache, if it has one."""
        hook = getattr(self, "cache_hook", None)
        for request, answer in zip(requests, answers, strict=True):
            if hook is not None:
                hook.add_partial(question, request.args, answer)
        return answers

    # ------------------------------------------------------------------------------------------ tokens

    @property
    def longest(self) -> int | None:
        """The tokens that are read at once; None: any number."""
        return self.trained.window

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.trained.tokenizer.encode(text).tolist()
        return ids

    def continuation_row(self, context: str, continuation: str) -> ScoredRow:
        """Return a context with its continuation. White space between them counts as the continuation's, as the harness
        does it; of a context that is too long the end is read."""
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        before, whole = self.encode(context), self.encode(context + continuation)
        scored = len(whole) - len(before)
        if scored < 1:                                         # both are one token: it is scored
            scored = len(whole) - common_start(before, whole)
        tokens = [self.trained.tokenizer.bos, *whole]
        if self.longest is not None:
            scored = min(scored, self.longest)
            tokens = tokens[-(self.longest + 1):]
        return ScoredRow(tokens, scored)

    def rolling_rows(self, text: str) -> Iterator[ScoredRow]:
        """Yield the windows of a text: each token is scored once, and the last window is as long as the others."""
        tokens = [self.trained.tokenizer.bos, *self.encode(text)]
        width = self.longest or len(tokens)
        for first in range(1, len(tokens), width):
            last = min(first + width, len(tokens))
            yield ScoredRow(tokens[max(0, last - width - 1):last], last - first)

    # ------------------------------------------------------------------------------------------ scores

    @torch.no_grad()
    def score_rows(self, rows: Sequence[ScoredRow]) -> list[RowScore]:
        """Return the score of each row. Rows of like length are read together where the model can."""
        self.tell_unknown(rows)
        answers: dict[int, RowScore] = {}
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number].tokens))
        size = self.batch if self.trained.model.in_one_pass and not hasattr(self.trained.model, "distributions") else 1
        for first in range(0, len(order), size):
            numbers = order[first:first + size]
            found = self.batch_log_probs([rows[number] for number in numbers]) if size > 1 else [
                self.row_log_probs(rows[number]) for number in numbers]
            answers |= {number: self.judge(rows[number], each) for number, each in zip(numbers, found, strict=True)}
        return [answers[number] for number in range(len(rows))]

    def row_log_probs(self, row: ScoredRow) -> Tensor:
        """Return the (N, V) log-probabilities of what follows, by any language model."""
        read = torch.tensor(row.tokens[:-1])
        return torch.cat(list(distributions(self.trained.model, read)))[len(read) - row.scored:]

    def batch_log_probs(self, rows: Sequence[ScoredRow]) -> list[Tensor]:
        """Return the same of many rows at once, by a network that encodes them in one pass."""
        model: Any = self.trained.model
        lengths = torch.tensor([len(row.tokens) - 1 for row in rows], device=model.device)
        read = nn.utils.rnn.pad_sequence([torch.tensor(row.tokens[:-1]) for row in rows], batch_first=True,
                                         padding_value=self.trained.tokenizer.pad)
        vectors = model.encode(read.to(model.device), None, lengths)[0]
        wanted = [each[int(length) - row.scored:int(length)] for each, length, row in
                  zip(vectors, lengths.tolist(), rows, strict=True)]
        return list(torch.cat(list(by_head(model.head, torch.cat(wanted)))).split([row.scored for row in rows]))

    def judge(self, row: ScoredRow, log_probs: Tensor) -> RowScore:
        targets = torch.tensor(row.tokens[len(row.tokens) - row.scored:])
        total = float(log_probs.double().gather(-1, targets[:, None]).sum())
        written = log_probs.clone()
        written[:, list(self.trained.special_tokens.banned)] = -torch.inf
        return RowScore(total, bool((written.argmax(-1) == targets).all()))

    def tell_unknown(self, rows: Sequence[ScoredRow]) -> None:
        unknown = sum(row.tokens[len(row.tokens) - row.scored:].count(self.trained.tokenizer.unk) for row in rows)
        if unknown:
            note(f"{unknown:,} of the {sum(row.scored for row in rows):,} scored tokens are <unk>: the words behind "
                 "them cost nothing, and figures cannot be compared with those of another vocabulary")

    # ------------------------------------------------------------------------------------------ writing

    def write_until(self, contexts: Sequence[str], wanted: dict[str, Any]) -> list[str]:
        """Return the continuations of contexts, each up to the first of the texts at which to stop."""
        stops, most, sampling = read_wishes(wanted)
        context = self.trained.model.context
        most = most if context is None else min(most, max(1, context // 2))
        prompts = [[self.trained.tokenizer.bos, *self.encode(text)] for text in contexts]
        if context is not None:
            prompts = [prompt[-(context - most):] for prompt in prompts]
        writers = [self.trained.tokenizer.stream(after=prompt) for prompt in prompts]
        texts, running = [""] * len(prompts), [True] * len(prompts)
        for step in self.trained.steps(prompts, new_tokens=most, sampling=sampling):
            for row, token in enumerate(step):
                if token is not None and running[row]:
                    texts[row] += writers[row].push(token)
                    running[row] = not any(stop in texts[row] for stop in stops)
            if not any(running):
                break
        ended = [text + (writer.flush() if alive else "") for text, writer, alive in
                 zip(texts, writers, running, strict=True)]
        return [cut_at(text, stops) for text in ended]

    # ------------------------------------------------------------------------------------------ about

    @property
    def tokenizer_name(self) -> str:
        return f"regard-{self.trained.tokenizer.digest()}"

    def get_model_info(self) -> dict[str, Any]:
        """Return what the harness keeps beside the results."""
        return {"model_num_parameters": count_parameters(self.trained.model), "model_family": self.trained.family,
                "model_data": self.trained.tables["data"].get("content", "")}


def find_device(asked: str | None) -> str:
    """Return the device to load to: the harness asks for cuda:0 wherever its user says nothing."""
    there = asked and not (str(asked).startswith("cuda") and not torch.cuda.is_available())
    return str(asked) if there else "auto"


def common_start(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens both begin with; of the other one at least one is left."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return min(same, max(0, len(other) - 1))


def group_alike(wanted: Sequence[dict[str, Any]], size: int) -> Iterator[list[int]]:
    """Yield numbers of requests with the same options, so many at once, in their order."""
    groups: dict[str, list[int]] = {}
    for number, options in enumerate(wanted):
        groups.setdefault(repr(sorted(options.items(), key=str)), []).append(number)
    for numbers in groups.values():
        yield from (numbers[first:first + size] for first in range(0, len(numbers), size))


def read_wishes(wanted: dict[str, Any]) -> tuple[list[str], int, Sampling]:
    """Return the texts at which to stop, the most tokens, and how to sample, from what a task asks for."""
    stops = wanted.get("until") or []
    stops = [stops] if isinstance(stops, str) else [str(stop) for stop in stops if stop]
    most = next((int(wanted[name]) for name in IGNORED[2:] if wanted.get(name)), WRITTEN)
    strange = [name for name in wanted if name not in SAMPLED and name not in IGNORED]
    if strange:
        raise SettingError(f"gen_kwargs {strange[0]}: a text is written by {', '.join((*SAMPLED, *IGNORED))}")
    options = {name: kind(wanted[name]) for name, kind in SAMPLED.items() if wanted.get(name) is not None}
    drawn = wanted.get("do_sample", options.get("temperature", 0.0) > 0)
    return stops, most, Sampling(**{"temperature": 1.0, **options}) if drawn else Sampling(0.0)


def cut_at(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first of these."""
    ends = [text.find(stop) for stop in stops if stop in text]
    return text[:min(ends)] if ends else text
