"""A run on disk: everything that is the model, in one folder that can be moved and shared.

    runs/NAME/
      run.toml              every setting, resolved, and the format of the folder
      tokenizer.json        Hugging Face format; source-tokenizer.json beside it where a source has its own,
                            labels.json and baseline.safetensors where labels are given
      model.safetensors     the best weights
      ngram.safetensors     the n-gram that is mixed with them, if one is, and mixture.json, how
      test.json             the figures of the test part, by which nothing was chosen, at the end of training
      manifest.json         the hash of each of these
      metrics.jsonl         one object a line, append-only
      samples.jsonl         what the model wrote at validations, likewise
      checkpoints/STEP/     weights, optimizer, generators, data position; a manifest of their hashes, written last;
                            with --parallel fsdp a file for each rank, which has its rows of the tensors
      frames/               the columns that were read of frames, where they stood in the place of files
      lock                  while it is trained: who does

Nothing here is pickled: tensors are safetensors, the rest JSON and TOML. What hashes to something else than its
manifest says is not loaded: of checkpoints the newest good one is used. Formats up to `FORMAT` are read, and runs from
before there were formats; a newer one is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import storage
from regard.config import parse_toml, write_toml
from regard.errors import RunError, note
from regard.manifest import (
    FORMAT,
    MANIFEST,
    DamagedManifest,
    Manifest,
    check_format,
    digest_values,
    read_manifest,
    write_manifest,
)
from regard.plain_files import LARGE, SMALL, check_length, check_plain, load_json, parse_json, read_plain

SETTINGS, TOKENIZER, SOURCE_TOKENIZER, LABELS, BASELINE, WEIGHTS, METRICS, SAMPLES, CHECKPOINTS = (
    "run.toml", "tokenizer.json", "source-tokenizer.json", "labels.json", "baseline.safetensors", "model.safetensors",
    "metrics.jsonl", "samples.jsonl", "checkpoints")
NGRAM, MIXTURE, TEST = "ngram.safetensors", "mixture.json", "test.json"
TOKENIZERS = (TOKENIZER, SOURCE_TOKENIZER, LABELS, BASELINE)   # what a tokenizer saves, as far as it has it
RECORDED = (SETTINGS, *TOKENIZERS, WEIGHTS, NGRAM, MIXTURE, TEST)        # in the manifest
HEADING = "every setting of this run, resolved"                # the first line of run.toml
NUMBERS = ("tokens", "seconds", "took", "train_loss")                    # of a row of a log, where it has them
LARGEST = 1e8                  # of a weight: products of a few stay far from what float32 can hold
SHARE = "shard-"               # before the name of a checkpoint's file that has the share of one rank
DAMAGED = "damaged-"           # before the name of a checkpoint that was set aside


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.settings_path = self.path / SETTINGS
        self.tokenizer_path = self.path / TOKENIZER
        self.weights_path = self.path / WEIGHTS
        self.metrics_path = self.path / METRICS
        self.samples_path = self.path / SAMPLES
        self.checkpoints_path = self.path / CHECKPOINTS

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A run that exists; anything else is one clear line."""
        folder = cls(path)
        if not folder.path.exists():
            raise RunError(f"there is no run at {path}: train one with `regard train`, or check the path")
        if not folder.settings_path.is_file():
            raise RunError(f"{path} is not a run folder: it has no {SETTINGS}")
        return folder

    # ----------------------------------------------------------------------------------- the folder

    def create(self) -> None:
        """Make ready for training: what a dead process left half done is swept up; links are refused."""
        self.refuse_links()
        storage.make_folder(self.checkpoints_path)
        storage.remove_unfinished(self.path)
        storage.remove_unfinished(self.checkpoints_path)

    def begin(self) -> None:
        """Make ready for a new run: what one that never began has left here goes."""
        self.create()
        files = (self.path / name for name in (*TOKENIZERS, WEIGHTS, NGRAM, MIXTURE, TEST, METRICS, SAMPLES, MANIFEST))
        for path in (*self.checkpoints(), *files):
            storage.remove(path)

    def refuse_links(self) -> None:
        """Refuse links: what is written, rotated and removed here must not lie in another run."""
        refuse_links("a run", self.path, self.checkpoints_path)

    def remains(self) -> list[str]:
        """The names of what is left of a run whose run.toml is lost; none where a run is whole, or never began."""
        if self.settings_path.exists():
            return []
        manifest = self.manifest()
        if manifest is not None and not manifest.names(SETTINGS):
            return []
        kept = (self.weights_path, self.metrics_path, self.samples_path, self.checkpoints_path)
        there = [path.name for path in kept if path.exists()]
        return there if there != [CHECKPOINTS] or self.checkpoints() else []

    def manifest(self) -> Manifest | None:
        """None where there is none that can be believed."""
        try:
            return read_manifest(self.path)
        except DamagedManifest:
            return None

    def adopted(self) -> Manifest:
        """The manifest to go on with, in today's format; where there is none to believe, of the files as they are."""
        found = self.manifest()
        if found is None:
            there = [name for name in RECORDED if (self.path / name).is_file()]
            found = Manifest({name: storage.file_digest(self.path / name) for name in there},
                             checkpointed=self.had_checkpoints())
        return replace(found, format=FORMAT)                 # what is written next, an older version may not read

    def write_recorded(self, name: str, data: bytes) -> None:
        """Replace a file that the manifest knows, and its hash there: whoever dies in between loses neither."""
        announced = self.adopted().announce(name, storage.digest(data))
        write_manifest(self.path, announced)
        storage.write_file(self.path / name, data)
        write_manifest(self.path, announced.settle())

    # ---------------------------------------------------------------------------- settings, tokenizer

    def save_settings(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        text = write_toml(tables, heading=HEADING)
        self.write_recorded(SETTINGS, text.encode())

    def read_settings(self) -> dict[str, dict[str, Any]]:
        """The run's settings as they are, edited by hand or not; of a change, and of what cannot be checked, a note."""
        try:
            raw = read_plain(self.settings_path, SMALL)
        except OSError as error:
            raise RunError(f"could not read {self.settings_path}: {error.strerror or error}") from None
        tables = parse_toml(raw, self.settings_path)
        try:
            check_format(tables.get("run", {}).get("format", 0), self.path)
        except ValueError as error:
            raise RunError(f"{self.settings_path}: run.{error}") from None
        manifest = self._manifest_noted()
        if manifest is not None and not manifest.matches(SETTINGS, storage.digest(raw)):
            note(f"{self.settings_path} was changed since it was written: it is used as it is now")
        return tables

    def _manifest_noted(self) -> Manifest | None:
        try:
            manifest = read_manifest(self.path)
        except DamagedManifest as error:
            note(f"{error}: the files of {self.path} cannot be checked")
            return None
        if manifest is None:
            note(f"{self.path} has no {MANIFEST} (runs had none before format 1): its files cannot be checked")
        return manifest

    def save_tokenizer(self, tokenizer: Any) -> None:
        """Save the tokenizer of a run that has not begun: nothing can be lost between the files and the manifest."""
        tokenizer.save(self.tokenizer_path)
        write_manifest(self.path, self.adopted())

    def check_file(self, name: str) -> None:
        """Refuse a file that is not the one that was written. What has no manifest passes: a note was given of it."""
        manifest, path = self.manifest(), self.path / name
        if manifest is None or not (path.exists() or manifest.names(name)):
            return
        if not path.exists():
            raise RunError(f"{path} is missing, though {MANIFEST} names it: take it from a copy of the run")
        try:
            check_length(path)
            found = storage.file_digest(path)
        except OSError as error:
            raise RunError(f"could not read {path}: {error.strerror or error}") from None
        if not manifest.matches(name, found):
            raise RunError(f"{path} is not as it was written: it was damaged or replaced; {self.cure(name)}")

    def cure(self, name: str) -> str:
        recovers = name == WEIGHTS and any(map(is_whole, reversed(self.checkpoints())))
        return ("go on with --resume, which takes the weights of the newest checkpoint" if recovers
                else "take it from a copy of the run")

    def check_tokenizer(self) -> None:
        for name in TOKENIZERS:
            self.check_file(name)

    # -------------------------------------------------------------------------------------- weights

    def save_weights(self, tensors: Mapping[str, Any]) -> None:
        self.write_recorded(WEIGHTS, pack(tensors))

    def read_weights(self) -> dict[str, Any]:
        if not self.weights_path.is_file():
            self.check_file(WEIGHTS)
            raise RunError(f"{self.path} has no {WEIGHTS} yet: training has not reached its first validation; "
                           "go on with --resume")
        self.check_file(WEIGHTS)
        return mapped(self.weights_path)

    # -------------------------------------------------------------------------------------- mixture

    def save_ngram(self, tensors: Mapping[str, Any]) -> None:
        self.write_recorded(NGRAM, pack(tensors))

    def read_ngram(self) -> dict[str, Any]:
        self.check_file(NGRAM)
        if not (self.path / NGRAM).is_file():
            raise RunError(f"{self.path / NGRAM} is missing, though {SETTINGS} names it: take it from a copy")
        return mapped(self.path / NGRAM)

    def save_mixture(
        self, numbers: list[list[float]], cache: list[list[float]], losses: Mapping[str, float]
    ) -> None:
        values = {"numbers": numbers, "cache": cache, "losses": losses}
        self.write_recorded(MIXTURE, json.dumps(values, indent=2).encode())

    def read_mixture(self) -> dict[str, list[list[float]]] | None:
        """The fitted numbers of a mixture and of its cache, none in older ones; None while training has not ended."""
        self.check_file(MIXTURE)
        path = self.path / MIXTURE
        if not path.is_file():
            return None
        try:
            values = {"cache": [], **load_json(path)}
            return {name: [[as_finite(number) for number in row] for row in values[name]]
                    for name in ("numbers", "cache")}
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunError(f"{path} holds no numbers of a mixture ({error}): take it from a copy of the run") from None

    # ------------------------------------------------------------------------------------- test part

    def save_test(self, figures: Mapping[str, Any]) -> None:
        """Save the figures of the test part, with the hash of the weights that they are of."""
        values = {**figures, "weights": self.adopted().files[WEIGHTS]}
        self.write_recorded(TEST, json.dumps(storage.finite(values), indent=2).encode())

    def read_test(self) -> dict[str, Any] | None:
        """The figures of the test part; None while there are none of the weights as they are now."""
        self.check_file(TEST)
        path = self.path / TEST
        if not path.is_file():
            return None
        try:
            figures = dict(load_json(path))
            weights = figures.pop("weights")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} holds no figures of a test part ({error}): take it from a copy") from None
        return figures if weights == self.adopted().files.get(WEIGHTS) else None

    # ---------------------------------------------------------------------------------- checkpoints

    def save_checkpoint(self, step: int, files: Mapping[str, bytes], keep: int) -> list[str]:
        """Write a checkpoint whole, verify it, and only then drop the oldest ones; gives the names of damaged ones."""
        return self.settle_checkpoint(self.begin_checkpoint(step), step, files, {}, keep)

    def begin_checkpoint(self, step: int) -> Path:
        """Make the folder in which a checkpoint is written until it is whole."""
        self.refuse_links()
        final = self.checkpoint_path(step)
        if final.exists():                                   # resumed onto a damaged one, or the same step again
            storage.remove(final)
        part = final.with_name(f"{storage.TEMPORARY}{final.name}")
        if part.exists():
            storage.remove(part)
        return storage.make_folder(part)

    def settle_checkpoint(
        self, part: Path, step: int, files: Mapping[str, bytes], digests: Mapping[str, str], keep: int
    ) -> list[str]:
        """Write the last files of a checkpoint that was begun, and its manifest, and put it in its place; `digests` are
        those of files that are there already."""
        for name, data in files.items():
            storage.write_part(part / name, data)
        every = {**{name: storage.digest(data) for name, data in files.items()}, **digests}
        values = {"format": FORMAT, "step": step, "files": every}
        storage.write_part(part / MANIFEST, json.dumps({**values, "sha256": digest_values(values)}, indent=2))
        storage.move_folder(part, self.checkpoint_path(step))
        self._mark_checkpointed()
        return self._rotate(keep)

    def checkpoint_path(self, step: int) -> Path:
        return self.checkpoints_path / f"{step:08d}"

    def _mark_checkpointed(self) -> None:
        manifest = self.adopted()
        if not manifest.checkpointed:
            write_manifest(self.path, replace(manifest, checkpointed=True))

    def _rotate(self, keep: int) -> list[str]:
        """Keep the newest checkpoints that are whole; set damaged ones aside, and remove what is older."""
        good: list[Path] = []
        damaged: list[str] = []
        for path in reversed(self.checkpoints()):
            if len(good) == keep:
                storage.remove(path)
            elif is_whole(path):
                good.append(path)
            else:
                damaged.append(self.set_aside(path))
        return damaged

    def set_aside(self, path: Path) -> str:
        """Give a damaged checkpoint a name under which nothing counts on it."""
        aside = path.with_name(f"{DAMAGED}{path.name}")
        storage.remove(aside)
        storage.move_folder(path, aside)
        return path.name

    def checkpoints(self) -> list[Path]:
        """The checkpoints' folders, oldest first, good or not."""
        if not self.checkpoints_path.is_dir():
            return []
        return sorted((p for p in self.checkpoints_path.iterdir() if re.fullmatch(r"\d+", p.name)),
                      key=lambda path: int(path.name))

    def newest_checkpoint(self) -> tuple[dict[str, bytes] | None, list[str]]:
        """The files of the newest checkpoint that verifies, and the names of newer ones that do not."""
        damaged: list[str] = []
        for path in reversed(self.checkpoints()):
            files = verified(path)
            if files is not None:
                return files, damaged
            damaged.append(path.name)
        return None, damaged

    def had_checkpoints(self) -> bool:
        """True if training had come to a first checkpoint, though none may be left; in doubt, it had."""
        manifest = self.manifest()
        if manifest is not None:
            return manifest.checkpointed
        return self.weights_path.exists() or any(self.checkpoints_path.glob(f"{DAMAGED}*"))


def refuse_links(what: str, *folders: Path) -> None:
    for folder in folders:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_symlink():
                raise RunError(f"{path} is a link, and {what} is written only where it lies: "
                               "put a copy in the link's place, or remove it")
            if not (path.is_file() or path.is_dir()):
                raise RunError(f"{path} is a pipe or a device, which {what} has none of: remove it")


def verified(path: Path) -> dict[str, bytes] | None:
    """The checkpoint's files, if every one is there and hashes to what its manifest says; but for the shares of ranks,
    which may be too large to hold."""
    try:
        digests = checkpoint_digests(path)
        for name in digests:
            check_length(path / name)
        files = {name: read_plain(path / name) for name in digests if not name.startswith(SHARE)}
        shares = {name: storage.file_digest(path / name) for name in digests if name.startswith(SHARE)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    found = {**{name: storage.digest(data) for name, data in files.items()}, **shares}
    return files if found == digests else None


def is_whole(path: Path) -> bool:
    """`verified` without holding the files, which may be large."""
    try:
        digests = checkpoint_digests(path)
        for name in digests:
            check_length(path / name)
        return all(storage.file_digest(path / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def checkpoint_digests(path: Path) -> dict[str, str]:
    manifest = load_json(path / MANIFEST)
    own = manifest.pop("sha256", None)                       # checkpoints had none at first
    if own is not None and own != digest_values(manifest):   # asked first: a damaged number is no newer format
        raise ValueError
    check_format(manifest.get("format", 0), path)
    if not manifest["files"] or not all(is_plain_name(name) for name in manifest["files"]):
        raise ValueError
    return manifest["files"]


def is_plain_name(name: str) -> bool:
    """Return True if this names a file in its folder and nowhere else, on any system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def pack(tensors: Mapping[str, Any]) -> bytes:
    """Tensors as safetensors bytes. Tied ones are stored once, under the first of their names."""
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def mapped(path: Path) -> dict[str, Any]:
    """The tensors of a file where they lie in it: its pages are fetched as they are used."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        check_plain(path.stat(), path)
        return load_file(path)
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise RunError(f"{path} is damaged or no safetensors file ({error}): "
                       "resume from a checkpoint, or take it from a copy") from None


def check_finite(tensors: Mapping[str, Any], path: Path) -> None:
    """Refuse weights that are nan, infinite, or so large that products of them are: every answer would be nan. Each is
    looked through once."""
    if wrong := find_extreme(tensors):
        raise RunError(f"{path} is damaged: {wrong}; take it from a copy, or train again")


def find_extreme(tensors: Mapping[str, Any], largest: float = LARGEST) -> str:
    """Name a tensor that holds nan, an infinity or a number beyond the largest; return "" where none does."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            low, high = map(float, tensor.detach().aminmax())
            if not -largest <= low <= high <= largest:           # nan is in no range
                what = "no finite number" if not math.isfinite(high - low) else f"beyond {largest:g}"
                return f"{name} holds what is {what}"
    return ""


def unpack(data: bytes, where: Path | str) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{where} is damaged or no safetensors file ({error}): "
                       "resume from a checkpoint, or take it from a copy") from None


def read_log(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The rows of metrics.jsonl or samples.jsonl, and how many lines are none: torn by a kill, or damaged."""
    lines = load_log(path).split(b"\n")
    rows = [row for line in lines if line and (row := parse_row(line)) is not None]
    return rows, sum(1 for line in lines if line) - len(rows)


def load_log(path: Path) -> bytes:
    """The bytes of a log; none where there is no such file."""
    try:
        return read_plain(path, LARGE) if path.exists() else b""
    except OSError as error:
        raise RunError(f"could not read {path}: {error.strerror or error}") from None


def as_finite(value: Any) -> float:
    """The number of a file, if it is one: JSON as Python reads it has NaN and infinity, too."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no finite number")
    return number


def parse_row(line: bytes) -> dict[str, Any] | None:
    """A line of a log, if it is an object with the number of a step, and what else is measured is a number."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return None
    measured = (value for name, value in row.items()
                if name == "step" or name in NUMBERS or name.startswith("valid_"))
    return row if all(map(is_number, measured)) else None


def is_number(value: Any) -> bool:
    """True for a number of a log: nan may be one, and no whole one is as long as a line."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)
