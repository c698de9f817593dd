"""Who guesses ahead of a model, and how well the guesses did; speculative.py is what is done with them."""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract import LanguageModel
from regard.decoding.fast.drafts import DraftMaker, PromptLookup, from_ngram
from regard.errors import SettingError, did_you_mean
from regard.models.ngram import NGram

KINDS = ("prompt", "ngram")
AHEAD = 8                    # tokens a draft proposes at most


@dataclass(frozen=True)
class Speculation:
    """Who guesses, and how far ahead. An n-gram without a model is counted on the prompt."""

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

    def drafts(self, vocab: int) -> DraftMaker:
        return PromptLookup if self.kind == "prompt" else from_ngram(self.model, vocab)


@dataclass
class Acceptance:
    """How well the guesses did."""

    proposed: int = 0
    accepted: int = 0
    passes: int = 0                          # of the model over all rows, the one over the prompts included
    tokens: int = 0                          # written, in all rows

    @property
    def rate(self) -> float:
        return self.accepted / max(1, self.proposed)

    @property
    def passes_per_token(self) -> float:
        """Of one row, plain generation takes 1."""
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


def why_not(model: LanguageModel) -> str:
    """Why guesses spare nothing of a model that is no NeuralLM."""
    if isinstance(model, NGram):
        return "an n-gram looks words up one by one, and has no pass to spare: written without drafts"
    return f"{type(model).__name__} predicts one token a pass: written without drafts"
