"""Push: a run goes to the hub, as it is and as a folder that transformers opens, with a card of what was measured.

    README.md                   the model card
    config.json, ...            what `regard export --to hf` writes, where the settings fit
    regard/run.toml, ...        the run itself: what `regard pull` brings back, bit by bit

Checkpoints, samples (which quote held-out text) and logs of other programs stay here. Of files that training read only
the names go along, and not where they lay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import __version__, storage
from regard.config import write_toml
from regard.errors import RunError, SettingError
from regard.interop.checking import Checked
from regard.interop.export import export
from regard.interop.hub import Hub, Listing, Say, check_revision, silent
from regard.interop.mixtures import beside
from regard.interop.model_card import strip_places, write_card
from regard.interop.target import ExportSubject
from regard.manifest import MANIFEST, format_manifest
from regard.run_folder import HEADING, METRICS, RECORDED, SETTINGS, RunFolder
from regard.trained import load

FOLDER = "regard"                          # of a repository: the run lies there
CARD = "README.md"
PUSHED = (*RECORDED, MANIFEST, METRICS)    # files of a run, as far as it has them
TO = ("auto", "hf", "run")
TENSORS = ".safetensors"


@dataclass(frozen=True)
class Pushed:
    """The result of a push."""

    name: str
    url: str
    commit: str
    kind: str | None                       # the class of transformers that opens it; None: none does
    files: tuple[str, ...]
    size: int                              # bytes
    removed: tuple[str, ...]               # files of an earlier push
    checked: Checked | None
    notes: tuple[str, ...] = ()


def push(
    run: str | Path, name: str, *, to: str = "auto", private: bool = False, revision: str | None = None,
    message: str | None = None, check: bool = True, trust: bool = False, say: Say = silent,
) -> Pushed:
    """Upload a run to the repository `name` of the hub, OWNER/NAME, in one commit.

    With `to` auto the repository opens in transformers where that can hold the settings; with hf it must, with run it
    holds the run alone. `revision` is a branch, made if it is missing.
    """
    if to not in TO:
        raise SettingError(f"--to {to}: a run is pushed to {', '.join(TO)}")
    check_revision(revision)
    hub = Hub(name, say)
    hub.require_login()
    trained = load(run, "cpu", trust=trust)
    folder = RunFolder.open(run)
    files, digests = run_files(folder)
    with TemporaryDirectory(prefix="regard-push-") as scratch:
        kind, checked, notes = (None, None, ()) if to == "run" else write_for_transformers(
            trained, Path(scratch) / "hf", check, must=to == "hf")
        if kind is not None:
            files |= exported_files(Path(scratch) / "hf")
        files[CARD] = write_card(ExportSubject(trained, "float32", name), kind, pushed=True).encode()
        url = hub.create(private, revision)
        before = hub.list_files(revision)
        check_repository(hub, before, private)
        gone = left_over(before, files)
        commit = hub.commit(files, gone, message or f"Pushed by Regard {__version__}", revision, before.commit, digests)
        size = sum(map(size_of, files.values()))
    return Pushed(name, url, commit, kind, tuple(sorted(files)), size, gone, checked, notes)


def write_for_transformers(
    trained: Any, path: Path, check: bool, must: bool
) -> tuple[str | None, Checked | None, tuple[str, ...]]:
    """Write the export; where the settings do not fit, return None and the reason, unless it `must`."""
    try:
        done = export(trained, "hf", path, check=check)
    except SettingError as error:
        if must:
            raise
        return None, None, (f"transformers will not open it: {error}",)
    return done.kind, done.checked, done.notes


# ------------------------------------------------------------------------------------------ the run


def run_files(folder: RunFolder) -> tuple[dict[str, bytes | Path], dict[str, str]]:
    """Return the files of a run by their paths in the repository, and the SHA-256 that each must have."""
    there = [name for name in (*RECORDED, METRICS) if (folder.path / name).is_file()]
    manifest = folder.adopted().settle()
    settings = portable_settings(folder)
    manifest = replace(manifest, files={
        name: storage.digest(settings) if name == SETTINGS else digest
        for name, digest in manifest.files.items() if name in there})
    files: dict[str, bytes | Path] = {name: as_upload(folder.path / name) for name in there}
    files |= {SETTINGS: settings, MANIFEST: format_manifest(manifest).encode()}
    for name, data in files.items():
        if isinstance(data, bytes) and name in manifest.files and storage.digest(data) != manifest.files[name]:
            raise RunError(f"{folder.path / name} is not as it was written: {folder.cure(name)}")
    return ({f"{FOLDER}/{name}": data for name, data in files.items()},
            {f"{FOLDER}/{name}": digest for name, digest in manifest.files.items()})


def exported_files(folder: Path) -> dict[str, bytes | Path]:
    """Return the files of an export by their paths in the repository; the card is another one, and the n-gram lies in
    the run."""
    left_out = (beside(folder, True), folder / CARD)
    return {path.relative_to(folder).as_posix(): as_upload(path) for path in sorted(folder.rglob("*"))
            if path.is_file() and path not in left_out}


def portable_settings(folder: RunFolder) -> bytes:
    """Return run.toml with the names of files in the place of paths; where it has none, as it is."""
    tables = folder.read_settings()
    stripped = strip_places(tables)
    raw = folder.settings_path.read_bytes()
    return raw if stripped == tables else write_toml(stripped, heading=HEADING).encode()


def as_upload(path: Path) -> bytes | Path:
    """Return what is uploaded: tensors from their file, which may be large; all else as it is now."""
    return path if path.suffix == TENSORS else path.read_bytes()


def size_of(data: bytes | Path) -> int:
    return len(data) if isinstance(data, bytes) else data.stat().st_size


# ------------------------------------------------------------------------------------------ the repository


def check_repository(hub: Hub, before: Listing, private: bool) -> None:
    """Refuse a public repository where a private one was asked for, and one with a model that is not ours."""
    if private and not before.private:
        raise SettingError(f"--private: {hub.name} exists and is public; make it private on its page, or give another "
                           "name")
    if f"{FOLDER}/{SETTINGS}" not in before.files:
        others = sorted(path for path in before.files if is_model_file(path))
        if others:
            raise SettingError(f"{hub.name} holds another model ({others[0]}) that Regard did not push: give another "
                               "name")


def is_model_file(path: str) -> bool:
    return path == "config.json" or path.endswith((TENSORS, ".bin", ".gguf", ".onnx", ".pt"))


def left_over(before: Listing, files: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an earlier push left and this one lacks: of the run, and of the export."""
    return tuple(sorted(path for path in before.files if path not in files and (
        path.startswith(f"{FOLDER}/") or path in EXPORTED)))


EXPORTED = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
            "special_tokens_map.json", "target-tokenizer/tokenizer.json", "target-tokenizer/tokenizer_config.json")
