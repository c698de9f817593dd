"""The table of docs/reliability.md, between its marks; one for each kind of machine."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.soak.campaign import ROOT, Campaign
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
    return f"make soak ONLY={campaign.name} SEED={seed} COUNT=1"


def plain(why: str) -> str:
    return " ".join(why.replace("|", "/").replace("`", "'").split())[:300]


def about(found: list[tuple[Campaign, Done]], device: str) -> str:
    cases, hours = sum(done.cases for _, done in found), sum(done.seconds for _, done in found) / 3600
    failures = sum(len(done.failures) for _, done in found)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (f"{cases:,} cases, {failures} failures, {hours:.2f} hours in all. {when}, {machine(device)}, "
            f"Python {platform.python_version()}, torch {version('torch')}, Regard at {commit()}. "
            "A case again: `make soak ONLY=campaign SEED=seed COUNT=1`.")


def machine(device: str) -> str:
    import os

    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names and names[0] != "unknown" else model
    cores = f"{os.cpu_count()} cores ({model})"
    if device != "cuda":
        return cores
    import torch

    return f"{torch.cuda.get_device_name()}, {cores}"


def commit() -> str:
    """Return the commit, with a + where the package or the tests differ from it."""
    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    short = ask("rev-parse", "--short=10", "HEAD") or "an unknown commit"
    return short + ("+" if ask("status", "--porcelain", "--", "regard", "tests") else "")
