"""Meeting: the processes that `torchrun` started find each other, once each has come.

They talk through the store that torchrun names in the environment. After a restart by torchrun this may be the store of
the attempt before, with what was said in it; and the ranks of two machines may count restarts differently. So nobody
counts: rank 0 names the attempt, and tells each rank that greets it.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from regard.errors import EndedTogether, SettingError
from regard.training.parallel import DAY, RankGroup
from regard.training.rank_watch import MISSED, RankWatch

MEET = 45.0                    # seconds for all ranks to meet, from when one has come
LOOK = 0.05                    # seconds between two looks of rank 0 for a greeting


def count_ranks() -> int:
    """Return how many processes were started to train together: `torchrun` says so in the environment."""
    given = os.environ.get("WORLD_SIZE", "1") if "RANK" in os.environ else "1"
    try:
        return int(given)
    except ValueError:
        raise SettingError(f"WORLD_SIZE={given!r} is no number of ranks: start them with torchrun, or unset RANK and "
                           "WORLD_SIZE") from None


def meet(device: str, clean_up: Callable[[], None]) -> RankGroup:
    """Return the group of all ranks, once each has come."""
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if not dist.is_available():
        raise SettingError("this torch was built without torch.distributed: start `regard train` by itself")
    watch = None
    try:
        shared, number, several = next(iter(rendezvous("env://", timeout=timedelta(seconds=MEET))))
        until = time.monotonic() + MEET
        store = dist.PrefixStore(f"regard/{find_attempt(shared, number, several, until)}", shared)
        wait_for_all(store, number, several, until)
        watch = RankWatch(store, number, [f"rank {each}" for each in range(several)], name_keeper(), clean_up)
        with watch.waiting(DAY):                               # the watch is quicker
            dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=number, world_size=several,
                                    timeout=timedelta(seconds=2 * DAY))
    except (RuntimeError, ValueError) as error:
        if watch is not None:
            watch.stop()
        if number := int(os.environ.get("RANK", "0")):         # rank 0 says it; where it is not there, torchrun
            raise EndedTogether from None
        raise SettingError(f"the ranks did not meet ({str(error).splitlines()[0]}): start them with torchrun") from None
    group = RankGroup(watch, number, several)
    watch.names = group.names = group.everyone(f"rank {number} on {socket.gethostname()}")
    return group


def name_keeper() -> str:
    """Return who keeps the store; "" where rank 0 does."""
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return f"torchrun on {os.environ.get('MASTER_ADDR', 'the first machine')}" if agent else ""


def find_attempt(shared: Any, number: int, count: int, until: float) -> str:
    """Return a name of this attempt, the same on all its ranks and none that another attempt has had.

    Rank 0 makes it. A greeting of an attempt before may still be there: an answer to it is read by nobody.
    """
    own = uuid.uuid4().hex
    shared.set(f"regard/greeting/{number}", own)
    if number == 0:
        answer_greetings(shared, own, count, until)
        return own
    with suppress(RuntimeError):
        shared.wait([f"regard/attempt/{own}"], left_until(until))
        return str(shared.get(f"regard/attempt/{own}").decode())
    if not name_keeper():                                      # rank 0 keeps the store, and says who has not come
        raise EndedTogether
    refuse_absent([0], number, [each for each in range(1, count) if shared.check([f"regard/greeting/{each}"])])
    raise EndedTogether


def answer_greetings(shared: Any, attempt: str, count: int, until: float) -> None:
    """Tell each rank the name of the attempt, until all have taken it, or some do not come."""
    left = set(range(1, count))
    shared.set(f"regard/{attempt}/here/0", "1")
    while left and time.monotonic() < until:
        for rank in sorted(left):
            if shared.check([f"regard/greeting/{rank}"]):
                shared.set(f"regard/attempt/{shared.get(f'regard/greeting/{rank}').decode()}", attempt)
        left -= {rank for rank in left if shared.check([f"regard/{attempt}/here/{rank}"])}
        time.sleep(LOOK)


def wait_for_all(store: Any, number: int, count: int, until: float) -> None:
    """Wait until every rank has come to the store; the lowest that is there says who has not."""
    here = [f"here/{rank}" for rank in range(count)]
    store.set(here[number], "1")
    with suppress(RuntimeError):
        store.wait(here, left_until(until))
        return
    there = [rank for rank in range(count) if store.check([here[rank]])]
    refuse_absent([rank for rank in range(count) if rank not in there], number, there)


def left_until(until: float) -> timedelta:
    return timedelta(seconds=max(1.0, until - time.monotonic()))


def refuse_absent(absent: list[int], number: int, there: list[int]) -> None:
    """End, as some ranks have not come; the lowest of those that are there says so."""
    if number != there[0]:
        raise EndedTogether
    time.sleep(MISSED)                                         # the store may end with this process
    lost = " and ".join(f"rank {rank}" for rank in absent)
    raise SettingError(f"{lost} did not come within {MEET:.0f} seconds: start all with torchrun, and look whether each "
                       "machine reaches the first one")
