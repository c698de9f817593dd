"""What a disk may hold after the power went out, from the calls that were made on it before.

What was synced is there: the content of a file since its last fsync, the names in a folder since the folder's. Of all
else each call may have come to pass or not, in any order that is possible at all; what was written of a file may be cut
anywhere, or be zeros. That is less than file systems keep in practice, and all that POSIX promises.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.soak.disk import Call

MARK = "mark"                            # no call: something was promised here, and is named by the path


@dataclass
class File:
    """A file or a folder as such, whatever it is called: content that was synced, and what was written since."""

    folder: bool = False
    synced: bytes = b""
    writes: list[Call] = field(default_factory=list)

    def after(self, writes: Iterable[Call]) -> bytes:
        held = bytearray(self.synced)
        for each in writes:
            if each.kind == "truncate":
                del held[each.at:]
                continue
            held += bytes(max(0, each.at - len(held)))
            held[each.at:each.at + len(each.part)] = each.part
        return bytes(held)


@dataclass
class Naming:
    """A change of names: `old` (folder, name), if any, gives way, `new` gets the file; durable once the folder is."""

    file: File
    old: tuple[int, str] | None
    new: tuple[int, str] | None
    durable: bool = False


class Disk:
    """The calls so far, as they were made."""

    def __init__(self, root: Path):
        self.root = str(root)
        self.top = File(folder=True)
        self.names: dict[int, dict[str, File]] = {id(self.top): {}}
        self.files = {id(self.top): self.top}                # kept, so that no number is given twice
        self.changes: list[Naming] = []
        self.marks: list[str] = []

    def find(self, path: str) -> tuple[int, str, File | None]:
        """The folder that a path lies in, its name there, and what has it."""
        folder, parts = self.top, Path(posixpath.relpath(path, self.root)).parts
        for part in parts[:-1]:
            folder = self.names[id(folder)][part]
        return id(folder), parts[-1], self.names[id(folder)].get(parts[-1])

    def see(self, call: Call) -> None:
        if call.kind == MARK:
            self.marks.append(call.path)
            return
        if call.path == self.root:                           # what holds both folders
            self.sync(self.top)
            return
        folder, name, file = self.find(call.path)
        if call.kind in ("create", "mkdir"):
            if file is not None:
                assert call.kind == "create" and not file.folder
                file.writes.append(Call("truncate", call.path))
                return
            self.change(Naming(self.new(call.kind == "mkdir"), None, (folder, name)))
        elif call.kind in ("write", "truncate"):
            assert file is not None
            file.writes.append(call)
        elif call.kind == "sync":
            assert file is not None
            self.sync(file)
        elif call.kind == "rename":
            there, target, _ = self.find(call.target)
            assert file is not None
            self.change(Naming(file, (folder, name), (there, target)))
        elif call.kind in ("unlink", "rmdir") and file is not None:
            self.change(Naming(file, (folder, name), None))

    def new(self, folder: bool) -> File:
        file = File(folder)
        self.files[id(file)] = file
        if folder:
            self.names[id(file)] = {}
        return file

    def change(self, naming: Naming) -> None:
        apply(naming, self.names)
        self.changes.append(naming)

    def sync(self, file: File) -> None:
        if not file.folder:
            file.synced, file.writes = file.after(file.writes), []
            return
        for each in self.changes:
            if id(file) in [place[0] for place in (each.old, each.new) if place]:
                each.durable = True

    def now(self) -> dict[str, bytes | None]:
        """What every process sees while the power is on: contents by path, None for a folder."""
        return self.listed(self.names, lambda file: file.after(file.writes))

    def crashed(self, chance: Random) -> dict[str, bytes | None]:
        """One of the states in which the disk may be found."""
        share = chance.choice((0.0, 0.0, 1.0, chance.random(), chance.random()))     # of what was not synced
        names: dict[int, dict[str, File]] = {each: {} for each in self.names}
        for each in self.changes:
            if each.durable or chance.random() < share:
                apply(each, names)
        return self.listed(names, lambda file: crashed_content(file, share, chance))

    def listed(self, names, content) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}

        def walk(folder: File, path: str) -> None:
            for name, file in sorted(names[id(folder)].items()):
                found[path + name] = None if file.folder else content(file)
                if file.folder:
                    walk(file, f"{path}{name}/")

        walk(self.top, "")
        return found


def apply(naming: Naming, names: dict[int, dict[str, File]]) -> None:
    """Change names, if what is to be renamed or removed has its name here."""
    if naming.old is not None:
        folder, name = naming.old
        if names[folder].get(name) is not naming.file:
            return
        del names[folder][name]
    if naming.new is not None:
        folder, name = naming.new
        names[folder][name] = naming.file


def crashed_content(file: File, share: float, chance: Random) -> bytes:
    if not file.writes:
        return file.synced
    how = chance.choice(("none", "some", "zeros", "all")) if 0 < share < 1 else ("none" if share == 0 else "all")
    whole = file.after(file.writes)
    if how == "some":
        kept = file.writes[:chance.randrange(len(file.writes) + 1)]
        held = file.after(kept)
        return held[:max(len(file.synced), chance.randrange(len(held) + 1))]
    if how == "zeros":                                       # the length is there, the bytes are not
        return file.synced[:len(whole)] + bytes(max(0, len(whole) - len(file.synced)))
    return whole if how == "all" else file.synced


def write_state(state: dict[str, bytes | None], folder: Path) -> None:
    """Put a state on the disk."""
    for name, content in state.items():
        path = folder / name
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)


def read_state(folder: Path) -> dict[str, bytes | None]:
    """What lies in a folder, in the same form."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
            for path in sorted(folder.rglob("*"))}
