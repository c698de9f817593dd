"""Frames in the place of files: the columns that are read are kept in the run, so that it can be gone on with.

    runs/NAME/frames/files.jsonl, valid.jsonl, test.jsonl

They are JSONL, the same bytes for the same rows, whatever library held them and in whatever version. A run that is gone
on with must get the frame that it began with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard import storage
from regard.config import fill
from regard.data.reading.arrow_tables import frame_lines, is_frame
from regard.errors import RunError, SettingError
from regard.run_folder import RunFolder
from regard.tasks import task_named
from regard.tasks.task import Task
from regard.training.request import TrainRequest

FRAMES = "frames"
PARTS = ("files", "valid", "test")         # settings of [data] that may be frames
NAME = "frame"                             # in the name of a run's folder, where a file's name would be


def take_frames(files: Any, tables: dict[str, dict[str, Any]], column: str | None = None) -> dict[str, Any]:
    """Return `files` and `frames` of a request: the names of files, and the frames that stand in the place of some;
    these are taken out of the tables.

    `column` is the one with the text; it becomes a setting."""
    if column is not None:
        tables.setdefault("data", {})["field"] = column
    frames = {"files": files} if is_frame(files) else {}
    for part in PARTS[1:]:
        if is_frame(tables.get("data", {}).get(part)):
            frames[part] = tables["data"].pop(part)
    if frames and "files" not in frames:
        raise SettingError("data.valid and data.test are frames, and the text to learn from is not: give a frame, too")
    if frames:
        return {"files": (NAME,), "frames": frames}
    if isinstance(files, str) or hasattr(files, "__fspath__"):
        return {"files": (str(files),)}
    if not hasattr(files, "__iter__") or any(map(is_frame, files)):
        raise SettingError(f"{type(files).__name__} is no text to learn from: give the names of files, or one frame "
                           "with columns of text")
    return {"files": tuple(str(name) for name in files)}


@contextmanager
def kept_frames(request: TrainRequest, folder: RunFolder) -> Iterator[TrainRequest]:
    """Write the frames of a request into its run; yield the request with files in their place. Of a run that does not
    begin nothing stays."""
    if not request.frames or (folder.settings_path.exists() and not request.resume):           # it will be refused
        yield request
        return
    folder.refuse_links()
    wanted = dict(request.settings or {})
    given = dict(wanted.get("data", {}))
    task = task_named(request.task)
    files = {part: keep_frame(frame, part, task, given, folder) for part, frame in request.frames.items()}
    data = {**given, **{part: (path,) for part, path in files.items() if part != "files"}}
    try:
        yield replace(request, files=(files["files"],), settings={**wanted, "data": data}, frames={})
    finally:
        if not folder.settings_path.exists():
            storage.remove(folder.path / FRAMES)


def keep_frame(frame: Any, part: str, task: Task, given: Mapping[str, Any], folder: RunFolder) -> str:
    """Write a frame as JSONL; return the path. One that is kept already must be the same."""
    if task.columns is None:
        raise SettingError(f"a frame was given, and the task {task.name} reads none: give the names of files")
    data = fill(task.data, {"files": (NAME,), **given}, "data")
    choose = partial(choose_columns, task, data)
    field = str(getattr(data, "field", "text"))
    text = "".join(f"{line}\n" for line in frame_lines(frame, choose, field)).encode()
    path = folder.path / FRAMES / f"{part}.jsonl"
    if folder.settings_path.exists() and path.exists() and storage.file_digest(path) != storage.digest(text):
        raise RunError(f"the frame is not the one that {folder.path} began with: resume with the same rows, or start a "
                       "new run with --from")
    storage.make_folder(path.parent)
    storage.write_file(path, text)
    return str(Path(path))


def choose_columns(task: Task, data: Any, names: list[str]) -> list[str]:
    assert task.columns is not None
    return task.columns(data, names, "the frame")
