"""The manifest of a run: the SHA-256 of each file, so that loading sees a changed bit.

    {"format": 1, "files": {"run.toml": "9f86d0…", …}, "before": {}, "checkpointed": true, "sha256": "2c26b4…"}

A file and its hash cannot be replaced in one operation. So a new hash is announced first, with the old one under
`before`; then the file is replaced; then `before` is emptied. Whenever the process dies, the file is one of the two.
`sha256` is the manifest's own: a damaged manifest is told from damaged files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RunError
from regard.plain_files import SMALL, parse_json, read_plain

MANIFEST = "manifest.json"
FORMAT = 1                     # of run folders; raise it when an older Regard could no longer read a new run rightly
ABSENT = ""                    # in the place of a hash: the file was not there


class DamagedManifest(RunError):
    """The manifest itself is not as it was written."""


@dataclass(frozen=True)
class Manifest:
    files: dict[str, str] = field(default_factory=dict)        # name -> hash
    before: dict[str, str] = field(default_factory=dict)       # name -> hash, of a file that is just being replaced
    checkpointed: bool = False                                 # a checkpoint has been made
    format: int = FORMAT

    def announce(self, name: str, digest: str) -> Manifest:
        """The manifest while `name` is being replaced by what hashes to `digest`."""
        return replace(self, files={**self.files, name: digest}, before={name: self.files.get(name, ABSENT)})

    def settle(self) -> Manifest:
        return replace(self, before={})

    def names(self, name: str) -> bool:
        """True if the file must be there: not where a dead process had only announced it."""
        return name in self.files and self.before.get(name) != ABSENT

    def matches(self, name: str, digest: str) -> bool:
        return digest in (self.files.get(name), self.before.get(name))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    storage.write_file(folder / MANIFEST, format_manifest(manifest))


def format_manifest(manifest: Manifest) -> str:
    """Return the text of the file, its own hash in it."""
    values = asdict(manifest)
    return json.dumps({**values, "sha256": digest_values(values)}, indent=2, ensure_ascii=False) + "\n"


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest; None where there is none."""
    try:
        raw = read_plain(folder / MANIFEST, SMALL)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"could not read {folder / MANIFEST}: {error.strerror or error}") from None
    try:
        values = parse_json(raw)
        check_format(values["format"], folder)
        own = values.pop("sha256")
        if own != digest_values(values):
            raise ValueError
        return checked(Manifest(**values))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DamagedManifest(f"{folder / MANIFEST} is damaged") from None


def checked(manifest: Manifest) -> Manifest:
    """The manifest, if its hashes are hashes of names: its own SHA-256 keeps damage out, and no forger."""
    for hashes in (manifest.files, manifest.before):
        if not isinstance(hashes, dict) or not all(isinstance(each, str) for each in hashes.values()):
            raise ValueError
    if not isinstance(manifest.checkpointed, bool):
        raise ValueError
    return manifest


def digest_values(values: dict[str, Any]) -> str:
    return storage.digest(json.dumps(values, sort_keys=True).encode())


def write_sealed(path: Path, values: dict[str, Any]) -> None:
    """Write an object as JSON, with the SHA-256 of all its values among them."""
    plain = json.loads(json.dumps(values))                   # as it will be read: keys are texts, tuples lists
    storage.write_json(path, {**plain, "sha256": digest_values(plain)})


def read_sealed(path: Path) -> tuple[dict[str, Any], bool]:
    """The values that `write_sealed` wrote, and whether they are still those; of a file without a hash it is believed.

    A ValueError where it is no object.
    """
    values = parse_json(read_plain(path))
    if not isinstance(values, dict):
        raise ValueError("it holds no object")
    own = values.pop("sha256", None)
    return values, own in (None, digest_values(values))


def read_record_of(path: Path, what: str) -> dict[str, Any]:
    """The values of a sealed record; one that is damaged is refused with the cure. `what` it is of is made again."""
    try:
        record, whole = read_sealed(path)
        if not whole:
            raise ValueError("it does not match its SHA-256")
        return record
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): remove it, and the {what} is made again") from None


def check_format(found: object, where: Path | str) -> None:
    """Refuse a folder in a format that this version does not know; older formats are all read."""
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ValueError(f"format {found!r} is not a whole number")
    if found > FORMAT:
        raise RunError(f"{where} has format {found}, and this version of Regard reads formats up to {FORMAT}: "
                       "it was made by a newer one; update Regard")
