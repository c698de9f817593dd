"""What a campaign is, and how campaigns are found."""

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


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
    given = module.CAMPAIGNS if hasattr(module, "CAMPAIGNS") else (module.CAMPAIGN,)       # none, where it cannot run
    return [Campaign(**{**vars(each), "file": str(Path(str(module.__file__)).relative_to(ROOT))}) for each in given]


def digest_of(campaign: Campaign) -> str:
    """Return a hash of the code that a case of this campaign runs: while it stays, cases and hours add up."""
    return hashlib.sha256(
        "".join([digest_tree("regard"), digest_tree(campaign.file), *map(digest_tree, campaign.also)]).encode()
    ).hexdigest()[:16]


@cache
def digest_tree(name: str) -> str:
    path, whole = ROOT / name, hashlib.sha256()
    for each in [path] if path.is_file() else sorted(path.rglob("*")):
        if each.is_file() and "__pycache__" not in each.parts and not each.name.startswith("."):
            whole.update(str(each.relative_to(ROOT)).encode() + b"\0" + each.read_bytes())
    return whole.hexdigest()
