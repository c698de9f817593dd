"""The table of docs/reliability.md, between its marks; one for each kind of machine."""

import os
import platform
import subprocess
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from tests.soak.campaign import ROOT, Campaign, place_of
from tests.soak.state import Done

PAGE = ROOT / "docs" / "reliability.md"


def marks(device: str) -> tuple[str, str]:
    return f"<!-- soak on {device}: written by make soak -->", f"<!-- end of soak on {device} -->"


def write_page(found: list[tuple[Campaign, Done]], device: str, page: Path = PAGE) -> None:
    begin, end = marks(device)
    text = page.read_text("utf-8")
    head, there, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    if not there:
        head, tail = text.rstrip() + "\n\n", "\n"
    page.write_text(head + "\n".join([begin, "", *table(found), "", about(found, device), "", end]) + tail, "utf-8")


def table(found: list[tuple[Campaign, Done]]) -> list[str]:
    rows = ["| campaign | a case | what must hold | in CI | cases | failures | hours | seeds |",
            "|---|---|---|--:|--:|--:|--:|---|"]
    for campaign, done in found:
        seeds = ", ".join(f"{first:,}–{end - 1:,}" for first, end in done.ranges) or "none yet"
        rows.append(f"| {campaign.name} | {campaign.case} | {campaign.holds} | {campaign.ci:,} | {done.cases:,} | "
                    f"{len(done.failures)} | {done.seconds / 3600:.2f} | {seeds} |")
    failed = [f"- {campaign.name}, seed {seed}: {plain(failure['why'])} `{failure['again'] or again(campaign, seed)}`"
              for campaign, done in found for seed, failure in done.failures.items()]
    return [*rows, *(["", "Failures:", "", *failed] if failed else [])]


def again(campaign: Campaign, seed: int | str) -> str:
    return f"make soak ONLY={campaign.name} SEED={seed} COUNT=1{' DEVICE=cuda' * (campaign.device == 'cuda')}"


def plain(why: str) -> str:
    return " ".join(why.replace("|", "/").replace("`", "'").split())[:300]


def about(found: list[tuple[Campaign, Done]], device: str) -> str:
    """Return how much it was in all, and where and when; the machines by their hours, the last day of any."""
    cases, hours = sum(done.cases for _, done in found), sum(done.seconds for _, done in found) / 3600
    failures = sum(len(done.failures) for _, done in found)
    machines: Counter[str] = Counter()
    for _, done in found:
        machines.update(done.machines)
    where = "; ".join(f"{seconds / 3600:.2f} h on {name}" for name, seconds in machines.most_common())
    last = max((done.last for _, done in found), default="")
    once_more = f"make soak ONLY=campaign SEED=seed COUNT=1{' DEVICE=cuda' * (device == 'cuda')}"
    return (f"{cases:,} cases, {failures} failures, {hours:.2f} hours in all, until {last}: {where}. Regard at "
            f"{commit()}. A case again: `{once_more}`.")


def machine_of(device: str) -> str:
    """Return the machine and the versions that cases run on, as the table names them."""
    model, info = platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names and names[0] != "unknown" else model
    named = f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, torch {version('torch')}"
    if place_of(device) != "cuda":
        return named
    import torch

    return f"{torch.cuda.get_device_name()}, {named}"


def commit() -> str:
    """Return the commit, with a + where the package or the tests differ from it."""
    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    short = ask("rev-parse", "--short=10", "HEAD") or "an unknown commit"
    return short + ("+" if ask("status", "--porcelain", "--", "regard", "tests") else "")
