"""Whether a version is ready to be released, and its notes: `release.py 0.1.0 > notes.md`.

Every file that names the version must name this one, the changelog must have its date, and a run folder that this
version wrote must be kept for later versions to load. What is missing is said, line by line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from requirements import ROOT

NAMED = {                                     # file -> where it names the version
    "regard/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "README.md": r"regard-([\d.]+)-py3-none-any\.whl",
}
KEPT = "tests/fixtures/releases"


def main(version: str, root: Path = ROOT) -> int:
    missing = list(find_missing(version, root))
    for line in missing:
        print(f"{version} is not ready: {line}", file=sys.stderr)
    if not missing:
        print(notes(version, root))
    return 1 if missing else 0


def find_missing(version: str, root: Path) -> Iterator[str]:
    for name, pattern in NAMED.items():
        found = set(re.findall(pattern, read(root / name), re.M))
        if found != {version}:
            yield f"{name} names {', '.join(sorted(found)) or 'no version'}"
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", read(root / "CHANGELOG.md"), re.M):
        yield f"CHANGELOG.md has no heading `## {version} (YEAR-MONTH-DAY)`"
    if not notes(version, root):
        yield f"docs/releases.md has no notes below `## {version}`"
    if not (root / KEPT / version / "expected.json").is_file():
        yield f"{KEPT} has no runs of {version}, which later versions must load: python -m tests.fixtures.keep_release"


def notes(version: str, root: Path = ROOT) -> str:
    """The section of a version in docs/releases.md, without its heading."""
    below = rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)"
    section = re.search(below, read(root / "docs/releases.md"), re.M | re.S)
    return section[1].strip() if section else ""


def read(path: Path) -> str:
    return path.read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
