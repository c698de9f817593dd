"""Engines: a translator's search by another program, with Regard's own for what that program leaves open.

An engine searches as `decoding/beam.py` does. Programs differ in what they do at a limit: a source of which an engine
finds a target without an end is searched again by Regard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from regard.contract import LanguageModel
from regard.decoding.beam import BeamOptions, Hypothesis, search_batches
from regard.decoding.source_batches import budget, in_batches, longest, text_batches
from regard.decoding.special_tokens import SpecialTokens
from regard.errors import SettingError
from regard.tasks.translate.translations import TranslateOptions


class SearchEngine(Protocol):
    """A program that holds the translator and searches for targets."""

    name: str
    before_each: Callable[[], None]        # called before each batch: it may raise, to stop the work

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], options: BeamOptions
    ) -> list[list[Hypothesis] | None]:
        """Return the best targets of each source (token ids with their end), best first; None where it found one
        without an end, or of more tokens than the source's limit."""


def refuse_options(options: TranslateOptions, engine: str) -> None:
    """Refuse options with which an engine would give something else than Regard does."""
    search = options.search
    for flag, used, why in (
        ("--sample", options.sampling is not None, "its draws are others"),
        ("--coverage", search.coverage != 0, "its penalty is another"),
        ("--no-repeat", search.no_repeat != 0, "it renormalises what is left, so that beams rank otherwise"),
    ):
        if used:
            raise SettingError(f"{flag}: not with --engine {engine} ({why}); leave one of the two out")


def search_sources(
    model: LanguageModel, sources: Sequence[list[int]], special_tokens: SpecialTokens, context: int,
    options: TranslateOptions, engine: SearchEngine | None = None, on_batch: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the best targets of every source: by the engine, where there is one, and else by Regard."""

    def search_here(some: Sequence[list[int]], on_batch: Callable[[int], None] | None) -> list[list[Hypothesis]]:
        batches = text_batches(model, some, context, options.search.width, options.batch)
        return search_batches(model, batches, special_tokens, options.search, on_batch)

    if engine is None:
        return search_here(sources, on_batch)
    refuse_options(options, engine.name)
    limits = [longest(len(source), context, model) for source in sources]
    found: dict[int, list[Hypothesis]] = {}
    done = 0
    rows = budget(model, options.batch) // options.search.width
    for numbers in in_batches([len(source) for source in sources], rows):
        engine.before_each()
        batch = engine.search([sources[n] for n in numbers], [limits[n] for n in numbers], options.search)
        found |= {n: targets for n, targets in zip(numbers, batch, strict=True) if targets is not None}
        done += len(numbers)
        if on_batch is not None:
            on_batch(done)
    left = [n for n in range(len(sources)) if n not in found]
    found |= zip(left, search_here([sources[n] for n in left], None), strict=True)
    return [found[n] for n in range(len(sources))]
