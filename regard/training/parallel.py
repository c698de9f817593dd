"""Data parallel training: each rank takes some rows of the one global batch, and one message adds up what they found.

A batch is a pure function of the step, and its loss a sum over real targets with the share 1 / (their number) each. So
a rank is a piece of the batch like any other: it goes forward and backward over its rows by itself. Then one
all-reduce, a sum, carries all gradients, and with them a row of figures from each rank: its loss, whether its numbers
are finite, whether it was asked to stop, its seconds, its tokens. Clipping, update and average follow on every rank
alike. There is no state of the data but the step: a run goes on with any number of ranks.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.data.batching.shuffle import key_of
from regard.data.batching.text_batches import Batch
from regard.errors import TrainingStopped
from regard.ranks import Item, Ranks, Value
from regard.training.exchange import FIGURES, Exchange, Stopwatch, deal_matrices, owned
from regard.training.rank_watch import RankWatch
from regard.training.traffic import bytes_a_step, say_bytes

SHORT, LONG = 45.0, 1200.0     # seconds that a rank waits for another, at least; while one compiles
DAY = 86_400.0                 # the same, before training: one may have to read all the text
SLOWER = 4.0                   # times what it took itself, since they last met, that it waits for others
LOOKS = 100                    # at the clock in a run of so many minutes
STRAGGLES, NOTABLE = 1.25, 5.0 # times the seconds of the rank in the middle; and so many seconds more
SEED_BITS = 2**63


class RankShare(Ranks):
    """One of several ranks as far as its rows are concerned: with these alone a step can be timed."""

    def __init__(self, number: int, count: int):
        self.number, self.count = number, count

    def part(self, batch: Batch) -> tuple[Batch, float]:
        """Rows are dealt like cards: a batch may be sorted by length, and row b of a stream goes on in row b.

        A rank without a row takes the first, which counts nothing: its gradients are zeros, where others have any.
        """
        mine = batch.map(self.own_rows) if self.number < len(batch.tokens) else batch.rows(0, 1)
        return mine, 1 / max(1, batch.real) if self.number < len(batch.tokens) else 0.0

    def own_rows(self, tensor: Tensor) -> Tensor:
        return tensor[self.number::self.count].contiguous()


class RankGroup(RankShare):
    """Several ranks that have met (joining.py): what they send each other while they train."""

    def __init__(self, watch: RankWatch, number: int, count: int):
        super().__init__(number, count)
        self.watch, self.names = watch, watch.names
        self.tensors: Any = None                               # the group for tensors on a GPU; None: gloo's
        self.mirror = Path()                                   # where a rank but the first keeps the run's settings
        self.compiles = False                                  # a shape that is new takes long
        self.sent: dict[str, int] = {}                         # bytes given to each kind of message so far
        self.exchanges: Exchange | None = None
        self.stopwatch = Stopwatch(count)
        self.shapes: set[Any] = set()
        self.asked: Callable[[], bool] = lambda: False
        self.stopping, self.quick, self.training = False, False, False
        self.patience, self.met = DAY, time.monotonic()        # with the next message; when the last one came

    @property
    def name(self) -> str:
        return self.names[self.number]

    def speaker(self, say: Callable[[str], None]) -> Callable[[str], None]:
        return say if self.first else lambda text: print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------------------------------- messages

    def send(self, kind: str, tensor: Tensor, message: Callable[[], Any], quick: bool = False) -> None:
        """Send a message that all ranks take part in, once all have come to it."""
        self.sent[kind] = self.sent.get(kind, 0) + tensor.numel() * tensor.element_size()
        self.meet(message, quick)

    def meet(self, message: Callable[[], Any], quick: bool) -> None:
        """Take part in a message; whoever is lost meanwhile is noticed."""
        self.patience = self.choose_patience(quick)
        with self.waiting():
            try:
                message()
            except RuntimeError as error:
                raise RankLost((str(error) or type(error).__name__).splitlines()[0]) from None
        self.met = time.monotonic()

    def choose_patience(self, quick: bool) -> float:
        """Return how many seconds to wait for the others: they have had about as much to do as this rank."""
        if not self.training:
            return DAY
        if quick:
            return max(SHORT, SLOWER * self.stopwatch.longest) if self.quick else LONG
        return max(SHORT, SLOWER * (time.monotonic() - self.met))

    def waiting(self) -> AbstractContextManager[None]:
        return self.watch.waiting(self.patience)

    def busy(self) -> AbstractContextManager[None]:
        return self.watch.busy()

    def group_of(self, tensor: Tensor) -> Any:
        return self.tensors if tensor.is_cuda else None

    def sum(self, tensor: Tensor, quick: bool = False) -> None:
        """Add up a tensor over all ranks, in place."""
        self.send("all-reduce", tensor, lambda: dist.all_reduce(tensor, group=self.group_of(tensor)), quick)

    def begin_sum(self, tensor: Tensor) -> Callable[[], None]:
        """Begin to add up a tensor over all ranks, in place; return what waits until it is."""
        begun: list[Any] = []
        self.send("all-reduce", tensor, lambda: begun.append(
            dist.all_reduce(tensor, group=self.group_of(tensor), async_op=True)), quick=True)
        return lambda: self.meet(begun[0].wait, quick=True)

    def send_first(self, tensor: Tensor) -> None:
        """Send rank 0's tensor to all others, in place."""
        self.send("broadcast", tensor, lambda: dist.broadcast(tensor, 0, group=self.group_of(tensor)))

    def gather(self, mine: Tensor) -> Tensor:
        """Return (ranks, ...): the tensors of all ranks, which are equally large."""
        found = mine.new_empty((self.count, *mine.shape))
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self.send("all-gather", found, lambda: gather(found.view(-1), mine.reshape(-1), group=self.group_of(mine)))
        return found

    def swap(self, given: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Send one flat tensor to each rank; return what each has sent to this one, of these sizes."""
        both = torch.cat(list(given))
        found = both.new_empty(sum(sizes))
        self.send("all-to-all", found, lambda: dist.all_to_all_single(
            found, both, list(sizes), [len(each) for each in given], group=self.group_of(both)))
        return list(found.split(list(sizes)))

    def decide(self, value: Value) -> Value:
        said = json.dumps(value).encode() if self.first else b""
        length = torch.tensor([len(said)])
        self.send_first(length)
        data = bytes_of(said) if self.first else torch.empty(int(length), dtype=torch.uint8)
        self.send_first(data)
        return json.loads(data.numpy().tobytes())              # type: ignore[no-any-return]

    def everyone(self, value: Value) -> list[Value]:
        """Return the plain values of all ranks."""
        said = json.dumps(value).encode()
        lengths = self.gather(torch.tensor([len(said)])).flatten().tolist()
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[:len(said)] = bytes_of(said)
        rows = self.gather(padded).numpy()
        return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]

    def collect(self, mine: Sequence[Item]) -> list[Item]:
        parts = self.everyone(list(mine))
        return [parts[number % self.count][number // self.count] for number in range(sum(map(len, parts)))]

    def total(self, values: Sequence[float]) -> list[float]:
        summed = torch.tensor(values, dtype=torch.float64)
        self.sum(summed)
        return summed.tolist()                                 # type: ignore[no-any-return]

    def wait(self) -> None:
        self.total([0.0])

    # --------------------------------------------------------------------------------------------- a step

    def trial(self) -> Ranks:
        return RankShare(self.number, self.count)

    def expect(self, compiles: bool) -> None:
        self.compiles, self.exchanges, self.stopwatch = compiles, None, Stopwatch(self.count)
        self.shapes.clear()
        self.quick = False

    def begin_step(self, seed: int, step: int) -> None:
        """Draw this rank's noise of this step, the same whenever it is drawn; start the clock."""
        seed_noise(key_of(seed, step, self.number) % SEED_BITS)
        self.stopwatch.start()

    def part(self, batch: Batch) -> tuple[Batch, float]:
        if self.compiles and batch.tokens.shape not in self.shapes:
            self.shapes.add(batch.tokens.shape)
            self.quick = False                                 # somebody may have to compile
        return super().part(batch)

    def exchange(self, loss: Tensor, weights: Sequence[Any], tokens: int) -> Tensor:
        if self.exchanges is None:
            self.exchanges = Exchange(weights, self.count, weights[0] if weights else loss)
        said = [float(self.asked()), self.stopwatch.seconds(loss.is_cuda), float(tokens)]
        self.exchanges.fill(self.number, loss, said)
        self.exchanges.add_up(self)
        if not self.quick:                                     # this one had code to compile: it says nothing
            self.quick, self.stopwatch.longest = True, 0.0
        return self.exchanges.put_back()

    def end_training(self) -> None:
        self.training = False

    def looks_at_clock(self, step: int, steps: int) -> bool:
        return step % max(1, steps // LOOKS) == 0

    def agree_to_stop(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        self.asked, self.stopping, self.training = asked, False, True
        return lambda: self.stopping

    def with_figures(self, figures: Tensor) -> Tensor:
        if self.exchanges is None:
            return figures
        return torch.cat((figures, self.exchanges.table.to(figures.dtype).flatten()))

    def read_figures(self, said: Sequence[float]) -> str:
        rows = [dict(zip(FIGURES, row, strict=True)) for row in batched(said, len(FIGURES))]
        self.stopping = self.stopping or any(row["asked"] for row in rows)
        self.stopwatch.note([row["seconds"] for row in rows], [row["tokens"] for row in rows])
        lost = [name for name, row in zip(self.names, rows, strict=True)
                if row["lost"] or not math.isfinite(row["loss"])]
        return f" on {' and '.join(lost)}" if lost else ""

    def share_out(self, work: Callable[[Tensor], Tensor], stacks: Iterable[Tensor]) -> Iterator[Tensor]:
        """Work on this rank's matrices alone; one message brings the results of the others.

        On a GPU they are worked out in bfloat16, and travel as such.
        """
        every = list(stacks)
        owners = deal_matrices(tuple(tuple(stack.shape) for stack in every), self.count)
        mine = [work(stack[own]).flatten() if (own := owned(owner, self.number)) else stack.new_empty(0)
                for stack, owner in zip(every, owners, strict=True)]
        kind = torch.bfloat16 if every[0].is_cuda else every[0].dtype
        sizes = [sum(stack[0].numel() * owner.count(rank) for stack, owner in zip(every, owners, strict=True))
                 for rank in range(self.count)]
        flat = torch.zeros(max(sizes), dtype=kind, device=every[0].device)
        flat[:sizes[self.number]] = torch.cat(mine).to(kind)
        found = self.gather(flat)
        begins = [0] * self.count
        for stack, owner in zip(every, owners, strict=True):
            result, size = torch.empty_like(stack), stack[0].numel()
            for rank in range(self.count):
                if own := owned(owner, rank):
                    piece = found[rank, begins[rank]:begins[rank] + size * len(own)]
                    result[own] = piece.view(-1, *stack.shape[1:]).to(stack.dtype)
                    begins[rank] += size * len(own)
            yield result

    # ------------------------------------------------------------------------------- the state of training

    def send_state(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return rank 0's tensors on every rank; the others give none."""
        listed = self.decide([(name, str(each.dtype).removeprefix("torch."), list(each.shape), each.device.type)
                              for name, each in tensors.items()])
        found = {}
        for name, kind, shape, device in listed:
            tensor = (tensors[name].detach().contiguous() if self.first
                      else torch.empty(shape, dtype=getattr(torch, kind), device=device))
            self.send_first(tensor)
            found[name] = tensor
        return found

    def gather_rows(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not tensors:
            return {}
        rows = self.everyone(len(next(iter(tensors.values()))))
        found = {}
        for name, own in tensors.items():
            padded = own.new_zeros((max(rows), *own.shape[1:]))
            padded[:len(own)] = own
            whole = own.new_empty((sum(rows), *own.shape[1:]))
            for rank, part in enumerate(self.gather(padded)):
                whole[rank::self.count] = part[:rows[rank]]
            found[name] = whole
        return found

    @torch.no_grad()
    def require_equal(self, weights: Sequence[Tensor]) -> None:
        sums = [int(each.reshape(-1).view(torch.uint8).sum(dtype=torch.int64)) for each in weights]
        found = self.everyone(hashlib.sha256(json.dumps(sums).encode()).hexdigest())
        differ = [name for name, each in zip(self.names, found, strict=True) if each != found[0]]
        if differ:
            raise TrainingStopped(f"the weights of {' and '.join(differ)} are no longer those of {self.names[0]}; "
                                  "nothing of it is saved and the last checkpoint is good: go on with --resume, and "
                                  "look for a machine that computes wrongly")

    # --------------------------------------------------------------------------------------- what is said

    @property
    def machines(self) -> int:
        return len({name.rpartition(" on ")[2] for name in self.names})

    def describe(self, say: Callable[[str], None], model: Any, settings: Any) -> None:
        hosts = self.machines
        travels = bytes_a_step(model, settings, self.count)
        say(f"ranks      {self.count} on {hosts} machine{'s' * (hosts > 1)}, by {'NCCL' if self.tensors else 'gloo'}: "
            "each holds all weights, gradients and the optimizer's state, and reads its share of the rows of each "
            "batch")
        say(f"           {say_bytes(sum(travels.values()))} leave each rank in a step: "
            + ", ".join(f"{say_bytes(size)} of {name}" for name, size in travels.items()))
        say("           weights are those of one process but for the order of sums, in their last bits; dropout is "
            f"drawn for {self.count} ranks, and differs for another number")

    def speeds(self) -> dict[str, Any]:
        return {"rank_tokens_per_second": self.stopwatch.speeds()}

    def name_straggler(self, say: Callable[[str], None]) -> None:
        rank, times, more = self.stopwatch.straggler()
        if times > STRAGGLES and more > NOTABLE:
            say(f"straggler  {self.names[rank]} takes {times:.1f} times as long for its share of a step as the rank in "
                "the middle: the others wait for it")


def seed_noise(seed: int) -> None:
    """Seed the generators that training draws from. `torch.manual_seed` would also ask for devices that are not here,
    and write down the stack for each, every time."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(seed)


class RankLost(Exception):
    """A message could not be sent: another rank is gone."""


def bytes_of(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def batched(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    return (values[first:first + size] for first in range(0, len(values), size))
