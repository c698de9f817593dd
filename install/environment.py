"""Install Regard into this virtual environment: `environment.py pip`, `demo`, `dev` or `docs`. The Makefile calls it.

`pip` brings pip itself to the version that CI runs with; `demo` installs what the demo and the page need; `dev` adds
what the tests need, `docs` what builds the site. A torch that is there already and new enough stays, whatever its
version and build.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from requirements import CONSTRAINTS, ROOT, floor_of, keep_torch, name_of, pins, release

EXTRAS = {"demo": "web", "dev": "dev", "docs": "docs"}
FETCHED = {                                                # measured on Linux, with the versions in constraints.txt
    ("demo", "cpu"): "270 MB", ("demo", "cuda"): "2.8 GB", ("demo", "kept"): "80 MB",
    ("dev", "cpu"): "720 MB", ("dev", "cuda"): "3.1 GB", ("dev", "kept"): "530 MB",
    ("docs", "cpu"): "280 MB", ("docs", "cuda"): "2.8 GB", ("docs", "kept"): "90 MB"}
ON_DISK = {("demo", "cpu"): "1.2 GB", ("demo", "cuda"): "4.9 GB", ("dev", "cpu"): "2.7 GB", ("dev", "cuda"): "5.8 GB",
           ("docs", "cpu"): "1.3 GB", ("docs", "cuda"): "5.0 GB"}
CPU_BUILD = f"""\
Without an NVIDIA GPU, PyTorch's CPU build does the same ({FETCHED['demo', 'cpu']} in all). To have it:
stop this (Ctrl-C); install it as PyTorch's "Get Started" page shows, with .venv/bin/pip in the place
of pip; run make again."""


def main(what: str) -> int:
    if what == "pip":
        return pip("install", "--quiet", f"pip=={pins()['pip']}")
    torch = installed("torch")
    if torch and release(torch) >= floor_of("torch"):
        print(f"torch {torch} is here and stays. Up to {FETCHED[what, 'kept']} will be fetched.", flush=True)
        constraints = Path(sys.prefix) / "constraints.txt"
        constraints.write_text(keep_torch(torch, set(map(name_of, importlib.metadata.requires("torch") or []))))
    else:
        print(foretell(what, build_found()), flush=True)
        constraints = CONSTRAINTS
    return pip("install", "--constraint", str(constraints), "--build-constraint", str(CONSTRAINTS),
               "--editable", f"{ROOT}[{EXTRAS[what]}]")


def foretell(what: str, build: str | None) -> str:
    """How much will be fetched, and how to fetch less."""
    if build is None:
        return f"{FETCHED[what, 'cpu']} will be fetched, or {FETCHED[what, 'cuda']} with the CUDA build of PyTorch."
    told = (f"PyTorch comes in its {build.upper()} build: about {FETCHED[what, build]} will be fetched, "
            f"for {ON_DISK[what, build]} on disk.")
    return f"{told}\n{CPU_BUILD}" if build == "cuda" else told


def build_found() -> str | None:
    """Which build of torch pip would take, `cpu` or `cuda`, by its metadata alone; None where that cannot be had."""
    asked = pip_command("install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--report", "-",
                        "--use-feature", "fast-deps", f"torch=={pins()['torch']}")
    told = subprocess.run(asked, capture_output=True, text=True)
    if told.returncode:
        return None                                        # pip will say why when it installs
    needs = json.loads(told.stdout)["install"][0]["metadata"].get("requires_dist", [])
    return "cuda" if any(each.startswith(("nvidia-", "cuda-")) for each in needs) else "cpu"


def installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def pip(*arguments: str) -> int:
    return subprocess.run(pip_command(*arguments)).returncode


def pip_command(*arguments: str) -> list[str]:
    os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return [sys.executable, "-m", "pip", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
