"""Drafts: a cheap guess at the next few tokens of a text, for a model to check in one pass (see speculative.py).

A draft may be wrong as often as it likes: that costs time, and never changes the text. There are two drafters: one
looks up how the text itself went on after its last words (prompt look-up), the other asks an n-gram model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from regard.contract import LanguageModel
from regard.errors import DataError, SettingError, did_you_mean
from regard.models.ngram import NGram
from regard.models.ngram.lookup import find_contexts

LONGEST, SHORTEST = 8, 2     # tokens of the end of a text that are looked up; a single one says too little
SURE = 0.5                   # an n-gram goes on guessing as long as its best word has this probability
COUNTED_ORDER = 4            # of an n-gram that is counted on a prompt
REMEMBERED = 2**16           # answers of an n-gram that are kept
KINDS = ("prompt", "ngram")
AHEAD = 8                    # tokens a draft proposes at most


class Drafter(ABC):
    """Follows one text as it is written, and guesses its next tokens."""

    @abstractmethod
    def extend(self, tokens: Sequence[int]) -> None:
        """Note that these tokens were written."""

    @abstractmethod
    def propose(self, most: int) -> list[int]:
        """Return at most so many tokens that may come next, or none."""


DrafterMaker = Callable[[Sequence[int]], Drafter]        # from a prompt: each row has a draft of its own


# ---------------------------------------------------------------------------------------------- the text itself


class PromptLookup(Drafter):
    """Proposes what followed the last occurrence of the longest possible ending of the text, of 8 tokens down to 2.

    Every n-gram of the text is stored with the index after its last occurrence, so that the cost of a look-up does not
    grow with the text. `looked_up` is the definition.
    """

    def __init__(self, text: Sequence[int], longest: int = LONGEST):
        self.longest = longest
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}
        self.extend(text)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self.text)                     # the n-grams that end here are followed by a token from now on
            for n in range(SHORTEST, min(self.longest, end) + 1):
                self.after[tuple(self.text[end - n:])] = end
            self.text.append(token)

    def propose(self, most: int) -> list[int]:
        for n in range(min(self.longest, len(self.text)), SHORTEST - 1, -1):
            place = self.after.get(tuple(self.text[-n:]))
            if place is not None:
                return copy_from(self.text, place, most)
        return []


def looked_up(text: Sequence[int], most: int, longest: int = LONGEST) -> list[int]:
    """Return what a PromptLookup proposes, by definition: the longest match first, and of these the last."""
    for n in range(min(longest, len(text)), SHORTEST - 1, -1):
        for place in range(len(text) - 1, n - 1, -1):
            if list(text[place - n:place]) == list(text[-n:]):
                return copy_from(text, place, most)
    return []


def copy_from(text: Sequence[int], place: int, most: int) -> list[int]:
    """Return so many tokens from an index on; past the end of the text, what was copied already, as in a loop."""
    period = len(text) - place
    return [text[place + offset % period] for offset in range(most)]


# --------------------------------------------------------------------------------------------------- an n-gram


class NGramDrafter(Drafter):
    """Proposes the likeliest token after the longest context seen, again and again, as long as it is likely enough."""

    def __init__(self, guesses: NGramGuesses, text: Sequence[int]):
        self.guesses, self.text = guesses, list(text[-guesses.reach:])

    def extend(self, tokens: Sequence[int]) -> None:
        self.text = [*self.text, *tokens][-self.guesses.reach:]

    def propose(self, most: int) -> list[int]:
        text, guessed = list(self.text), 0
        while guessed < most:
            token, probability = self.guesses.next(text)
            if probability < SURE:
                break
            text.append(token)
            guessed += 1
        return text[len(text) - guessed:]


class NGramGuesses:
    """The guesses of an n-gram model, cached: texts come back to the same contexts."""

    def __init__(self, model: NGram):
        self.model = model
        self.reach = max(1, model.order - 1)
        self.known: dict[tuple[int, ...], tuple[int, float]] = {}

    def next(self, text: Sequence[int]) -> tuple[int, float]:
        """Return the likeliest token after the longest context seen, and its probability there."""
        history = tuple(text[-self.reach:])
        if history not in self.known:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known[history] = self.look_up(history)
        return self.known[history]

    def look_up(self, history: tuple[int, ...]) -> tuple[int, float]:
        orders, words = self.model.orders, np.array([history], np.int64)
        for size in range(min(len(history), self.model.order - 1), 0, -1):
            _, contexts = find_contexts(orders, words, np.zeros(1, np.int64), size)
            ids, _ = orders[size].following(contexts) if len(contexts) else (np.zeros(0, np.int64), None)
            if len(ids):
                best = ids[int(orders[size].logprobs[ids].argmax())]
                return int(orders[size].words[best]), math.exp(float(orders[size].logprobs[best]))
        return 0, 0.0                                # nothing was seen after these tokens


def count_prompt(prompt: Sequence[int], vocab: int) -> NGram | None:
    """Return an n-gram counted on a prompt, or None where there is nothing to count."""
    try:
        return NGram.fit(np.array(prompt), vocab=vocab, order=COUNTED_ORDER, counts=False)
    except DataError:                                # nothing but <bos>
        return None


class NoDrafter(Drafter):
    """NGramGuesses nothing."""

    def extend(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, most: int) -> list[int]:
        return []


def from_ngram(model: NGram | None, vocab: int) -> DrafterMaker:
    """Return a maker of drafters by this n-gram; without one, by an n-gram counted on each prompt."""
    shared = None if model is None else NGramGuesses(model)

    def make(prompt: Sequence[int]) -> Drafter:
        if shared is not None:
            return NGramDrafter(shared, prompt)
        on_prompt = count_prompt(prompt, vocab)
        return NoDrafter() if on_prompt is None else NGramDrafter(NGramGuesses(on_prompt), prompt)

    return make


# ------------------------------------------------------------------------------------------ asked for, and counted


@dataclass(frozen=True)
class Speculation:
    """The kind of drafter, and how far ahead it guesses. An n-gram without a model is counted on the prompt."""

    kind: str = "prompt"                     # prompt · ngram
    ahead: int = AHEAD
    model: NGram | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(f"unknown --speculate {self.kind}{did_you_mean(self.kind, KINDS)}")
        if self.ahead < 1:
            raise SettingError(f"--draft-tokens {self.ahead}: must be at least 1")
        if self.model is not None and self.kind != "ngram":
            raise SettingError(f"--speculate {self.kind} asks no model: leave --draft out, or say --speculate ngram")

    def drafts(self, vocab: int) -> DrafterMaker:
        return PromptLookup if self.kind == "prompt" else from_ngram(self.model, vocab)


@dataclass
class Acceptance:
    """Counts of guesses, and of those that stood."""

    proposed: int = 0
    accepted: int = 0
    passes: int = 0                          # of the model over all rows, the one over the prompts included
    tokens: int = 0                          # written, in all rows

    @property
    def rate(self) -> float:
        return self.accepted / max(1, self.proposed)

    @property
    def passes_per_token(self) -> float:
        """Return passes a token; plain generation of one row takes 1."""
        return self.passes / max(1, self.tokens)

    def add(self, other: Acceptance) -> None:
        self.proposed += other.proposed
        self.accepted += other.accepted
        self.passes += other.passes
        self.tokens += other.tokens

    def as_dict(self) -> dict[str, float]:
        return {"proposed": self.proposed, "accepted": self.accepted, "rate": round(self.rate, 4),
                "passes": self.passes, "tokens": self.tokens}

    def __str__(self) -> str:
        return (f"drafts: {self.accepted:,} of {self.proposed:,} guesses stood ({self.rate:.0%}); "
                f"{self.tokens:,} tokens in {self.passes:,} passes")


def why_no_drafts(model: LanguageModel) -> str:
    """Return why a model writes without drafts; "" where it uses them."""
    if not isinstance(model, nn.Module):
        return "an n-gram looks words up one by one, and has no pass to spare: written without drafts"
    if model.device.type != "cpu":
        return ("drafts gain nothing on a GPU, where a pass over several tokens takes as long as the steps that it "
                "would save: written without drafts")
    return ""
