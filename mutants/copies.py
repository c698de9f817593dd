"""Copies of the checkout, one per worker, in which faults are planted. The checkout itself is never written to.

Python keeps compiled files that are checked by the hash of their source: two faults of one length and one second
would otherwise be taken for each other.
"""

from __future__ import annotations

import compileall
import shutil
import subprocess
from pathlib import Path
from py_compile import PycInvalidationMode

from mutants.draw import ROOT, Mutant

FOLDER = ROOT / "build" / "mutants"


class Copy:
    """A worker's folder: `tree` the copy, `cache` its REGARD_CACHE, `tmp` the tests' own files."""

    def __init__(self, number: int, folder: Path = FOLDER, root: Path = ROOT):
        self.root = root
        self.folder = folder / f"worker-{number}"
        self.tree, self.cache, self.tmp = (self.folder / name for name in ("tree", "cache", "tmp"))
        self.kept = folder / "cache"           # what tests without a fault left in the cache: compiled kernels
        self.output, self.result = self.folder / "output.txt", self.folder / "result.json"
        self.planted: Mutant | None = None

    def refresh(self) -> None:
        """Make the copy what the checkout is now: tracked files, and new ones that git does not ignore."""
        wanted = [name for name in _listed_files(self.root) if (self.root / name).is_file()]
        for name in wanted:
            _copy_if_changed(self.root / name, self.tree / name)
        for path in [*self.tree.rglob("*.py")]:
            if path.relative_to(self.tree).as_posix() not in set(wanted):
                path.unlink()
        compileall.compile_dir(self.tree / "regard", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def plant(self, mutant: Mutant | None) -> None:
        """The copy with this fault alone, and a cache that no other mutant has written to."""
        if self.planted is not None:
            shutil.copy2(self.root / self.planted.path, self.tree / self.planted.path)
        if mutant is not None:
            mutant.write(self.tree)
        self.planted = mutant
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.kept, self.cache)
        self.result.unlink(missing_ok=True)


def _listed_files(root: Path) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]


def _copy_if_changed(source: Path, target: Path) -> None:
    if target.is_file() and not target.is_symlink() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target)
