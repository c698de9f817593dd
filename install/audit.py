"""Look for known holes in the versions that CI runs with, and in the lowest that Regard takes: `make audit`.

pip-audit asks an advisory database by name and version; nothing is installed but pip-audit itself, in a virtual
environment of its own. Where no database knows any of the packages, nothing was audited: it says so, and fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from requirements import name_of, pins, release, required

SERVICES = ("pypi", "osv")
ACCEPTED = {"CVE-2025-3000": "in torch.jit.script, which Regard never calls; torch 2.12.1 mends it"}


def main() -> int:
    lists = {"the versions that CI runs with": pins(), "the lowest versions that Regard takes": floors()}
    free = [audit(what, versions) for what, versions in lists.items()]
    if None in free:
        print("nothing was audited: no advisory database can be reached from here")
    return 0 if all(free) else 1


def floors() -> dict[str, str]:
    lowest = {name_of(each): each.partition(">=")[2] for each in required("dev")}
    return {name: whole(version) for name, version in lowest.items() if version}


def whole(version: str) -> str:
    """A floor as indexes list it: 2.11 -> 2.11.0."""
    return ".".join(map(str, (*release(version), 0, 0)[:max(3, len(release(version)))]))


def audit(what: str, versions: dict[str, str]) -> bool | None:
    """Whether no hole is known in these versions; None where no database knows any of them."""
    for service in SERVICES:
        asked = [each for each in ask(service, versions) if "skip_reason" not in each]
        if asked:
            holes = [describe(each, hole) for each in asked for hole in each["vulns"]]
            print(f"{what}: {len(asked)} of {len(versions)} known to the database, holes: {len(holes)}")
            print(*holes, sep="\n", end="\n" * bool(holes))
            return not holes
    return None


def describe(package: dict[str, Any], hole: dict[str, Any]) -> str:
    mended = ", ".join(hole["fix_versions"]) or "none"
    return f"  {package['name']} {package['version']}: {hole['id']}, mended in {mended}"


def ask(service: str, versions: dict[str, str]) -> list[dict[str, Any]]:
    """What pip-audit tells of each package; nothing where it cannot reach the service."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "listed.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        told = subprocess.run(
            [sys.executable, "-m", "pip_audit", "--requirement", str(listed), "--no-deps", "--disable-pip",
             "--format", "json", "--progress-spinner", "off", "--vulnerability-service", service,
             *(f"--ignore-vuln={each}" for each in ACCEPTED)], capture_output=True, text=True)
    return json.loads(told.stdout)["dependencies"] if told.stdout.strip() else []


if __name__ == "__main__":
    sys.exit(main())
