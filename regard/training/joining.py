"""Joining: the ranks that have met (meeting.py) say who they are, follow the run that rank 0 begins, and end together.

Rank 0 plans, holds the run folder, and speaks. It sends the others the small files of the run (settings, tokenizer) and
the state of training; they read the same data by themselves. Whoever fails tells the others, and one rank says it.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__, storage
from regard.errors import EndedTogether, RegardError, RegardNote, SettingError
from regard.manifest import MANIFEST
from regard.ranks import ALONE, Ranks
from regard.run_folder import SETTINGS, TOKENIZERS, RunFolder, unpack
from regard.trained import pick_device
from regard.training.checkpoint import Checkpoints, saved_state, shares_path, split_weights
from regard.training.meeting import count_ranks, meet
from regard.training.parallel import DAY, RankGroup, RankLost
from regard.training.request import TrainRequest
from regard.training.sharded_checkpoint import ShardedCheckpoints
from regard.training.step import TrainingPosition

PART = 10.0                    # seconds in which a rank that fails parts from the others


@contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """Meet the other ranks, and end with them; a process by itself meets nobody."""
    if count_ranks() == 1:
        yield ALONE
        return
    own = Path(tempfile.mkdtemp(prefix="regard-rank-"))
    try:
        with signals_ignored() as ignore_if:
            group = meet(device, partial(shutil.rmtree, own, ignore_errors=True))
            ignore_if(lambda: group.training)
            group.mirror = own
            try:
                check_members(group, device)
                with notes_given_once(group):
                    yield group
                group.wait()                                   # for rank 0, which may measure for long
            except BaseException as error:
                ignore_if(lambda: True)
                end_together(group, error)
            leave(group)
    finally:
        shutil.rmtree(own, ignore_errors=True)


# ------------------------------------------------------------------------------------------------- members


def check_members(group: RankGroup, device: str) -> None:
    """Refuse ranks that cannot train together; of CUDA devices, take this rank's and let them talk by NCCL."""
    import torch.distributed as dist

    found = group.everyone(introduce(device))
    first = found[0]
    for name, each in zip(group.names, found, strict=True):
        if each["problem"]:
            raise SettingError(f"{name}: {each['problem']}")
        for what, cure in (("ranks on its machine", "start as many on each (torchrun --nproc-per-node)"),
                           ("device", "give --device"), ("torch", "install the same version everywhere"),
                           ("regard", "install the same version everywhere")):
            if each[what] != first[what]:
                raise SettingError(f"{name} has {what} {each[what]}, and {group.names[0]} {first[what]}: {cure}")
    group.restarts = max(each["restarts"] for each in found)
    if first["device"] == "cuda":
        with group.waiting():
            group.tensors = dist.new_group(backend="nccl", timeout=timedelta(seconds=2 * DAY))


def introduce(device: str) -> dict[str, Any]:
    """Return what the others must know of this rank, with its problem if it has one."""
    import torch.distributed as dist

    local, problem, kind = int(os.environ.get("LOCAL_RANK", "0")), "", ""
    try:
        kind = pick_device(device).type
    except RegardError as error:
        problem = str(error)
    if kind == "cuda" and ":" in device:
        problem = f"--device {device}: each rank takes the GPU of its own number: give --device cuda"
    elif kind == "cuda" and not dist.is_nccl_available():
        problem = "this torch has no NCCL, by which GPUs talk to each other: install one that has, or give --device cpu"
    elif kind == "cuda" and local >= torch.cuda.device_count():
        problem = (f"it is number {local + 1} on its machine, which has {torch.cuda.device_count()} GPUs: start as "
                   "many ranks as there are GPUs (torchrun --nproc-per-node)")
    elif kind == "cuda":
        torch.cuda.set_device(local)
    return {"ranks on its machine": int(os.environ.get("LOCAL_WORLD_SIZE", "0")), "device": kind, "problem": problem,
            "torch": torch.__version__, "regard": __version__, "restarts": restarts()}


def restarts() -> int:
    """Return how many times the torchrun of this machine has started its processes again, after one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def gone_on_with(request: TrainRequest, ranks: Ranks) -> TrainRequest:
    """Return the request to go on with what was begun, where torchrun has started the processes again."""
    return replace(request, resume=True, base=None, params=None) if restarts() or ranks.restarts else request


# ----------------------------------------------------------------------------------------------- following


def send_run(ranks: Ranks, folder: RunFolder | None, way: str = "data") -> None:
    """Let the others follow the run of this folder, in the way that was chosen; None: there is nothing to do."""
    if not isinstance(ranks, RankGroup):
        return
    names = () if folder is None else (SETTINGS, *TOKENIZERS, MANIFEST)
    files = {name: base64.b64encode((folder.path / name).read_bytes()).decode()
             for name in names if folder is not None and (folder.path / name).is_file()}
    ranks.decide({"files": files, "way": way})


def receive_run(group: RankGroup) -> tuple[RunFolder | None, str]:
    """Wait until rank 0 has begun a run or taken one up; return its small files, in a folder of this rank's own (None:
    there is nothing to follow), and the way in which ranks share the work."""
    found = group.decide(dict[str, Any]())
    files = found["files"]
    for left in group.mirror.iterdir():                            # of another run before
        storage.remove(left)
    for name, data in files.items():
        (group.mirror / name).write_bytes(base64.b64decode(data))
    return RunFolder(group.mirror) if files else None, found["way"]


def follower_request(request: TrainRequest) -> TrainRequest:
    """Return the request to take up the run that rank 0 has begun, from the same data."""
    asked = (request.settings or {}).get("data", {})
    data = {name: asked[name] for name in ("valid", "test") if name in asked}
    return replace(request, resume=True, settings={"data": data}, family=None, base=None, like=None, params=None,
                   mix=None, log=(), tensorboard=False, quiet=True)


def send_state(
    ranks: Ranks, checkpoints: Checkpoints, position: TrainingPosition, files: dict[str, bytes] | None
) -> TrainingPosition:
    """Give every rank the state of training, that of a checkpoint's files or of rank 0; return the position."""
    if not isinstance(ranks, RankGroup):
        return position
    tensors = state_tensors(checkpoints, files) if ranks.first else {}
    tensors = ranks.send_state(tensors)
    if not ranks.first or checkpoints.dealt:
        tables: dict[str, dict[str, Tensor]] = {"weights": {}, "training": {}}
        for path, tensor in tensors.items():
            table, _, name = path.partition("/")
            tables[table][name] = tensor
        checkpoints.load(tables["weights"], tables["training"])
    if isinstance(checkpoints, ShardedCheckpoints):
        checkpoints.require_shared_disk()
        dealt = ranks.first and files is not None and "model.safetensors" not in files
        if path := ranks.decide(str(shares_path(checkpoints.folder, files or {}).resolve()) if dealt else ""):
            checkpoints.load_shares(Path(path))
    return TrainingPosition(**ranks.decide(asdict(position)))


def state_tensors(checkpoints: Checkpoints, files: dict[str, bytes] | None) -> dict[str, Tensor]:
    """Return weights and all else of training under their names; of carried states, those of all rows."""
    if files is None:
        both = checkpoints.beginnings()
    elif checkpoints.dealt and "model.safetensors" not in files:
        both = split_weights(unpack(files["training.safetensors"], ""))
    else:
        both = saved_state(checkpoints.folder, files)
    return {f"{table}/{name}": tensor.cpu() for table, tensors in zip(("weights", "training"), both, strict=True)
            for name, tensor in tensors.items()}


# -------------------------------------------------------------------------------------------------- ending


@contextmanager
def signals_ignored() -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Ignore signals to end where the condition that is given then holds; else the first one ends this rank at once.

    When a rank is gone, torchrun asks the others to end. They do so by themselves, and say why before.
    """
    conditions: list[Callable[[], bool]] = [lambda: False]

    def handle(number: int, frame: object) -> None:
        if not conditions[-1]():
            conditions.append(lambda: True)
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield conditions.append
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield conditions.append
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def notes_given_once(group: RankGroup) -> Iterator[None]:
    """Let rank 0 alone give the notes that all ranks would give."""
    with warnings.catch_warnings():
        if not group.first:
            warnings.simplefilter("ignore", RegardNote)
        yield


def end_together(group: RankGroup, error: BaseException) -> None:
    """Tell the others why this rank ends, let one of them say it, and raise what is left to raise."""
    watch, code = group.watch, getattr(error, "exit_code", 130 if isinstance(error, KeyboardInterrupt) else 1)
    if isinstance(error, RankLost):
        why = f"{watch.explain(str(error))}; the newest checkpoint is whole: go on with --resume"
    elif isinstance(error, RegardError):
        why = str(error)
        watch.fail(why)
    elif isinstance(error, KeyboardInterrupt):
        why = "interrupted"
        watch.fail(why)
    else:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        watch.fail(why)
    watch.tell(watch.asked, why)
    watch.stop()
    if not parts_in_time():
        if not isinstance(error, (RegardError, RankLost, KeyboardInterrupt)):
            traceback.print_exception(error)
        watch.clean_up()
        sys.stderr.flush()
        os._exit(code)
    if isinstance(error, (RegardError, RankLost, KeyboardInterrupt)):
        raise EndedTogether(code) from None
    raise error


def parts_in_time() -> bool:
    """Part from the others; return whether that ended. NCCL may wait for work on the GPU that ends only with them."""
    import torch.distributed as dist

    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None

    def part() -> None:
        if device is not None:
            torch.cuda.set_device(device)                      # of this thread
        with suppress(RuntimeError):
            dist.destroy_process_group()

    thread = threading.Thread(target=part, daemon=True)
    thread.start()
    thread.join(PART)
    return not thread.is_alive()


def leave(group: RankGroup) -> None:
    """End as it should be: every rank is done."""
    import torch.distributed as dist

    group.watch.stop()
    group.watch.part()
    dist.destroy_process_group()
