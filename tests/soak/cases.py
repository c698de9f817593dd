"""Cases of a campaign in a process of their own, which a case may end, and what they told the one that waits."""

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.campaign import Campaign, Failure

PREPARING = 300.0                        # seconds by the clock until the first case begins


@dataclass
class Outcome:
    """Which cases were done, and what was wrong with some; `ended` says how the process died in one, if it did."""

    done: list[int] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, seed: int, failure: Failure | None) -> None:
        self.done.append(seed)
        if failure is not None:
            self.failures[seed] = failure


def work(campaign: Campaign, seeds: Iterable[int], folder: Path, tell: Callable[[dict], None]) -> None:
    """Run cases, and tell of each before it begins and after it ended."""
    kept = folder / "prepared"
    kept.mkdir(parents=True, exist_ok=True)
    tell({"preparing": True})
    if campaign.warm is not None:
        campaign.warm()
    if campaign.prepare is not None:
        campaign.prepare(kept)
    if campaign.run_many is not None:
        tell({"begun": None})
        for seed, failure in campaign.run_many(seeds, folder):
            tell({"seed": seed, "failure": vars(failure) if failure else None})
        return
    for seed in seeds:
        tell({"begun": seed})
        own = Path(tempfile.mkdtemp(prefix="case-", dir=folder))
        try:
            failure = campaign.run(seed, own)
        except Exception:
            failure = Failure("traceback: " + " | ".join(traceback.format_exc().splitlines())[-1500:])
        tell({"seed": seed, "failure": vars(failure) if failure else None})
        shutil.rmtree(own, ignore_errors=True)


def teller(handle: int) -> Callable[[dict], None]:
    return lambda value: write_whole(handle, (json.dumps(value) + "\n").encode())


def write_whole(handle: int, raw: bytes) -> None:
    while raw:
        raw = raw[os.write(handle, raw):]


def read_lines(handle: int, patience: Callable[[], float]) -> Iterator[dict | None]:
    """The lines that come, until the other end closes; None once nothing came for so many seconds."""
    held = b""
    while True:
        ready, _, _ = select.select([handle], [], [], patience())
        if not ready:
            yield None
            return
        some = os.read(handle, 2**16)
        if not some:
            return
        *lines, held = (held + some).split(b"\n")
        yield from (json.loads(line) for line in lines)


def collect(
    campaign: Campaign, handle: int, process: int, end: Callable[[], str],
    saw: Callable[[int, Failure | None], None] = lambda seed, failure: None,
) -> Outcome:
    """Follow a process by what it tells; one that hangs is killed. `end()` waits for it and says how it ended."""
    outcome, begun, started, batch = Outcome(), None, [], False
    began = time.monotonic()
    for told in read_lines(handle, lambda: campaign.patience if started else max(PREPARING, campaign.patience)):
        if told is None:
            kill_group(process)
            break
        if "seed" in told:
            failure = Failure(**told["failure"]) if told["failure"] else None
            outcome.note(told["seed"], failure)
            saw(told["seed"], failure)
            begun = None
        elif "begun" in told:
            started.append(True)
            begun, batch = told["begun"], told["begun"] is None
    else:
        told = {}
    how = end()
    if told is None:
        how = f"hung: no answer within {campaign.patience:.0f} seconds"
    outcome.seconds = time.monotonic() - began
    if begun is not None or (how and (batch or not started)):
        seed = -1 if begun is None else begun
        outcome.note(seed, Failure(how or "the process ended in the middle of it"))
        saw(seed, outcome.failures[seed])
    return outcome


def kill_group(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def run_forked(campaign: Campaign, seeds: Iterable[int], folder: Path) -> Outcome:
    """Run cases in forks of this process; a case that ends one is a failure, and the others go on in the next."""
    left, whole = list(seeds), Outcome()
    if campaign.warm is not None:
        campaign.warm()
    while left:
        outcome = run_one_fork(campaign, left, folder)
        whole.done += outcome.done
        whole.failures |= outcome.failures
        whole.seconds += outcome.seconds
        reached = set(outcome.done)
        if not reached or -1 in reached:
            break
        left = [seed for seed in left if seed not in reached]
    return whole


def run_one_fork(campaign: Campaign, seeds: list[int], folder: Path) -> Outcome:
    read, out = os.pipe()
    log = folder / "log"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            os.setsid()
            quieten(log)
            os.environ |= own_places(folder)
            tempfile.tempdir = None
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            work(campaign, seeds, folder, teller(out))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)
    os.close(out)
    try:
        return collect(campaign, read, child, lambda: describe_end(os.waitpid(child, 0)[1], log))
    finally:
        os.close(read)
        kill_group(child)                                    # what it may have left running


def quieten(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = sys.stderr = open(1, "w", closefd=False)        # noqa: SIM115


def own_places(folder: Path) -> dict[str, str]:
    """The environment of a process whose files all lie in its folder."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {"TMPDIR": str(temporary), "REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE"}                    # two threads on a busy core would wait by spinning


def describe_end(status: int, log: Path) -> str:
    """Return how a process ended, unless well, with the end of what it wrote."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return ""
    said = log.read_text(errors="replace").strip().splitlines()[-12:] if log.exists() else []
    how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return " | ".join([how, *said])[-1500:]
