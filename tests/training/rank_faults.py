"""`regard` with a fault in one of the ranks: `python -m tests.training.rank_faults FAULT RANK ARGUMENTS...`.

A fault comes once: torchrun starts the processes again without it.
"""

import math
import os
import signal
import sys
import threading
import time

import torch

from regard import storage
from regard.cli import main
from regard.training import buckets, parallel, step

AT = 5                                                       # the step in which it comes
SAVED = ("session.json",)                                    # the file of a checkpoint that it comes before
os.fsync = os.fstat


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def in_forward(act):
    """Act in the forward pass of the step AT."""
    backward, forward, now = step.TrainingStep.backward, step.ForwardBackward.__call__, []

    def at_step(self, number, micro_batch):
        now[:] = [number]
        return backward(self, number, micro_batch)

    def faulty(self, *given):
        return act(forward, self, *given) if now == [AT] else forward(self, *given)

    step.TrainingStep.backward, step.ForwardBackward.__call__ = at_step, faulty


def before(act):
    def faulty(forward, *given):
        act()
        return forward(*given)

    in_forward(faulty)


def not_a_number(forward, *given):
    loss, state = forward(*given)
    return loss * math.nan, state


def no_memory(forward, *given):
    raise torch.OutOfMemoryError("pretend")


def little_memory(forward, self, batch, *given):
    if len(batch.tokens) > 1:
        raise torch.OutOfMemoryError("pretend")
    return forward(self, batch, *given)


def no_memory_in_backward():
    """Memory runs out once a bucket of gradients has left."""
    send, seen = buckets.BucketedExchange.send_next, []

    def faulty(self):
        send(self)
        seen.append(1)
        if len(seen) > AT * len(self.buckets):
            raise torch.OutOfMemoryError("pretend")

    buckets.BucketedExchange.send_next = faulty


def no_value(forward, *given):
    raise ValueError("a bug")


def in_all_reduce(number):
    """This rank is killed while it waits for the others, which come late."""
    exchange, calls = parallel.RankGroup.exchange, []

    def faulty(self, *given):
        calls.append(1)
        if len(calls) == AT + 1 and self.number == number:
            threading.Timer(0.3, kill).start()
        elif len(calls) == AT + 1:
            time.sleep(1.5)
        return exchange(self, *given)

    parallel.RankGroup.exchange = faulty


def in_save():
    """This rank is killed while it writes its second checkpoint."""
    seen = []

    def count(operation, path):
        if operation == "write" and path.name in SAVED and "checkpoints" in str(path):
            seen.append(path)
            if len(seen) == 2:
                kill()

    storage.before_operation = count


def hang_in_save():
    """This rank hangs while it writes its second checkpoint."""
    seen = []

    def count(operation, path):
        if operation == "write" and path.name in SAVED and "checkpoints" in str(path):
            seen.append(path)
            if len(seen) == 2:
                time.sleep(1000)

    storage.before_operation = count


def slow_save():
    """This rank writes for longer than others wait, but gets on; files are written in pieces."""
    def slow(operation, path):
        if operation == "write" and path.name in SAVED and "checkpoints" in str(path):
            for _ in range(8):
                time.sleep(0.5)
                storage.count_piece()

    storage.before_operation = slow


def at_barrier():
    """This rank is killed where all agree on what validation has measured."""
    def faulty(self, value):
        if self.training and "valid_loss" in str(value):
            kill()
        return decide(self, value)

    decide, parallel.RankGroup.decide = parallel.RankGroup.decide, faulty


FAULTS = {
    "none": lambda: None, "forward": lambda: before(kill), "save": in_save, "hang in save": hang_in_save,
    "slow save": slow_save, "barrier": at_barrier,
    "hang": lambda: before(lambda: time.sleep(1000)), "frozen": lambda: before(lambda: os.kill(os.getpid(), 19)),
    "nan": lambda: in_forward(not_a_number), "memory": lambda: in_forward(no_memory),
    "memory in backward": no_memory_in_backward,
    "little memory": lambda: in_forward(little_memory), "bug": lambda: in_forward(no_value),
    "signal": lambda: before(lambda: os.kill(os.getpid(), signal.SIGTERM)),
}


if __name__ == "__main__":
    fault, number, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    buckets.BUCKET_BYTES = int(os.environ.get("TEST_BUCKET", buckets.BUCKET_BYTES))
    parallel.SHORT = float(os.environ.get("TEST_SHORT", parallel.SHORT))
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        if fault == "all-reduce":
            in_all_reduce(number)
        elif int(os.environ["RANK"]) == number:
            FAULTS[fault]()
    main(arguments)
