"""The base of everything trained: a model with its tokenizer and its run.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.contract import LanguageModel, Learner
from regard.data.batching.pair_batches import HeldOutPairs
from regard.decoding.beam import Hypothesis
from regard.decoding.special_tokens import SpecialTokens
from regard.decoding.spelling import pieces_of
from regard.errors import DataError, RunError
from regard.look.opening import Opening
from regard.metrics.perplexity import Surprise, score_targets
from regard.tasks import run_task

if TYPE_CHECKING:
    from regard.laws.check import Report
    from regard.tasks.task import Task


@dataclass
class TrainedModel:
    """A model with everything needed to use it, from one run folder."""

    model: Any
    tokenizer: Any
    tables: dict[str, dict[str, Any]]              # run.toml
    path: Path | None = None

    @property
    def task(self) -> Task:
        return run_task(self.tables)

    @property
    def family(self) -> str:
        return self.tables["run"]["family"]

    @property
    def learner(self) -> Learner | None:
        """The model, if it learns by gradients."""
        return self.model if isinstance(self.model, Learner) else None

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)

    @property
    def context(self) -> int:
        """The most tokens read at once: of a text, or of a source, a target or a caption with its end."""
        return int(self.tables["model"]["context"])

    # ------------------------------------------------------------------------------------------- writing

    @property
    def special_tokens(self) -> SpecialTokens:
        """The tokens at which its texts begin and end, and those that it never writes."""
        raise RunError(f"a {self.task.name} model writes nothing token by token")

    @property
    def writes(self) -> Any:
        """The tokenizer of its texts."""
        return self.tokenizer

    def open(self, given: Any, *, new_tokens: int = 0, whole: bool = False) -> Opening:
        """Return the model with a text, a source or a picture, ready to write from there.

        An input that is too long is read in part, with a note; with `whole`, it is refused. `new_tokens` is the
        limit of a model that has no source to say how much there is to say.
        """
        raise RunError(f"a run of {self.family} writes no text from left to right, so that there is nothing to search: "
                       "open a language model, a translator, a summariser or a captioner")

    def spell(self, opening: Opening, best: Hypothesis) -> list[str]:
        """Return the pieces of a text that was written: what each token adds to it."""
        return pieces_of(opening.tokenizer, best.tokens)

    def score_held_out(
        self, held_out: HeldOutPairs, texts: Sequence[str], unit: str, verb: str, notice: Callable[[str], None] | None
    ) -> Surprise:
        """Return the loss on given targets; those too long for what the model reads or writes are left out."""
        too_long = f"longer than the {self.context} tokens that the model {verb}"
        if held_out.too_long and notice is not None:
            notice(f"{held_out.too_long:,} of {len(texts):,} {unit}s are {too_long}, and not in the loss")
        if not held_out.fits.any():
            raise DataError(f"every {unit} is {too_long}")
        return score_targets(self.model, held_out, texts)

    # -------------------------------------------------------------------------------------------- the laws

    def check_laws(self) -> Report:
        """Try every law that applies: those of models, of masked models, and of an encoder."""
        raise AssertionError(f"no laws for a {type(self).__name__}")


def batch_by_length(rows: Sequence[Sized], size: int) -> list[list[int]]:
    """Return the numbers of the rows, so many at a time: rows of like lengths together have fewer pads."""
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    return [order[first:first + size] for first in range(0, len(order), size)]


def count_parameters(model: LanguageModel | Learner) -> int:
    return sum(tensor.numel() for tensor in model.saved_tensors().values())
