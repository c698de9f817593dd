"""Pull: a run that was pushed comes back from the hub, whole and checked, or not at all.

Only the files that a run has are fetched, by their names: no code, no pickle, nothing outside the folder. Each is
compared with the hub's hash and with the run's own manifest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from regard import storage
from regard.errors import DataError, RegardError, RunError, SettingError
from regard.families.user import named_code
from regard.interop.hf_folder import CONFIG, ONE, PICKLED, open_safetensors
from regard.interop.hub import PREFIX, Hub, Listing, Say, check_revision, silent
from regard.interop.pushing import FOLDER, PUSHED, TENSORS
from regard.manifest import MANIFEST, read_manifest
from regard.run_folder import RECORDED, SETTINGS, RunFolder

# Of a model of another program: settings, tokenizers and tensors. Never code, never a pickle.
FOREIGN = (CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
           "added_tokens.json", "chat_template.jinja", "vocab.json", "merges.txt", "source.spm", "target.spm",
           "tokenizer.model", ONE, "model.safetensors.index.json", "model-?????-of-?????.safetensors")


@dataclass(frozen=True)
class Pulled:
    """The result of a pull."""

    path: Path                             # the run
    name: str
    commit: str
    files: tuple[str, ...]
    size: int                              # bytes
    code: tuple[str, ...]                  # layers of its author's own that it names; they were not fetched
    seconds: float


def pull(name: str, out: str | Path | None = None, *, revision: str | None = None, say: Say = silent) -> Pulled:
    """Download the run that was pushed as OWNER/NAME. `revision` is a branch, a tag or a commit."""
    began, hub = time.monotonic(), Hub(name.removeprefix(PREFIX), say)
    path = free_path(out, hub)
    listing = hub.list_files(check_revision(revision))
    wanted = [f"{FOLDER}/{each}" for each in PUSHED if f"{FOLDER}/{each}" in listing.files]
    if f"{FOLDER}/{SETTINGS}" not in wanted:
        raise DataError(f"{hub.name} holds no run that was pushed" + (
            f": regard import {PREFIX}{hub.name} takes a model of transformers" if CONFIG in listing.files else ""))
    with downloaded(hub, listing, wanted, path) as folder:
        code = check_run(RunFolder(folder / FOLDER), hub.name)
        storage.move_folder(folder / FOLDER, path)
    return Pulled(path, hub.name, listing.commit, tuple(each.removeprefix(f"{FOLDER}/") for each in wanted),
                  sum(listing.files[each].size for each in wanted), code, time.monotonic() - began)


def free_path(out: str | Path | None, hub: Hub) -> Path:
    """Return where the run will be; a path that exists is refused."""
    path = Path(out) if out is not None else Path("runs") / hub.name.partition("/")[2]
    if path.exists():
        raise SettingError(f"-o {path} exists already: give another path, or remove it")
    return path


@contextmanager
def downloaded(hub: Hub, listing: Listing, wanted: list[str], path: Path, name: str = "") -> Iterator[Path]:
    """Fetch files into a folder beside `path`, which goes again; yield it, or the one of this name in it."""
    with storage.folders_above(path):
        part = storage.own_part(path.with_name(f"{path.name}-hub"))
        storage.remove(part)
        storage.make_folder(part / name)
        try:
            hub.download(listing, wanted, part / name)
            yield part / name
        finally:
            storage.remove(part)


def check_run(folder: RunFolder, name: str) -> tuple[str, ...]:
    """Refuse a run whose files are not those of its manifest; return the layers of its author's own that it names."""
    manifest = read_manifest(folder.path)
    there = {each for each in RECORDED if (folder.path / each).is_file()}
    if manifest is None:
        raise RunError(f"{name} has no {MANIFEST}: what it holds cannot be checked")
    if odd := sorted(there ^ set(manifest.files)):
        raise RunError(f"{name}: {odd[0]} and {MANIFEST} do not agree: ask who pushed it to push it again")
    for each in sorted(there):
        if not manifest.matches(each, storage.file_digest(folder.path / each)):
            raise RunError(f"{name}: {each} is not the one that its {MANIFEST} names: ask who pushed it to push it "
                           "again")
        if each.endswith(TENSORS):
            open_safetensors(folder.path / each)
    return tuple(named_code(folder.read_settings()))


# ---------------------------------------------------------------------------------- models of other programs


@contextmanager
def fetched_model(source: str, revision: str | None, path: Path, say: Say = silent) -> Iterator[Path]:
    """Fetch the model `hub:OWNER/NAME` into a folder of its name, which goes again; yield that folder.

    Of its files only settings, tokenizers and safetensors come. Errors name the model and not the folder."""
    hub = Hub(source.removeprefix(PREFIX), say)
    listing = hub.list_files(check_revision(revision))
    wanted = [each for each in sorted(listing.files)
              if "/" not in each and any(fnmatch(each, pattern) for pattern in FOREIGN)]
    if not any(each.endswith(TENSORS) for each in wanted):
        refuse_without_tensors(hub.name, listing)
    with downloaded(hub, listing, wanted, path, hub.name.partition("/")[2]) as folder:
        try:
            yield folder
        except RegardError as error:
            raise type(error)(str(error).replace(str(folder), f"{PREFIX}{hub.name}")) from None


def refuse_without_tensors(name: str, listing: Listing) -> None:
    pickled = sorted(each for each in listing.files if any(fnmatch(each, pattern) for pattern in PICKLED))
    if f"{FOLDER}/{SETTINGS}" in listing.files:
        raise DataError(f"{name} holds a run of Regard: regard pull {name}")
    if pickled:
        raise DataError(f"{name} has its weights in {pickled[0]} only, a pickle, which runs code when it is loaded: "
                        f"name a revision with {ONE}")
    raise DataError(f"{name} has no {ONE}: name a model as transformers saves it")
