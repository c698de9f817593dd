"""Drafts: a cheap guess at the next few tokens of a text, for a model to check in one pass (see speculative.py).

A draft may be wrong as often as it likes: that costs time, and never changes what is written. Two guess here: one
looks up how the text itself went on after the words it ends with (prompt look-up), the other asks an n-gram model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.errors import DataError
from regard.models.ngram import NGram
from regard.models.ngram.lookup import find_contexts

LONGEST, SHORTEST = 8, 2     # tokens of the end of a text that are looked up; a single one says too little
SURE = 0.5                   # an n-gram goes on guessing as long as its best word has this probability
COUNTED_ORDER = 4            # of an n-gram that is counted on a prompt
REMEMBERED = 2**16           # answers of an n-gram that are kept


class Draft(ABC):
    """Follows one text as it is written, and guesses how it goes on."""

    @abstractmethod
    def extend(self, tokens: Sequence[int]) -> None:
        """These were written."""

    @abstractmethod
    def propose(self, most: int) -> list[int]:
        """At most so many tokens that may come next; none where there is no telling."""


DraftMaker = Callable[[Sequence[int]], Draft]        # from a prompt: each row has a draft of its own


# ---------------------------------------------------------------------------------------------- the text itself


class PromptLookup(Draft):
    """The text goes on as it did after the last place with the same words: as many as possible, from 8 down to 2.

    Every n-gram of the text is kept with the place after its last occurrence, so that a look costs nothing that
    grows with the text. `looked_up` says what comes out.
    """

    def __init__(self, text: Sequence[int], longest: int = LONGEST):
        self.longest = longest
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}
        self.extend(text)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self.text)                     # what ends here has a token after it from now on
            for n in range(SHORTEST, min(self.longest, end) + 1):
                self.after[tuple(self.text[end - n:])] = end
            self.text.append(token)

    def propose(self, most: int) -> list[int]:
        for n in range(min(self.longest, len(self.text)), SHORTEST - 1, -1):
            place = self.after.get(tuple(self.text[-n:]))
            if place is not None:
                return copied(self.text, place, most)
        return []


def looked_up(text: Sequence[int], most: int, longest: int = LONGEST) -> list[int]:
    """What a PromptLookup proposes, by definition: every place is tried, the longest match first and the last place."""
    for n in range(min(longest, len(text)), SHORTEST - 1, -1):
        for place in range(len(text) - 1, n - 1, -1):
            if list(text[place - n:place]) == list(text[-n:]):
                return copied(text, place, most)
    return []


def copied(text: Sequence[int], place: int, most: int) -> list[int]:
    """What stands from a place on; past the end of the text it is what was copied already, as a loop goes on."""
    period = len(text) - place
    return [text[place + at % period] for at in range(most)]


def look_up(text: Tensor, lengths: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """(B, most) and how many of them count (B,): what `looked_up` proposes after the first tokens of each row (B, T).

    All places at once, in static shapes and without a wait: for a device that is not to be asked in between. What
    stands behind the end of a row is never looked at; of each row one token is there at least.
    """
    time = text.shape[1] + 1
    windows = pad(text, (LONGEST, 0), value=-1).unfold(1, LONGEST, 1)            # (B, T + 1, n): what precedes a place
    ends = windows.gather(1, lengths[:, None, None].expand(-1, 1, LONGEST))      # (B, 1, n): what each row ends with
    behind = torch.arange(LONGEST - 1, -1, -1, device=text.device)
    alike = torch.where(windows == ends, LONGEST, behind).amin(2)                # (B, T + 1): tokens alike before it
    places = torch.arange(time, device=text.device)
    counts = (alike >= SHORTEST) & (places < lengths[:, None])
    best = ((alike * time + places) * counts).amax(1)                            # the longest, of these the last; or 0
    place = best % time
    period = (lengths - place)[:, None]
    guesses = text.gather(1, place[:, None] + torch.arange(most, device=text.device) % period)
    return guesses, (best > 0) * most


# --------------------------------------------------------------------------------------------------- an n-gram


class NGramDraft(Draft):
    """The word that most likely follows the longest context seen, again and again, as long as it is likely enough."""

    def __init__(self, guesses: Guesses, text: Sequence[int]):
        self.guesses, self.text = guesses, list(text[-guesses.reach:])

    def extend(self, tokens: Sequence[int]) -> None:
        self.text = [*self.text, *tokens][-self.guesses.reach:]

    def propose(self, most: int) -> list[int]:
        text, found = list(self.text), 0
        while found < most:
            word, chance = self.guesses.next(text)
            if chance < SURE:
                break
            text.append(word)
            found += 1
        return text[len(text) - found:]


class Guesses:
    """What an n-gram model guesses, remembered: texts come back to the same contexts."""

    def __init__(self, model: NGram):
        self.model = model
        self.reach = max(1, model.order - 1)
        self.known: dict[tuple[int, ...], tuple[int, float]] = {}

    def next(self, text: Sequence[int]) -> tuple[int, float]:
        """The likeliest word that was seen after the longest context seen, and its probability there."""
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
        return 0, 0.0                                # nothing was seen after these words: no guess is worth a look


def counted(prompt: Sequence[int], vocab: int) -> NGram | None:
    """An n-gram counted on a prompt; None of one with nothing to count."""
    try:
        return NGram.fit(np.array(prompt), vocab=vocab, order=COUNTED_ORDER, counts=False)
    except DataError:                                # nothing but <bos>
        return None


class NoDraft(Draft):
    """Guesses nothing."""

    def extend(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, most: int) -> list[int]:
        return []


def from_ngram(model: NGram | None, vocab: int) -> DraftMaker:
    """Drafts by this n-gram for all rows; without one, by what is counted on the prompt of each."""
    shared = None if model is None else Guesses(model)

    def make(prompt: Sequence[int]) -> Draft:
        own = shared
        if own is None:
            model_of_prompt = counted(prompt, vocab)
            own = None if model_of_prompt is None else Guesses(model_of_prompt)
        return NoDraft() if own is None else NGramDraft(own, prompt)

    return make
