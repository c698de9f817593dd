"""Folders of Hugging Face `datasets`: one dataset as `save_to_disk` writes it, or one with splits.

    NAME/state.json, dataset_info.json, data-00000-of-00002.arrow, ...          a dataset
    NAME/dataset_dict.json, NAME/train/..., NAME/validation/..., NAME/test/...  one with splits
    NAME/train-00000-of-00002.parquet, NAME/test-...                            the same as the hub has it, or NAME/data
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.plain_files import load_json

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
# Which setting the files of a split go to; of several names the first that is there.
PARTS = {"files": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}
SHARD = re.compile(r"(\w+?)-\d{5}-of-\d{5}\.parquet")
Name = str | os.PathLike[str]


def is_saved_dataset(folder: Path) -> bool:
    """True for one dataset, without splits."""
    return is_there(folder / STATE) and is_there(folder / INFO)


def is_there(path: Path) -> bool:
    """True for a file; also a name that no file can have, such as one that is too long, is simply not there."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_dataset_files(folder: Path) -> list[Path]:
    """Return the Arrow files of a dataset, in their order."""
    state = load_object(folder / STATE)
    listed = state.get("_data_files")
    names = [str(each.get("filename")) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not names or any(Path(name).name != name for name in names):
        raise DataError(f"{folder / STATE} names no files of its own (_data_files): save the dataset again")
    if state.get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows (_indices_data_files): save it again with a newer `datasets`")
    missing = next((name for name in names if not is_there(folder / name)), None)
    if missing is not None:
        raise DataError(f"{folder} has no {missing[:200]}, which its {STATE} names: save the dataset again")
    return [folder / name for name in names]


def load_object(path: Path) -> dict[str, Any]:
    try:
        value = load_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"could not read {path} ({str(error).splitlines()[0]}): save the dataset again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds no object: save the dataset again")
    return value


def find_splits(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what each split of a folder is read from; nothing of a folder without splits."""
    if (folder / SPLITS).is_file():
        names = load_object(folder / SPLITS).get("splits")
        if not isinstance(names, list) or not all(
                isinstance(name, str) and Path(name).name == name and is_saved_dataset(folder / name)
                for name in names):
            raise DataError(f"{folder / SPLITS} does not name splits that are there: save the dataset again")
        return {name: (str(folder / name),) for name in names}
    shards: dict[str, list[str]] = {}
    for place in (folder, folder / "data"):
        for path in sorted(place.glob("*.parquet")) if place.is_dir() else ():
            if named := SHARD.fullmatch(path.name):
                shards.setdefault(named[1], []).append(str(path))
    return {name: tuple(files) for name, files in shards.items()}


def refuse_splits(folder: Path) -> None:
    """Refuse a folder with splits where one text is meant."""
    splits = find_splits(folder) if (folder / SPLITS).is_file() else {}
    if splits:
        raise DataError(f"{folder} has the splits {', '.join(splits)}: name one, e.g. {next(iter(splits.values()))[0]}")


def spread_splits(files: Sequence[Name], given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the files to learn from, choose by and report on where a folder with splits was given; nothing where not.

    A part in `given` stays as the user gave it."""
    if len(files) != 1 or not Path(files[0]).is_dir():
        return {}
    splits = find_splits(Path(files[0]))
    if not splits:
        return {}
    if "train" not in splits:
        raise DataError(f"{files[0]} has no split train (it has: {', '.join(splits)}): name files one by one")
    found = {part: next((splits[name] for name in names if name in splits), ()) for part, names in PARTS.items()}
    return {part: names for part, names in found.items() if names and (part == "files" or not given.get(part))}
