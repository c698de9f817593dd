"""The contract of a target: what it is given, what it answers, and how its program is asked afterwards.

T tokens · V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.config import fill
from regard.data.reading.remote import refuse_addresses
from regard.data.tokens.foreign import ForeignTokenizer
from regard.errors import RegardError, SettingError
from regard.interop.layout import Layout
from regard.interop.layout_reading import read_layout
from regard.interop.target_ids import Counting, recount


@dataclass(frozen=True)
class ExportSubject:
    """A trained model to export."""

    trained: Any                           # as `regard.load` gives it
    precision: str                         # of the weights that are written: one of the target's
    name: str                              # of the run, for people
    counted: bool = False                  # of a mixture the n-gram is meant, and not the network
    recounted: bool = True                 # an imported model gets the ids back that it came with

    @property
    def network(self) -> Any:
        """The model that is exported: the network of a mixture, or its n-gram if `counted`."""
        part = "ngram" if self.counted else "network"
        return getattr(self.trained.model, part, self.trained.model)

    @property
    def ngram(self) -> Any:
        """The n-gram that is mixed with the network; None where there is none."""
        return getattr(self.trained.model, "ngram", None)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, or the pair of a translator."""
        return self.trained.tokenizer

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Every setting of the run."""
        return self.trained.tables

    @cached_property
    def counting(self) -> Counting:
        """The target's ids of what the model reads, or of what a translator writes."""
        return Counting(self.tokenizer, self.network.vocab, self.recounted)

    @cached_property
    def source_counting(self) -> Counting:
        """The target's ids of what a translator reads."""
        source = getattr(self.tokenizer, "source", self.tokenizer)
        return Counting(source, source.vocab_size, self.recounted)

    @property
    def found(self) -> ForeignTokenizer | None:
        """The tokenizer that an imported model came with, if the target is to have it; of a translator the target's."""
        return self.counting.tokenizer

    def token(self, role: str) -> int | None:
        """Return the target's id of <pad>, <bos>, <eos> or <unk>; None where it has none."""
        return self.counting.of(getattr(self.tokenizer, role))

    @cached_property
    def layout(self) -> Layout:
        """The weights by the names of the field, counted as the target does; a network of other parts is a
        SettingError."""
        return recount(read_layout(self.network), self.counting, self.source_counting)

    @cached_property
    def corpus(self) -> Any:
        """The text of the run, read again as it was; None where it is gone or has changed."""
        data = fill(self.trained.task.data, self.tables["data"], "data")
        try:
            refuse_addresses((*data.files, *data.valid, *getattr(data, "test", ())))
            corpus = self.trained.task.prepare(data, self.tokenizer, say=lambda text: None)
        except (RegardError, OSError):
            return None
        return corpus if getattr(data, "content", "") in ("", corpus.content) else None

    @property
    def writes_on(self) -> bool:
        """True for a model that writes from left to right, and not for one that fills blanks or labels."""
        return hasattr(self.network, "step")

    @property
    def reads_pictures(self) -> bool:
        """True for a model whose source is a picture, of one size."""
        return hasattr(getattr(self.network, "encoder", None), "grid")


@dataclass(frozen=True)
class Tolerance:
    """The largest difference of a log-probability that passes, and why it is no smaller."""

    difference: float
    why: str = ""
    same_choices: bool = True              # the likeliest token must be the same, unless ours are closer than that


EXACT = Tolerance(1e-4)
ROUNDED = Tolerance(1.0, "weights are rounded to 16 bits", same_choices=False)


@dataclass(frozen=True)
class OpenedExport:
    """An export, opened by the program that it was written for.

    `tokens` are the target's ids, from that of <bos> on; of a model that needs a source, `source` are the source's with
    its end.
    """

    program: str                           # "transformers"
    version: str                           # "5.22.2"
    log_probs: Callable[[Sequence[int], Sequence[int] | None], Any]        # (tokens, source) -> (T, V), anything array
    greedy: Callable[[Sequence[int], int, Sequence[int] | None], list[int]] | None = None
    # (tokens, count, source) -> the tokens that follow, each the likeliest, up to <eos> or so many
    encode: Callable[[str], list[int]] | None = None                       # the program's own tokenizer
    decode: Callable[[list[int]], str] | None = None
    most: int = 0                          # numbers to compare at most, where the program is slow; 0: all
    notes: tuple[str, ...] = ()            # lines for the user
    close: Callable[[], None] = field(default=lambda: None)


class ExportTarget(Protocol):
    """The functions of a module to_NAME.py."""

    def write(self, subject: ExportSubject, path: Path) -> str:
        """Write to this path, a file or a folder that is not there yet; return what it is, "GPTNeoXForCausalLM".

        What the target cannot hold is a SettingError before anything is written.
        """

    def tolerance(self, subject: ExportSubject, kind: str) -> Tolerance:
        """Return what may differ; `kind` is what `write` returned."""

    def open_written(self, subject: ExportSubject, path: Path) -> OpenedExport:
        """Open what was written; ImportError where the program is not installed."""


def precision_dtype(name: str) -> torch.dtype:
    return {"float32": torch.float32, "f32": torch.float32, "float16": torch.float16, "f16": torch.float16,
            "bfloat16": torch.bfloat16}[name]


def plain(tensor: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a copy of the weights, contiguous, on the CPU: what a file holds."""
    return tensor.detach().to("cpu", dtype).contiguous().clone()


def refuse_setting(setting: str, value: Any, target: str, cure: str) -> SettingError:
    """Return the error of a setting that a target cannot hold."""
    return SettingError(f"model.{setting} = {value}: {target} cannot hold it; {cure}")
