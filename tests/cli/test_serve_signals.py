"""`regard serve` hears SIGINT and SIGTERM at every moment from its first byte on: one line, exit code 0.

Each test starts a server. Nothing here asks how long it took, but for a minute after which a signal counts as lost;
`bench/serve_signals.py` measures the seconds, over hundreds of random moments.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

LOST = 60                      # seconds
BOTH = pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])


def started(run, before=""):
    """A server; `before` is Python that runs before the command does."""
    code = f"{before}\nfrom regard.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, "serve", str(run), "--port", "0", "--device", "cpu"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})


def assert_stopped(process, first=b""):
    try:
        out, err = process.communicate(timeout=LOST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("the signal was not heard") from None
    assert process.returncode == 0, (process.returncode, err)
    assert (first + out).splitlines()[-1] == b"stopped" and out.count(b"stopped") == 1
    assert err == b"", err


# From the first byte of the address until after the model is loaded, in parts of the time that this takes here.
@pytest.mark.parametrize(("part", "how"), [
    (0.0, signal.SIGTERM), (0.0, signal.SIGINT), (0.25, signal.SIGTERM), (0.5, signal.SIGINT), (0.75, signal.SIGTERM),
    (1.0, signal.SIGINT)])
def test_a_signal_is_heard_at_every_moment_of_the_start(runs, seconds_to_start, part, how):
    process = started(runs / "transformer")
    first = process.stdout.read(1)
    time.sleep(part * seconds_to_start)
    process.send_signal(how)
    assert_stopped(process, first)


@pytest.fixture(scope="module")
def seconds_to_start(runs):
    """From the first byte to the first text that the model wrote."""
    process = started(runs / "transformer")
    line = process.stdout.readline().decode()
    began = time.monotonic()
    ask(line).read()
    took = time.monotonic() - began
    process.terminate()
    assert_stopped(process)
    return min(took, 3.0)                    # on a busy machine the later moments are left to the test under load


def ask(line, tokens=1):
    """The likeliest text of the model at the address in the line, streamed; it has no end but that of its tokens."""
    body = f'{{"model": "transformer", "max_tokens": {tokens}, "temperature": 0, "stream": true}}'
    return urllib.request.urlopen(urllib.request.Request(
        re.search(r"http://\S+", line)[0] + "v1/completions", body.encode(), {"content-type": "application/json"}),
        timeout=LOST)


# The moment is an import: Python drops an exception that a handler raises in a weakref's callback.
IN_A_CALLBACK = """
import importlib.abc, os, signal, sys, weakref

class Signals(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            gone = Signals()
            kept = weakref.ref(gone, lambda _: (os.kill(os.getpid(), {how}), sum(range(1000))))
            del gone

sys.meta_path.insert(0, Signals())
"""


@BOTH
@pytest.mark.parametrize("module", ["regard.run_folder", "regard.serve.app", "torch"])
def test_a_signal_in_a_callback_of_an_import_is_heard(runs, module, how):
    """Before the address, after it, and in the thread that loads the model."""
    assert_stopped(started(runs / "transformer", IN_A_CALLBACK.format(module=module, how=int(how))))


def test_under_load_with_slow_readers_it_stops(runs):
    """More streams than may run at once, of clients that do not read."""
    process = started(runs / "transformer")
    line = process.stdout.readline().decode()
    streams = []

    def asking():
        with suppress(OSError):                            # some only wait, and are refused when it stops
            streams.append(ask(line, 4000))

    askers = [threading.Thread(target=asking, daemon=True) for _ in range(8)]
    for asker in askers:
        asker.start()
    until = time.monotonic() + LOST
    while not streams and time.monotonic() < until:
        time.sleep(0.01)
    assert streams
    process.send_signal(signal.SIGINT)
    assert_stopped(process)
    for each in [*askers, *streams]:
        each.join(LOST) if each in askers else each.close()


STUCK = """
import threading, time
from regard.serve import server
from regard.serve.server import Server

server.Server.run = lambda self, sockets=None: {what}
"""
FOREVER = "print('stuck', flush=True) or time.sleep(1000)"


def test_who_is_stuck_is_ended_when_its_time_is_over(runs):
    before = "from regard.serve import stop_signals\nstop_signals.LATEST = 0.3\n" + STUCK.format(what=FOREVER)
    process = started(runs / "ngram", before)
    first = process.stdout.readline() + process.stdout.readline()
    assert first.endswith(b"stuck\n")
    process.send_signal(signal.SIGTERM)
    assert_stopped(process, first)


def test_a_second_signal_ends_it_at_once(runs):
    """With a first deadline that nobody could wait for."""
    before = "from regard.serve import stop_signals\nstop_signals.LATEST = 1000.0\n" + STUCK.format(what=FOREVER)
    process = started(runs / "ngram", before)
    first = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert_stopped(process, first)


def test_a_mistake_leaves_the_signals_as_they_were(regard, runs):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = threading.active_count()
    regard("serve", "nothing").mistake()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1 and threading.active_count() == threads
