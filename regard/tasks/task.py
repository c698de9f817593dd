"""A task's value: what is learned, from which data, by which families, and how a trained model is used and measured.

Training, loading, looking, scoring and serving know a task only by this value and by its card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import SettingError, did_you_mean
from regard.families import Family
from regard.look.parts import Look, Request
from regard.look.small_map import Sample
from regard.probe.influence import evaluating
from regard.tasks.card import Card
from regard.tasks.score import Score


@dataclass(frozen=True)
class Task:
    card: Card
    trained: Callable[..., Any]                            # the class of its trained models: (model, tokenizer, ...)
    families: Mapping[str, Family]
    family: Callable[[str], Family]                        # by name; an unknown one is a SettingError
    batches: Callable[..., Any]                            # (corpus, training settings, context) -> batch(step)
    held_out: Callable[..., Any]                           # (corpus, training settings, context) -> the same batches
    look: Callable[[Any, Request], Look]                   # (trained, request): one watched run
    sample: Callable[..., Callable[[], Sample]]            # (model, corpus, context): what it writes in training
    data: Any = DataSettings                               # the [data] table
    tokenizer: Any = TokenizerSettings                     # the [tokenizer] table
    prepare: Callable[..., Any] = prepare                  # ([data], [tokenizer] or a tokenizer, say) -> a corpus
    load_tokenizer: Callable[[Any], Any] = Tokenizer.load  # from a run's tokenizer.json
    vocab: Callable[[Any], Any] = lambda tokenizer: tokenizer.vocab_size              # of the model
    judge: Callable[..., dict[str, float]] | None = None   # (model, corpus, context) -> what else is measured
    score: Score | None = None                             # behind `regard score`
    baseline: str = ""                                     # the family that stands in every comparison

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def usual(self) -> str:
        return self.card.usual

    @property
    def used_by(self) -> str:
        return self.card.used_by

    def sampler(self, model: Any, corpus: Any, context: int | None = None) -> Callable[[], Sample]:
        """A function that says what the model writes now; what it begins with is chosen once.

        `context` is the run's: the most tokens of a source, a target or a caption. Of a text the model knows its own.
        """
        write = self.sample(model, corpus, context)

        def sample() -> Sample:
            with torch.no_grad(), evaluating(model):
                return {"kind": self.name, **write()}

        return sample


def from_table(families: Mapping[str, Family]) -> Callable[[str], Family]:
    """A look-up in a task's own table of families."""

    def family(name: str) -> Family:
        if name not in families:
            raise SettingError(f"unknown family {name}{did_you_mean(name, families)}")
        return families[name]

    return family
