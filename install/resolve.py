"""Whether pip finds a version of everything with each Python that Regard runs on: `make resolve`.

For every Python from 3.11 to 3.14 found here, pip resolves all that the tests and the site need, under
constraints.txt, and installs nothing. The demo and the wheel need a part of that: where the whole resolves, so does a
part. Of a wheel on an index pip reads the metadata alone, not the gigabytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from requirements import CONSTRAINTS, ROOT, normalize, required

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def main() -> int:
    with ThreadPoolExecutor(len(PYTHONS)) as pool:
        resolved = list(pool.map(resolve, PYTHONS))
    if set(resolved) == {None}:
        print("nothing was resolved: install Python 3.11, 3.12, 3.13 or 3.14")
    return 0 if True in resolved and False not in resolved else 1


def resolve(version: str) -> bool | None:
    """Say in one line what pip finds with this Python, or what conflicts; None where there is no such Python."""
    if (python := find(version)) is None:
        print(f"Python {version}: not found here, skipped", flush=True)
        return None
    started = time.monotonic()
    packages, errors = ask_pip(python, required("dev", "docs"))
    if errors:
        print(f"Python {version}: does not resolve", *errors, sep="\n  ", flush=True)
        return False
    seconds = f"{time.monotonic() - started:.0f} s"
    print(f"Python {version}: demo, tests, site and wheel resolve: {summarize(packages)} ({seconds})", flush=True)
    return True


def find(version: str) -> str | None:
    finder = ["sh", str(ROOT / "install" / "find_python.sh"), f"python{version}"]
    return subprocess.run(finder, capture_output=True, text=True, check=True).stdout.strip() or None


def ask_pip(python: str, requirements: list[str]) -> tuple[dict[str, str], list[str]]:
    """What pip would install into an empty environment of this Python, with versions; or its errors."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        told = subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--ignore-installed", "--quiet",
             "--use-feature", "fast-deps", "--report", str(report), "--constraint", str(CONSTRAINTS), *requirements],
            capture_output=True, text=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        if told.returncode:
            errors = [line for line in told.stderr.splitlines() if not line.startswith("WARNING")]
            return {}, errors or ["pip gave no reason"]
        found = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    return {normalize(each["name"]): each["version"] for each in found}, []


def summarize(packages: dict[str, str]) -> str:
    cuda = any(name.startswith(("nvidia-", "cuda-")) for name in packages)
    named = (f"{name} {packages[name]}" for name in ("torch", "triton") if name in packages)
    return f"{len(packages)} packages, {', '.join(named)}, {'CUDA' if cuda else 'CPU'} build"


if __name__ == "__main__":
    sys.exit(main())
