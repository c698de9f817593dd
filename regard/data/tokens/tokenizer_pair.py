"""Two tokenizers as one: that of the source language and that of the target, which may be the same.

Wherever one tokenizer is asked for, a pair speaks for its target: that is what a translator writes. In a run folder
the target's is tokenizer.json, and a source that has its own has it beside that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from regard.data.tokens.vocabulary import Tokenizer, TokenizerBeside, find_file

SOURCE = "source-tokenizer.json"


@dataclass(frozen=True)
class TokenizerPair(TokenizerBeside):
    """The tokenizers of the source and of the target."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """True if both languages have one vocabulary."""
        return self.source is self.target

    @property
    def main(self) -> Tokenizer:
        return self.target

    def digest(self) -> str:
        return hashlib.sha256(f"{self.source.digest()} {self.target.digest()}".encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write tokenizer.json, and the source's own beside it."""
        written = self.target.save(path)
        if not self.shared:
            self.source.save(written.with_name(SOURCE))
        return written

    @staticmethod
    def load(path: str | Path) -> TokenizerPair:
        path = find_file(path)
        target = Tokenizer.load(path)
        beside = path.with_name(SOURCE)
        return TokenizerPair(Tokenizer.load(beside) if beside.exists() else target, target)
