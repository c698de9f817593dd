"""What was done of each campaign, kept by a hash of its code: hours add up until the code changes."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.soak.campaign import Campaign, Failure, digest_of

REST = 25                                # failures after which a campaign rests until its code changes


@dataclass
class Done:
    """Cases of a campaign: the seeds as ranges [first, end), what failed by seed, and the seconds that it took."""

    ranges: list[list[int]] = field(default_factory=list)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return sum(end - first for first, end in self.ranges)

    def rests(self) -> bool:
        return len(self.failures) >= REST

    def next_from(self, seed: int) -> int:
        """Return the first seed from this one on that was not done."""
        for first, end in self.ranges:
            if first <= seed < end:
                seed = end
        return seed

    def note(self, seed: int, failure: Failure | None) -> None:
        if seed >= 0:
            self.ranges = merged([*self.ranges, [seed, seed + 1]])
        self.failures.pop(str(seed), None)
        if failure is not None:
            self.failures[str(seed)] = vars(failure)


def merged(ranges: list[list[int]]) -> list[list[int]]:
    whole: list[list[int]] = []
    for first, end in sorted(ranges):
        if whole and first <= whole[-1][1]:
            whole[-1][1] = max(whole[-1][1], end)
        else:
            whole.append([first, end])
    return whole


class Kept:
    """A folder with a file for each campaign and code."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, campaign: Campaign) -> Path:
        return self.folder / f"{campaign.name}-{digest_of(campaign)}.json"

    def read(self, campaign: Campaign) -> Done:
        path = self.path(campaign)
        return Done(**json.loads(path.read_text())) if path.exists() else Done()

    def write(self, campaign: Campaign, done: Done) -> None:
        part = self.path(campaign).with_suffix(".part")
        part.write_text(json.dumps(asdict(done), indent=1))
        os.replace(part, self.path(campaign))
