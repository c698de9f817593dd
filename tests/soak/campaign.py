"""What a campaign is, and how campaigns are found."""

import hashlib
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
LIVES = ("tests/soak/lives.py", "tests/soak/disk.py", "tests/fixtures/runs.py", "tests/fixtures/make.py",
         "tests/fixtures/data")          # for `also`: what trains small runs, and on what
BUILT = {".pyc", ".so", ".dylib", ".dll", ".o", ".orig", ".rej"}


@dataclass(frozen=True)
class Failure:
    """One line on what was wrong in a case, and a command that runs it again, unless the runner's own will do."""

    why: str
    again: str = ""


@dataclass(frozen=True)
class Campaign:
    """One row of the table: what a case is, what must hold, how many there are in CI and in the soak."""

    name: str
    case: str
    holds: str
    ci: int
    soak: int
    run: Callable[[int, Path], Failure | None]
    prepare: Callable[[Path], object] | None = None
    warm: Callable[[], object] | None = None
    run_many: Callable[[Iterable[int], Path], Iterator[tuple[int, Failure | None]]] | None = None
    short: str = ""
    patience: float = 120.0
    alone: bool = False
    here: bool = True                    # False where this machine does not allow it
    device: str = "cpu"
    also: tuple[str, ...] = ()
    file: str = ""                       # filled in by `find_campaigns`


def find_campaigns() -> dict[str, Campaign]:
    """Return the campaigns of all files in `campaigns/`, by name."""
    package = importlib.import_module("tests.soak.campaigns")
    found: dict[str, Campaign] = {}
    for about in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
        module = importlib.import_module(f"{package.__name__}.{about.name}")
        for campaign in campaigns_of(module):
            if campaign.name in found:
                raise ValueError(f"two campaigns are called {campaign.name}")
            found[campaign.name] = campaign
    return found


def campaigns_of(module: ModuleType) -> list[Campaign]:
    given = module.CAMPAIGNS if hasattr(module, "CAMPAIGNS") else (module.CAMPAIGN,)
    return [Campaign(**{**vars(each), "file": str(Path(str(module.__file__)).relative_to(ROOT))}) for each in given]


def place_of(device: str) -> str:
    """Return where cases for a kind of device run: there, unless REGARD_SOAK_ON=cpu tries those for a GPU without one.
    """
    return os.environ.get("REGARD_SOAK_ON", "cuda") if device == "cuda" else device


def digest_of(campaign: Campaign) -> str:
    """Return a hash of the code that a case of this campaign runs: while it stays, cases and hours add up."""
    return hashlib.sha256(
        "".join([digest_tree("regard"), digest_tree(campaign.file), *map(digest_tree, campaign.also)]).encode()
    ).hexdigest()[:16]


@cache
def digest_tree(name: str, root: Path = ROOT) -> str:
    """Return a hash of what is written in files, the same in every checkout: nothing that is built, cached or hidden
    counts, and no line ending."""
    path, whole = root / name, hashlib.sha256()
    named = {each.relative_to(root).as_posix(): each for each in ([path] if path.is_file() else path.rglob("*"))}
    for inside, each in sorted(named.items()):
        if each.is_file() and each.suffix not in BUILT and not any(
                part.startswith((".", "__pycache__")) or part.endswith(".egg-info") for part in inside.split("/")):
            whole.update(inside.encode() + b"\0" + each.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return whole.hexdigest()
