"""A model dealt out over ranks by FSDP2: each holds some rows of every matrix, and sees whole ones while it works.

`fully_shard` gathers the matrices of a layer for its forward pass and again for its backward pass (those of the last
layers stay gathered meanwhile), and adds up their gradients, each rank's rows on that rank. What is small and must stay
exact (gains, biases, decays) every rank holds whole, in float32: its gradients travel with the message of the step, as
in data parallel training.

Optimisers, clipping and averages never see FSDP's wrappers: they work on `own`, this rank's rows as plain tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard

from regard.contract import Encoder, Learner, SequenceLayer
from regard.layers.roles import find_roles
from regard.layers.stack import Stack, stacked_layers

UNIT_BYTES = 2**26             # of the weights that are gathered at a time, at least
KEPT_BYTES = 2**28             # of the weights that stay gathered from a forward to its backward pass, at most


class Shards:
    """A model in two forms: `whole`, whose weights are there only while they are gathered, and `sharded`, which trains.

    `own` has under each name what this rank updates: its rows of a matrix, or all of what every rank holds.
    """

    def __init__(self, model: Learner, group: Any, device: torch.device, *, bfloat16: bool, carries: bool):
        self.group, self.device, self.count, self.number = group, device, group.count, group.number
        self.roles = find_roles(model)
        self.replicated = {name for name, role in self.roles.items() if role.kind == "gain"}
        self.weight_bytes = 2 if bfloat16 else next(model.parameters()).element_size()           # as they travel
        twice = {} if carries else {id(weight) for weight in gathered_twice(model, self.weight_bytes)}
        self.twice = {name for name, weight in model.named_parameters() if id(weight) in twice}
        self.shapes = {name: weight.shape for name, weight in model.named_parameters()}
        self.initial = {name: each.clone() for name, each in model.saved_tensors().items()} if group.first else {}
        self.sharded: Any = copy.deepcopy(model)
        self.whole = model.to(device)
        free(self._dealt(self.whole).values())
        together: Any = group.tensors or dist.group.WORLD
        self.mesh = DeviceMesh.from_group(together, device.type)
        self.units = shard(self.sharded, self, bfloat16=bfloat16, carries=carries)
        self.sharded.train()
        self.named = dict(zip(self.shapes, self.sharded.parameters(), strict=True))     # layers may be joined: by order
        self.own = {name: self._own_tensor(name, weight) for name, weight in self.named.items()}

    def _own_tensor(self, name: str, weight: Any) -> nn.Parameter:
        if name in self.replicated:
            return weight                                                              # type: ignore[no-any-return]
        with torch.no_grad():
            return nn.Parameter(weight.to_local().detach(), requires_grad=weight.requires_grad)

    def _dealt(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the weights of a model that are dealt out."""
        return {name: weight for name, weight in model.named_parameters() if name not in self.replicated}

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        return {name: weight for name, weight in self.own.items() if weight.requires_grad}

    def rows(self, name: str, rank: int | None = None) -> slice:
        """Return the rows of a dealt weight that a rank holds: as `torch.chunk` deals them."""
        rank = self.number if rank is None else rank
        length = self.shapes[name][0]
        each = -(-length // self.count)
        return slice(min(length, rank * each), min(length, (rank + 1) * each))

    def take(self, name: str, whole: Tensor) -> Tensor:
        """Return what this rank keeps of a tensor that is shaped as a weight; any other is kept as it is."""
        if name in self.replicated or name not in self.shapes or whole.shape != self.shapes[name]:
            return whole
        return whole[self.rows(name)].clone()

    def collect_gradients(self) -> None:
        """Let `own` have the gradients that the passes of a step have added up."""
        for name, weight in self.named.items():
            if name not in self.replicated:
                self.own[name].grad = None if weight.grad is None else weight.grad._local_tensor    # type: ignore[attr-defined]
                weight.grad = None

    # ------------------------------------------------------------------------------------------- whole again

    @contextmanager
    def gathered(self, tensors: Mapping[str, Tensor]) -> Iterator[Any]:
        """Give `whole` these weights, of which each rank has its share, for the length of a block."""
        dealt = self._dealt(self.whole)
        for weight in dealt.values():
            weight.untyped_storage().resize_(weight.numel() * weight.element_size())
        try:
            with torch.no_grad():
                for name, weight in self.whole.named_parameters():
                    weight.copy_(tensors[name] if name in self.replicated else self.gather(name, tensors[name]))
            yield self.whole
        finally:
            free(dealt.values())

    def gather(self, name: str, mine: Tensor) -> Tensor:
        """Return the whole of a tensor that is shaped as a weight, from the rows of all ranks."""
        length, *rest = self.shapes[name]
        padded = mine.new_zeros((-(-length // self.count), *rest))
        padded[:len(mine)] = mine
        return self.group.gather(padded).flatten(0, 1)[:length]                        # type: ignore[no-any-return]

    def as_dtensor(self, name: str, mine: Tensor) -> DTensor:
        """Return this rank's rows as a part of the whole tensor, for torch's own checkpoints."""
        shape = self.shapes[name]
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(mine, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)


def free(weights: Any) -> None:
    """Give back the memory of some weights, which stay where they are in their modules."""
    for weight in weights:
        weight.untyped_storage().resize_(0)


def shard(model: Any, shards: Shards, *, bfloat16: bool, carries: bool) -> list[SequenceLayer]:
    """Deal out the weights of a model: some layers at a time where that can be, and the rest as one; return the modules
    of these layers.

    Gradients are summed, not averaged: each is that of the rank's part of the one global loss. Small layers come and go
    together: each message and each module of FSDP's takes the host some time.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if bfloat16 else None,
                                  reduce_dtype=torch.float32 if bfloat16 else None, cast_forward_inputs=False)
    parts = [] if carries else cut_layers(model, UNIT_BYTES // shards.weight_bytes)
    units = join_layers(model, parts)
    keeps = count_kept(parts, KEPT_BYTES // shards.weight_bytes)
    kept = {weight for name, weight in zip(shards.shapes, model.parameters(), strict=True) if name in shards.replicated}
    for weight in kept:
        weight.data = weight.data.to(shards.device)
    for number, module in enumerate((*units, model)):
        fully_shard(module, mesh=shards.mesh, mp_policy=policy, ignored_params=kept,
                    reshard_after_forward=number < len(units) - keeps)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
        module.set_custom_all_gather(AllGather(shards.group))
        module.set_custom_reduce_scatter(ReduceScatter(shards.group))
    for module in model.modules():
        module._buffers = {name: None if each is None else each.to(shards.device)
                           for name, each in module._buffers.items()}
    for method in ("loss", *(["start"] if carries else [])):
        register_fsdp_forward_method(model, method)
    return units


def separate_layers(model: nn.Module) -> list[SequenceLayer]:
    """Return the layers of stacks whose weights can come and go one by one.

    Not those of a decoder, whose state is started from the source by their own weights, before they are called. And
    none that shares weights with another module.
    """
    users: dict[int, set[int]] = {}
    homes = [each for each in model.modules() if isinstance(each, Encoder)] if reads_source(model) else [model]
    found = [layer for home in homes for layer in stacked_layers(home)]
    for layer in found:
        for weight in layer.parameters():
            users.setdefault(id(weight), set()).add(id(layer))
    for module in model.modules():
        if not any(module is inner for layer in found for inner in layer.modules()):
            for weight in module.parameters(recurse=False):
                users.setdefault(id(weight), set()).add(id(module))
    return [layer for layer in dict.fromkeys(found) if all(len(users[id(each)]) == 1 for each in layer.parameters())]


def cut_layers(model: nn.Module, least: int) -> list[list[SequenceLayer]]:
    """Return these layers in the order of their stacks, neighbours of one stack together: so many weights at least."""
    wanted, found = set(separate_layers(model)), list[list[SequenceLayer]]()
    for stack in stacks_of(model):
        inside = list(stack)
        if wanted.issuperset(inside):
            count = max(1, min(len(inside), count_weights(inside) // max(1, least)))
            ends = [len(inside) * number // count for number in range(count + 1)]
            found += [inside[begin:end] for begin, end in pairwise(ends)]
        else:
            found += [[layer] for layer in inside if layer in wanted]
    return found


def join_layers(model: nn.Module, parts: Sequence[list[SequenceLayer]]) -> list[SequenceLayer]:
    """Put neighbours into stacks of their own; return what stands for each part now. Names of parameters change, their
    order does not."""
    joined = {id(part[0]): part[0] if len(part) == 1 else Stack(part) for part in parts}
    inner = {id(layer) for part in parts for layer in part[1:]}
    for stack in stacks_of(model):
        stack.layers = nn.ModuleList(joined.get(id(layer), layer) for layer in stack if id(layer) not in inner)
    return list(joined.values())


def count_kept(parts: Sequence[list[SequenceLayer]], most: int) -> int:
    """Return how many of the last parts stay gathered until their backward pass, which comes first: with so many
    weights together at most."""
    kept = 0
    while kept < len(parts) and sum(map(count_weights, parts[len(parts) - kept - 1:])) <= most:
        kept += 1
    return kept


def gathered_twice(model: nn.Module, weight_bytes: int) -> list[Tensor]:
    """Return the weights that are gathered for the forward pass, and again for the backward pass."""
    parts = cut_layers(model, UNIT_BYTES // weight_bytes)
    again = parts[:len(parts) - count_kept(parts, KEPT_BYTES // weight_bytes)]
    return [weight for part in again for layer in part for weight in layer.parameters()]


def stacks_of(model: nn.Module) -> list[Stack]:
    return [each for each in model.modules() if isinstance(each, Stack)]


def count_weights(layers: Sequence[nn.Module]) -> int:
    return sum(weight.numel() for layer in layers for weight in layer.parameters())


def reads_source(model: nn.Module) -> bool:
    return any(isinstance(each, Encoder) for each in model.modules())


# ------------------------------------------------------------------------------------------------- messages


class WatchedMessage:
    """A message of FSDP2 that goes through the group of ranks: counted, and watched."""

    def __init__(self, group: Any):
        self.group = group

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def send(self, kind: str, large: Tensor, message: Callable[..., Any], async_op: bool) -> Any:
        """Send it; on a CPU at once, so that a rank that is lost is known here."""
        later = async_op and large.is_cuda
        work: list[Any] = []
        self.group.send(kind, large, lambda: work.append(message(async_op=later)), quick=True)
        return work[0] if later else None


class AllGather(WatchedMessage):
    """The whole weights of a layer, from the rows of all ranks."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> Any:
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        return self.send("all-gather", output_tensor,
                         lambda **options: gather(output_tensor, input_tensor, group=group, **options), async_op)


class ReduceScatter(WatchedMessage):
    """The sum of the ranks' gradients, to each rank its rows."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> Any:
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        return self.send("reduce-scatter", input_tensor,
                         lambda **options: scatter(output_tensor, input_tensor, group=group, op=op, **options),
                         async_op)
