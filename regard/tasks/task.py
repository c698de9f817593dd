"""A task's value: its data, its families, its batches, and the use and the score of a trained model.

Training, loading, looking, scoring and serving know a task only by this value and by its card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from regard.config import fill
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.reading.saved_datasets import spread_splits
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import RunError, SettingError, did_you_mean
from regard.families import Family
from regard.look.influence import evaluating
from regard.look.look import Look, Request
from regard.look.small_map import Sample
from regard.tasks.answering import Answering
from regard.tasks.card import Card
from regard.tasks.last_measure import LastMeasure
from regard.tasks.score import Scoring


@dataclass(frozen=True)
class Mixing:
    """The mixing of a trained network with an n-gram that is counted on the same text."""

    settings: type                                         # the [ngram] table
    count: Callable[..., Any]                              # (settings, corpus, training settings) -> the n-gram
    load: Callable[..., Any]                               # (network, folder, tables) -> the mixture
    fit: Callable[..., dict[str, float]]                   # (trained, corpus, folder): the losses of all three
    fitted: int                                            # tokens that it is fitted on, at most


@dataclass(frozen=True)
class Task:
    card: Card
    trained: Callable[..., Any]                            # the class of its trained models: (model, tokenizer, ...)
    families: Mapping[str, Family]
    batches: Callable[..., Any]                            # (corpus, training settings, context) -> batch(step)
    held_out: Callable[..., Any]                           # (corpus, training settings, context) -> the same batches
    look: Callable[[Any, Request], Look]                   # (trained, request): one watched run
    sample: Callable[..., Callable[[], Sample]]            # (model, corpus, context): what it writes in training
    data: Any = DataSettings                               # the [data] table
    tokenizer: Any = TokenizerSettings                     # the [tokenizer] table
    prepare: Callable[..., Any] = prepare                  # ([data], [tokenizer] or a tokenizer, say) -> a corpus
    load_tokenizer: Callable[[Any], Any] = Tokenizer.load  # from a run's tokenizer.json
    vocab: Callable[[Any], Any] = lambda tokenizer: tokenizer.vocab_size              # of the model
    judge: Callable[..., dict[str, float]] | None = None   # (model, corpus, context, ranks) -> what else is measured
    score: Scoring | None = None                             # behind `regard score`
    answer: Answering | None = None                        # one line for each input, over files
    test: LastMeasure | None = None                        # of the trained model, on what chose nothing
    baseline: str = ""                                     # the family in every comparison
    mixing: Mixing | None = None                           # with an n-gram, for a task that can mix
    find_family: Callable[[str], Family] | None = None     # by name, where there are more than in the table
    columns: Callable[..., list[str]] | None = None        # ([data], names, where) -> those of a table that are read

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def usual(self) -> str:
        return self.card.usual

    def data_settings(self, files: Sequence[Any], given: Mapping[str, Any]) -> Any:
        """Return the [data] table for these files. Of a folder with splits each part that the user did not give is read
        from its split."""
        known = {each.name for each in fields(self.data)}
        spread = spread_splits(files, given) if "test" in known else {}
        return fill(self.data, {"files": files, **given, **spread}, "data")

    def family(self, name: str) -> Family:
        """Return the family with this name; an unknown one is a SettingError."""
        if self.find_family is not None:
            return self.find_family(name)
        if name not in self.families:
            raise SettingError(f"unknown family {name}{did_you_mean(name, self.families)}")
        return self.families[name]

    def family_after(self, base: Any) -> Family:
        """Return the family that goes on with the weights of a trained model: its own, or one that begins with it."""
        if base.task.name == self.name:
            return self.family(base.family)
        for family in self.families.values():
            if family.begins_with == (base.task.name, base.family):
                return family
        raise RunError(f"{base.path} is a run of the task {base.task.name}: use it with {base.task.card.used_by}")

    def sampler(self, model: Any, corpus: Any, context: int | None = None) -> Callable[[], Sample]:
        """Return a function that returns a sample of the model's writing; its beginning is chosen once.

        `context` is the run's: the most tokens of a source, a target or a caption. Of a text the model knows its own.
        """
        write = self.sample(model, corpus, context)

        def sample() -> Sample:
            with torch.no_grad(), evaluating(model):
                return {"kind": self.name, **write()}

        return sample
