"""An opening: what a model has read before it writes, made once by each task and used by every search and every look.

    trained.open("Le chat noir dort.")           # of a translator; a language model opens with a prompt, and so on
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from regard.contract import LanguageModel, Source
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.special_tokens import SpecialTokens


@dataclass(frozen=True)
class Opening:
    """Everything that a search needs, whatever is searched for."""

    model: LanguageModel
    tokenizer: Tokenizer                   # of what is written
    special_tokens: SpecialTokens
    prompt: tuple[int, ...]                # <bos> first
    limit: int                             # tokens that may be written, the end included
    source: Source | None = None
    pieces: tuple[str, ...] = ()           # what was read first, to show: of the source, or of the prompt
    text: str = ""                         # what was read, cut to what the model can read
    notes: tuple[str, ...] = ()

    @cached_property
    def key(self) -> Hashable:
        """Equal for openings that have read the same."""
        source = None if self.source is None else self.source.items.cpu().numpy()
        return self.prompt, None if source is None else (source.shape, source.tobytes())
