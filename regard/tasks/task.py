"""A task: what is learned from a text, as one small value. The loop, budgets, checkpoints and resuming know only this.

A task says which families there are, how its data is read and becomes batches, what is measured on the held-out part,
and by which command a trained run is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import SettingError, did_you_mean
from regard.families import Family


@dataclass(frozen=True)
class Task:
    name: str                                              # as in `regard train NAME`, and [run] task
    family: Callable[[str], Family]                        # by name; an unknown one is a SettingError
    batches: Callable[..., Any]                            # (corpus, training settings, context) -> batch(step)
    held_out: Callable[..., Any]                           # (corpus, training settings, context) -> the same batches
    used_by: str                                           # what to do with a trained run
    usual: str = "transformer"                             # the family, unless told
    data: Any = DataSettings                               # the [data] table
    tokenizer: Any = TokenizerSettings                     # the [tokenizer] table
    prepare: Callable[..., Any] = prepare                  # ([data], [tokenizer] or a tokenizer, say) -> a corpus
    load_tokenizer: Callable[[Any], Any] = Tokenizer.load  # from a run's tokenizer.json
    vocab: Callable[[Any], Any] = lambda tokenizer: tokenizer.vocab_size              # of the model
    judge: Callable[..., dict[str, float]] | None = None   # (model, corpus, context) -> what else is measured


def from_table(families: Mapping[str, Family]) -> Callable[[str], Family]:
    """A look-up in a task's own table of families."""

    def family(name: str) -> Family:
        if name not in families:
            raise SettingError(f"unknown family {name}{did_you_mean(name, families)}")
        return families[name]

    return family

