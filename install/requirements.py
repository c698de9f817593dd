"""What Regard needs, from pyproject.toml, and the versions that CI runs with, from constraints.txt."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"


def normalize(name: str) -> str:
    """A package's name as indexes compare it: `ruamel_yaml`, `Ruamel.YAML` -> `ruamel-yaml`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """`uvicorn[standard]>=0.30; extra == 'web'` -> `uvicorn`."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, f"{requirement!r} names no package"
    return normalize(found[0])


def required(*extras: str, root: Path = ROOT) -> list[str]:
    """The requirements of the wheel, and those of extras; an extra that names others of our own brings theirs."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            if own := re.fullmatch(rf"{project['name']}\[(.*)\]", requirement):
                wanted += [each for each in required(*own[1].split(","), root=root) if each not in wanted]
            else:
                wanted.append(requirement)
    return wanted


def floor_of(name: str) -> tuple[int, ...]:
    """The lowest version that the wheel takes: (2, 11) of torch."""
    (found,) = (each for each in required() if name_of(each) == name)
    return release(found.partition(">=")[2])


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 13, 0) of 2.13.0+cpu, (2, 14, 0) of 2.14.0rc1."""
    found = re.match(r"\d+(\.\d+)*", version)
    assert found, f"{version!r} is no version"
    return tuple(map(int, found[0].split(".")))


def pins(path: Path = CONSTRAINTS) -> dict[str, str]:
    """Package -> the version that CI runs with."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {normalize(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def keep_torch(torch: str, needs: set[str]) -> str:
    """The constraints for an environment that has its torch already: that one, with whatever it needs itself."""
    kept = (f"{name}=={version}" for name, version in pins().items()
            if name not in {"torch", *needs} and not name.startswith(("nvidia-", "cuda-")))
    return "\n".join([f"torch=={torch}", *kept, ""])
