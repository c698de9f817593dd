"""Checkpoints of a model that is dealt out over ranks: each rank writes its rows, as safetensors.

torch's own distributed checkpoint writes and reads them (DCP, with its storage of safetensors): a file for each rank,
whose header says which rows it has. All else is as ever: what is small in training.safetensors, and the manifest of
hashes, written last by rank 0. Any number of ranks reads them, and so does one process, which makes the tensors whole.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import storage
from regard.config import fill
from regard.errors import RunError
from regard.plain_files import parse_json
from regard.run_folder import SHARE, pack
from regard.training.checkpoint import (
    Checkpoints,
    find_spoilt,
    holding_what_is_needed,
    load_state,
    refuse_spoilt,
    set_random_states,
    split_weights,
)
from regard.training.sharded_step import ShardedStep
from regard.training.sharding import Shards
from regard.training.step import TrainingPosition


class ShardedCheckpoints(Checkpoints):
    """The checkpoints of a sharded step; all ranks call `save` together."""

    step: ShardedStep
    dealt = True

    @property
    def shards(self) -> Shards:
        return self.step.shards

    def beginnings(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        first = self.shards.initial
        return first, {path: first.get(path.removeprefix("average/"), value) for path, value in self.tensors().items()}

    def save(self, position: TrainingPosition) -> None:
        began = time.monotonic()
        ranks, shards = self.step.ranks, self.shards
        ranks.require_equal([shards.own[name] for name in sorted(shards.replicated)])
        small, dealt = self.tables()
        found = shards.group.everyone(find_spoilt(*split_weights({**small, **dealt})))         # all stop, or none
        refuse_spoilt(position, next(filter(None, found), ""))
        part = Path(ranks.decide(str(self.folder.begin_checkpoint(position.step).resolve()) if ranks.first else ""))
        write_shares(part, ranks.number, {name: shards.as_dtensor(path_name(name), mine)
                                          for name, mine in dealt.items()})
        mine = {path.name: storage.file_digest(path) for path in part.glob(f"{SHARE}{ranks.number + 1:05d}-*")}
        digests = {name: digest for found in shards.group.everyone(mine) for name, digest in found.items()}
        if ranks.first:
            files = {"training.safetensors": pack(small), "at.json": json.dumps(asdict(position)).encode(),
                     "session.json": json.dumps(self.session()).encode()}
            for name in self.folder.settle_checkpoint(part, position.step, files, digests, self.keep):
                self.report.say(f"checkpoint {name} is damaged: set aside")
        ranks.wait()
        self.saved = time.monotonic()
        self.took = self.saved - began

    def require_shared_disk(self) -> None:
        """Refuse a run folder that some rank does not see: each writes its share there."""
        group = self.shards.group
        path = Path(group.decide(str(self.folder.path.resolve())))
        blind = [name for name, sees in zip(group.names, group.everyone(path.is_dir()), strict=True) if not sees]
        if blind:
            raise RunError(f"{' and '.join(blind)} cannot see {path}, where each rank writes its share of a checkpoint "
                           "with --parallel fsdp: give --out on a disk that all machines share")

    def tables(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the state of training and the weights: what is small or everybody's, and this rank's rows."""
        shards = self.shards
        buffers = {name: each for name, each in shards.whole.saved_tensors().items() if name not in shards.shapes}
        every = {f"weights/{name}": each.detach() for name, each in (*shards.own.items(), *buffers.items())}
        every |= self.tensors()
        dealt = {path: value for path, value in every.items() if self.is_dealt(path, value)}
        return {path: value for path, value in every.items() if path not in dealt}, dealt

    def is_dealt(self, path: str, value: Tensor) -> bool:
        """Return whether each rank has rows of its own of what stands under this name."""
        name = path_name(path)
        return (not path.startswith(("carried/", "random/")) and name in self.shards.shapes
                and name not in self.shards.replicated and value.shape == self.shards.own[name].shape)

    # ---------------------------------------------------------------------------------------------- reading

    def restore(self, files: dict[str, bytes]) -> TrainingPosition:
        """Return the position of a checkpoint; all ranks load it together later."""
        with holding_what_is_needed():
            return fill(TrainingPosition, parse_json(files["at.json"]), "at.json")

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
        """Take this rank's rows of whole tensors."""
        step, shards, tables = self.step, self.shards, dict[str, dict[str, Tensor]]()
        buffers = dict(shards.sharded.named_buffers())
        for name, tensor in weights.items():
            (shards.own[name] if name in shards.own else buffers[name]).copy_(shards.take(name, tensor))
        for path, value in tensors.items():
            table, name = path.split("/", 1)
            tables.setdefault(table, {})[name] = shards.take(path_name(name), value)
        step.optimizers.load(tables.get("optimizer", {}))
        if step.average is not None:
            for name, value in tables.get("average", {}).items():
                step.average.weights[name].copy_(value)
        if "carried" in tables:
            step.carried = load_state(shards.whole, {name: step.ranks.own_rows(value)
                                                     for name, value in tables["carried"].items()})
        set_random_states(tables["random"], shards.device)

    @torch.no_grad()
    def load_shares(self, path: Path) -> None:
        """Read this rank's rows from a checkpoint that was dealt out, over whatever number of ranks."""
        shards, own, states = self.shards, dict[str, Tensor](), dict[str, Tensor]()
        for name in read_outline(path):
            table, _, rest = name.partition("/")
            if table == "weights":
                own[name] = shards.own[rest].detach()
            elif table == "average" and self.step.average is not None:
                own[name] = self.step.average.weights[rest]
            elif table == "optimizer":
                states[rest] = own[name] = torch.zeros_like(shards.own[path_name(name)])
        read_shares(path, {name: shards.as_dtensor(path_name(name), mine) for name, mine in own.items()})
        self.step.optimizers.load(states)

    def mend_weights(self, position: TrainingPosition) -> TrainingPosition:
        try:
            self.folder.read_weights()
            return position
        except RunError as error:
            self.report.say(f"{error.args[0].split(':')[0]}: the next validation writes others")
            return replace(position, best=float("inf"))


def path_name(path: str) -> str:
    """Return the name of the weight in `optimizer/adamw/exp_avg/NAME`."""
    return path.rpartition("/")[2]


# --------------------------------------------------------------------------------------------- torch's checkpoints


def write_shares(folder: Path, number: int, tensors: Mapping[str, Any]) -> None:
    """Write this rank's rows of all tensors.

    Each rank writes by itself, and torch sends no messages: nobody waits in them, unwatched, for a rank that is lost.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import Metadata

    class Planner(dcp.DefaultSavePlanner):
        def create_global_plan(self, all_plans: Any) -> Any:
            self.global_plan, self.metadata = all_plans, Metadata({})
            return all_plans, self.metadata

    class Writer(dcp.HuggingFaceStorageWriter):
        def prepare_global_plan(self, plans: Any) -> Any:
            return [replace(plan, storage_data={"shard_index": number + 1}) for plan in plans]

    def write() -> None:
        try:
            dcp.save(dict(tensors), storage_writer=Writer(str(folder), save_distributed=True), planner=Planner(),
                     no_dist=True)
        except dcp.CheckpointException as error:
            raise next((why for why, _ in error.failures.values() if isinstance(why, OSError)), error) from None

    with quiet_torch():
        storage.perform("write", folder, write)


def share_reader(folder: Path) -> Any:
    """Return torch's reader of a checkpoint, for the files of ranks among those that are there."""
    import torch.distributed.checkpoint as dcp

    class Reader(dcp.HuggingFaceStorageReader):
        def read_metadata(self, *given: Any, **options: Any) -> Any:
            found = super().read_metadata(*given, **options)
            kept = {index: each for index, each in found.storage_data.items()
                    if Path(each.relative_path).name.startswith(SHARE)}
            names = {index.fqn for index in kept}
            found.storage_data = kept
            found.state_dict_metadata = {name: each for name, each in found.state_dict_metadata.items()
                                         if name in names}
            return found

    return Reader(str(folder))


def read_shares(folder: Path, tensors: dict[str, Any]) -> None:
    """Fill tensors, or this rank's rows of them, from the files of all ranks; each rank reads by itself."""
    import torch.distributed.checkpoint as dcp

    with quiet_torch():
        dcp.load(tensors, storage_reader=share_reader(folder), no_dist=True)


def read_outline(folder: Path) -> dict[str, Tensor]:
    """Return what a checkpoint's shares make together: each tensor without its numbers."""
    metadata = share_reader(folder).read_metadata()
    return {name: torch.empty(each.size, dtype=each.properties.dtype, device="meta")
            for name, each in sorted(metadata.state_dict_metadata.items())}


def read_whole(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint's shares, each whole."""
    tensors = {name: torch.empty(each.shape, dtype=each.dtype) for name, each in read_outline(folder).items()}
    read_shares(folder, tensors)
    return tensors


@contextmanager
def quiet_torch() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
