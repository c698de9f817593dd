"""Settings of the server; the limits are on by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.serve.limits import QUEUED, RUNNING, SECONDS
from regard.serve.security import Security


@dataclass(frozen=True)
class ServerSettings:
    security: Security = field(default_factory=Security)
    runs: Path | None = None                 # a folder of runs whose training is shown; None: of the served ones
    lab: Path | None = None                  # a folder of the lab's results
    running: int = RUNNING                   # requests at once
    queued: int = QUEUED                     # that may wait
    seconds: float = SECONDS                 # that one may take
