"""What every trained model has in common, whatever it is used for: its parts, and what its run.toml says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class TrainedModel:
    """A model with everything needed to use it, from one run folder."""

    model: Any
    tokenizer: Any
    tables: dict[str, dict[str, Any]]              # run.toml
    path: Path | None = None

    @property
    def learner(self) -> Any:
        return self.model

    @property
    def family(self) -> str:
        return self.tables["run"]["family"]

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.model.saved_tensors().values())

    @property
    def context(self) -> int:
        """The most tokens read at once: of a text, or of a source, a target or a caption with its end."""
        return int(self.tables["model"]["context"])
