"""Folders of results: those measured here, and those that came with Regard.

`regard lab run` writes to `lab/results` in the current folder; `list`, `report` and the page show what is there. Where
there is no such folder they show the results that came with Regard: inside the package after a wheel was installed, in
the clone where Regard runs from one. These are loaded and never written.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path("lab/results")
PACKAGED = Path(__file__).with_name("measured")            # the wheel puts the clone's lab/results there
CLONED = Path(__file__).parents[2] / "lab" / "results"


def find_results(given: str | Path | None = None) -> Path | None:
    """The folder of results to show: the one given, or else `lab/results`, or else those that came with Regard."""
    if given is not None:
        return Path(given)
    return HERE if HERE.is_dir() else came_with()


def came_with() -> Path | None:
    """The results that came with Regard; None where they were left out."""
    return next((folder for folder in (PACKAGED, CLONED) if folder.is_dir()), None)
