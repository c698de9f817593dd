"""What was done of each campaign, in one small file for each kind of machine: hours add up until the code changes.

The file can be committed: `bench/results/soak-cpu.json` has one line for each campaign, with a hash of the code that
its cases ran. A later soak of the same code, here or in another checkout, goes on from it; what older code did goes.
"""

import json
import os
import threading
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.soak.campaign import Campaign, Failure, digest_of

REST = 25                                # failures after which a campaign rests until its code changes


@dataclass
class Done:
    """Cases of a campaign: the seeds as ranges [first, end), what failed by seed, the seconds that it took, those of
    each machine, and the last day and hour."""

    ranges: list[list[int]] = field(default_factory=list)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    machines: dict[str, float] = field(default_factory=dict)
    last: str = ""

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

    def spend(self, seconds: float, machine: str) -> None:
        """Add time that a machine took for it, up to now."""
        self.seconds += seconds
        self.machines[machine] = self.machines.get(machine, 0.0) + seconds
        self.last = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def merged(ranges: list[list[int]]) -> list[list[int]]:
    whole: list[list[int]] = []
    for first, end in sorted(ranges):
        if whole and first <= whole[-1][1]:
            whole[-1][1] = max(whole[-1][1], end)
        else:
            whole.append([first, end])
    return whole


class Kept:
    """The file of one kind of machine. `campaigns` are all that there are for it; of others nothing is kept."""

    def __init__(self, folder: Path, device: str, campaigns: list[Campaign]):
        self.path = folder / f"soak-{device}.json"
        self.campaigns = {each.name: each for each in campaigns}
        self.writing = threading.Lock()                      # two campaigns at a time, in one file
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, campaign: Campaign) -> Done:
        entry = self.entries().get(campaign.name)
        return Done() if entry is None else Done(**{name: entry[name] for name in entry if name != "code"})

    def entries(self) -> dict[str, dict]:
        """What was done with the code as it is."""
        held = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}
        return {name: entry for name, entry in held.items()
                if name in self.campaigns and entry["code"] == digest_of(self.campaigns[name])}

    def write(self, campaign: Campaign, done: Done) -> None:
        with self.writing:
            entries = self.entries() | {campaign.name: {"code": digest_of(campaign), **rounded(done)}}
            lines = [f"{json.dumps(name)}: {json.dumps(entries[name], ensure_ascii=False)}" for name in sorted(entries)]
            part = self.path.with_suffix(".part")
            part.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8", newline="\n")
            os.replace(part, self.path)


def rounded(done: Done) -> dict:
    seconds = {name: round(each, 1) for name, each in done.machines.items()}
    return asdict(done) | {"seconds": round(done.seconds, 1), "machines": seconds}
