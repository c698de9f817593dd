"""About this installation: the facts for a report of a bug, from versions to caches.

Nothing private is in it: a path below the home folder begins with `~`, and a secret of the environment is only said to
be set.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from regard import __version__, storage

SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD")
TOLD = re.compile(r"REGARD_|OMP_|MKL_|CUDA_VISIBLE_DEVICES$|TORCHINDUCTOR_|TRITON_|PYTORCH_|HF_HOME$|XDG_CACHE_HOME$")
EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
NAME = re.compile(r"[\w.-]+")
OWN = "regard"


def describe() -> dict[str, Any]:
    """Return versions, system, devices, kernels, optional packages, cache and environment, as JSON can hold them."""
    needed, extras = find_requirements()
    return {
        "regard": {"version": __version__, "folder": shown(Path(__file__).parent)},
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation(),
                   "program": shown(Path(sys.executable))},
        "system": describe_system(),
        "devices": describe_devices(),
        "kernels": describe_kernels(),
        "packages": {name: find_version(name) for name in needed},
        "optional": {extra: {name: find_version(name) for name in names} for extra, names in extras.items()},
        "cache": describe_cache(),
        "environment": {name: "(set)" if SECRET.search(name) else value.replace(str(Path.home()), "~")
                        for name, value in sorted(os.environ.items()) if TOLD.match(name)},
    }


def describe_system() -> dict[str, Any]:
    from regard.data.workers import cores

    return {"name": platform.platform(), "machine": platform.machine(), "processor": find_processor(), "cores": cores(),
            "file names": sys.getfilesystemencoding(), "memory free": find_free_memory()}


def describe_devices() -> dict[str, Any]:
    """Return torch's build and the devices that it sees; `auto` is the one that commands take by themselves."""
    import torch

    from regard.trained import pick_device

    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return {"auto": pick_device("auto").type, "threads": torch.get_num_threads(), "cuda": torch.version.cuda,
            "gpus": [{"name": each.name, "capability": f"{each.major}.{each.minor}", "memory": each.total_memory}
                     for each in gpus]}


def describe_kernels() -> dict[str, str]:
    """Return which code computes on each kind of device; in parentheses why it is not the fastest."""
    import torch

    from regard import kernels
    from regard.kernels.cpu import native, onednn

    why_not = native.why_not()
    found = {"cpu": str(kernels.Backend("torch", why_not) if why_not else kernels.Backend("C")),
             "cpu products": "oneDNN" if onednn.there() else "torch",
             "cpu bfloat16": "yes" if onednn.there() and onednn.has_bfloat16() else "no"}
    if torch.cuda.is_available():
        why_not = kernels.reason_on(torch.device("cuda"))
        found["cuda"] = str(kernels.Backend("torch" if why_not else "triton", why_not))
    return found


def describe_cache() -> dict[str, Any]:
    """Return the folder of work that could be done again: where it is, what it holds, whether it can be written to."""
    folder = storage.cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return {"folder": shown(folder), "files": len(files), "bytes": sum(path.stat().st_size for path in files),
            "writable": os.access(there, os.W_OK)}


# ------------------------------------------------------------------------------------------------ packages


def find_requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the packages that Regard needs, and those of each extra, as its own metadata lists them.

    Run from a folder that was never installed there is no metadata: both are empty.
    """
    try:
        lines = importlib.metadata.requires(OWN) or []
    except importlib.metadata.PackageNotFoundError:
        return [], {}
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in lines:
        found, extra = NAME.match(line), EXTRA.search(line)
        if found is None or found[0] == OWN or (extra and extra[1] == "dev"):
            continue
        (extras.setdefault(extra[1], []) if extra else needed).append(found[0])
    return needed, extras


def find_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# -------------------------------------------------------------------------------------------------- system


def find_processor() -> str:
    from regard.kernels.cpu.onednn import cpu

    told = cpu()
    named = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def find_free_memory() -> int:
    from regard.models.ngram.room import free_memory

    return free_memory()


def shown(path: Path) -> str:
    """A path as others may see it: below the home folder it begins with ~."""
    try:
        return f"~/{path.absolute().relative_to(Path.home()).as_posix()}"
    except (ValueError, RuntimeError):                       # elsewhere, or nobody has a home here
        return str(path)
