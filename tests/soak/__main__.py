"""The runner: `python -m tests.soak --minutes 30`, which `make soak` calls; tests/soak/__init__.py says how it goes."""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.soak.campaign import ROOT, Campaign, Failure, find_campaigns
from tests.soak.cases import collect, describe_end, kill_group, own_places
from tests.soak.page import again, machine_of, write_page
from tests.soak.state import Done, Kept

SAVED_EVERY = 2.0                        # seconds


def main() -> int:
    options = parsed()
    every = {name: each for name, each in find_campaigns().items() if each.device == options.device}
    kept = Kept(Path(options.state), options.device, list(every.values()))
    if unknown := set(options.only) - set(every):
        print(f"no campaign is called {', '.join(sorted(unknown))}: there are {', '.join(every)}", file=sys.stderr)
        return 2
    if options.list:
        for each in every.values():
            print(f"{each.name:24} {each.case}; {each.holds} ({each.ci:,} in CI, {each.soak:,} in the soak)")
        return 0
    if not options.table:
        soak = Soak([every[name] for name in options.only or every if every[name].here], kept, options)
        signal.signal(signal.SIGTERM, lambda *_: soak.stop())
        signal.signal(signal.SIGINT, lambda *_: soak.stop())
        soak.run()
    found = [(each, kept.read(each)) for each in every.values()]
    if options.page or options.table:
        write_page([(each, done) for each, done in found if done.cases or done.failures], options.device)
    failures = sum(len(done.failures) for _, done in found)
    print(f"{sum(done.cases for _, done in found):,} cases of this code, {failures} failures, "
          f"{sum(done.seconds for _, done in found) / 3600:.2f} hours")
    return 1 if failures else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so many; 0: when each has all its cases")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this campaign; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="begin with the first seed from this one that was not done")
    parser.add_argument("--count", type=int, help="exactly so many cases from --seed on, done before or not, in sight")
    parser.add_argument("--workers", type=int, default=2, help="campaigns at a time")
    parser.add_argument("--turn", type=float, default=60.0, help="seconds of a campaign before the next one's turn")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--state", default=str(ROOT / "bench" / "results"), help="the folder of what was done")
    parser.add_argument("--table", action="store_true", help="run nothing: write the page from what was done")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave docs/reliability.md as it is")
    parser.add_argument("--list", action="store_true", help="name the campaigns and end")
    return parser.parse_args()


class Soak:
    """Campaigns in turns, some at a time, until the time is over or all is done."""

    def __init__(self, campaigns: list[Campaign], kept: Kept, options: argparse.Namespace):
        self.kept, self.options = kept, options
        self.machine = machine_of(options.device)
        self.waiting: queue.SimpleQueue[Campaign] = queue.SimpleQueue()
        for each in campaigns:
            self.waiting.put(each)
        self.until = time.monotonic() + 60 * options.minutes if options.minutes else None
        self.stopped = threading.Event()
        self.running: set[int] = set()
        self.places = threading.Semaphore(options.workers)
        self.alone = threading.Lock()                        # whoever wants all places takes them one after another
        self.broken: list[BaseException] = []

    def stop(self) -> None:
        self.stopped.set()
        for process in list(self.running):
            kill_group(process)

    def over(self) -> bool:
        return self.stopped.is_set() or (self.until is not None and time.monotonic() > self.until)

    def run(self) -> None:
        threads = [threading.Thread(target=self.take_turns) for _ in range(self.options.workers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if self.broken:
            raise self.broken[0]

    def take_turns(self) -> None:
        try:
            while not self.over():
                try:
                    campaign = self.waiting.get_nowait()
                except queue.Empty:
                    return
                done = self.kept.read(campaign)
                if self.wanted(campaign, done):
                    self.take_turn(campaign, done)
                    if self.options.count is None:
                        self.waiting.put(campaign)
        except BaseException as error:
            self.broken.append(error)
            self.stop()

    def wanted(self, campaign: Campaign, done: Done) -> bool:
        if self.options.count is not None:
            return True
        return not done.rests() and (bool(self.until) or done.cases < campaign.soak)

    def take_turn(self, campaign: Campaign, done: Done) -> None:
        wanted = self.options.workers if campaign.alone else 1
        with self.alone:
            for _ in range(wanted):
                self.places.acquire()
        try:
            if not self.over():
                self.run_worker(campaign, done)
        finally:
            self.places.release(wanted)

    def run_worker(self, campaign: Campaign, done: Done) -> None:
        """One process for a turn; what it tells is kept as it comes."""
        exact = self.options.count is not None
        first = self.options.seed if exact else done.next_from(self.options.seed)
        count = self.options.count if exact else 10**9
        left = 1e9 if self.until is None else max(0.0, self.until - time.monotonic())
        seconds = 1e9 if exact else min(self.options.turn, left)
        folder = Path(tempfile.mkdtemp(prefix="soak-"))
        done.failures.pop("-1", None)                        # outside any case: it comes again, if it is still there
        spent = saved = time.monotonic()
        cases = 0

        def keep() -> None:
            nonlocal spent, saved
            saved = time.monotonic()
            done.spend(saved - spent, self.machine)
            spent = saved
            self.kept.write(campaign, done)

        def saw(seed: int, failure: Failure | None) -> None:
            nonlocal cases
            if self.stopped.is_set() and failure is not None:
                return                                       # it was killed by us
            cases += 1
            done.note(seed, failure)
            if failure is not None:
                print(f"{campaign.name}, seed {seed}: {failure.why}\n    {failure.again or again(campaign, seed)}",
                      flush=True)
            if failure is not None or time.monotonic() - saved > SAVED_EVERY:
                keep()

        try:
            self.start_and_follow(campaign, first, count, seconds, folder, saw)
        finally:
            keep()
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{campaign.name}: {cases:,} cases from seed {first:,}, {done.cases:,} in all, "
              f"{len(done.failures)} failures", flush=True)

    def start_and_follow(self, campaign, first, count, seconds, folder, saw) -> None:
        read, out = os.pipe()
        log = folder / "log"
        environment = os.environ | own_places(folder) | {"PYTHONPATH": str(ROOT)}
        words = [campaign.name, str(first), str(count), str(seconds), str(folder), str(out)]
        with open(log, "wb") as file:
            sight = None if self.options.count is not None else file
            process = subprocess.Popen([sys.executable, "-m", "tests.soak.worker", *words], cwd=ROOT, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=sight, stderr=sight, pass_fds=[out],
                                       start_new_session=True)
        self.running.add(process.pid)
        os.close(out)
        try:
            collect(campaign, read, process.pid, lambda: describe_end(wait_status(process), log), saw)
        finally:
            kill_group(process.pid)                          # what it may have left running
            self.running.discard(process.pid)
            os.close(read)


def wait_status(process: subprocess.Popen) -> int:
    code = process.wait()
    return -code if code < 0 else code << 8


if __name__ == "__main__":
    sys.exit(main())
