"""Worker processes: each answers orders, one line of JSON for one line of JSON, over its own pipe.

They are new processes and no forks, which threads and GPUs do not survive. Nothing is pickled. A worker ends when its
pipe closes, so none outlives the process that started it, however that ends. Ctrl-C is left to that process.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from regard.errors import RegardError, SettingError

T = TypeVar("T")
Order = dict[str, Any]
Answer = Callable[[Order], Any]
AHEAD = 8                     # orders of each worker that are taken before the first of them is answered
WAIT = 5.0                    # seconds in which a worker that was told to end does so, before it is killed
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
ONE_THREAD = dict.fromkeys(THREADS, "1") | {"TOKENIZERS_PARALLELISM": "false"}

_asked: ContextVar[int | None] = ContextVar("workers", default=None)


class WorkerError(RegardError):
    """A worker process ended, or met a mistake of ours."""


# ------------------------------------------------------------------------------------------------ how many


@contextmanager
def use_workers(count: int | None) -> Iterator[None]:
    """Read texts with so many processes inside this block; None: one a core."""
    check_workers(count)
    before = _asked.set(count)
    try:
        yield
    finally:
        _asked.reset(before)


def keep_workers(act: Callable[[], T]) -> Callable[[], T]:
    """The function, run later with as many processes as are asked for now."""
    count = _asked.get()

    def run() -> T:
        with use_workers(count):
            return act()

    return run


def check_workers(count: int | None) -> None:
    if count is not None and count < 1:
        raise SettingError(f"--workers {count}: must be at least 1")


def worker_count() -> int:
    """The processes to read texts with: as many as were asked for, else one for each core that this process may use."""
    return _asked.get() or cores()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ------------------------------------------------------------------------------------- the side that orders


class WorkerPool:
    """Some workers that run one module; `answers` gives what they answer in the order of the orders."""

    def __init__(self, module: str, count: int, name: str = "worker", each: Sequence[Mapping[str, str]] = ()):
        """`each` has the environment of each worker, beside one thread for every library."""
        environments = [{**os.environ, **ONE_THREAD, **own} for own in (each or [{}] * count)]
        self.workers = [Worker(module, f"{name} {number} of {count}", environment)
                        for number, environment in enumerate(environments, 1)]
        self.idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self.workers:
            self.idle.put(worker)
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="regard-worker")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for worker in self.workers:
            worker.close(kill=error[0] is not None)
        self.threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            assert worker.process.stdout is not None
            worker.process.stdout.close()

    def answers(self, orders: Iterable[Order]) -> Iterator[Any]:
        """Yield the answer to each order, in order, while later ones are worked on; the first mistake is raised. Orders
        are taken as they are needed, a few for each worker ahead."""
        asked: deque[Future[Any]] = deque()
        for order in orders:
            asked.append(self.threads.submit(self._ask, order))
            if len(asked) > AHEAD * len(self.workers):
                yield asked.popleft().result()
        for future in asked:
            yield future.result()

    def _ask(self, order: Order) -> Any:
        worker = self.idle.get()
        try:
            return worker.ask(order)
        finally:
            self.idle.put(worker)


class Worker:
    """One worker process."""

    def __init__(self, module: str, name: str, environment: Mapping[str, str]):
        self.name = name
        # A session of its own: a Ctrl-C in the terminal reaches the process that orders, and through it all of these.
        self.process = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=with_path(environment), start_new_session=True)

    def ask(self, order: Order) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except (OSError, ValueError):                        # its pipe is closed
            line = b""
        if not line:
            raise WorkerError(self.tell_end())
        answer = json.loads(line)
        if "mistake" in answer:
            raise mistake_named(answer["kind"])(answer["mistake"])
        if "crash" in answer:
            raise WorkerError(f"{self.name} failed: {answer['crash']}")
        return answer["done"]

    def tell_end(self) -> str:
        try:
            code = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            code = 0
        why = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        cure = ", perhaps for want of memory: try fewer with --workers" if code == -9 else ""
        return f"{self.name} {why}{cure}; what was done is kept, and the same command goes on from there"

    def close(self, kill: bool) -> None:
        if kill:
            self.process.kill()
        assert self.process.stdin is not None
        with suppress(OSError):                              # it may be gone
            self.process.stdin.close()
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def with_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a new process finds the modules that this one does."""
    return {**environment, "PYTHONPATH": os.pathsep.join([path or os.getcwd() for path in sys.path])}


def mistake_named(name: str) -> type[RegardError]:
    """The class of a user's mistake by its name."""
    kinds = [RegardError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return next((kind for kind in kinds if kind.__name__ == name), RegardError)


# ------------------------------------------------------------------------------------ the side that answers


def serve_orders(answer: Answer) -> None:
    """Answer each order that comes, until none can come any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)                                            # whatever prints must not stand among the answers
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    while True:
        reply = reply_to(json.loads(orders.get()), answer)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def listen(orders: queue.SimpleQueue[bytes]) -> None:
    """Take orders as they come; end the process at once when there is nobody left to give any."""
    for line in sys.stdin.buffer:
        orders.put(line)
    os._exit(0)


def reply_to(order: Order, answer: Answer) -> dict[str, Any]:
    """The reply to an order: its result, the mistake that was met, or our own mistake in one line."""
    try:
        return {"done": answer(order)}
    except RegardError as mistake:
        return {"mistake": str(mistake), "kind": type(mistake).__name__}
    except Exception as error:
        traceback.print_exc()
        return {"crash": f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"}
