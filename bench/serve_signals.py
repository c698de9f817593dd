"""Signals to a starting and to a running server under load: all of them must be heard within 5 seconds.

    python bench/serve_signals.py --signals 200

Trains a tiny model (or takes --run). Each signal, SIGINT or SIGTERM, goes to a server of its own: half of them at a
random moment of its start, from the first byte that it prints on; half while clients ask it for texts, some of which
read slowly or not at all. Every fifth server gets a second signal. Prints how long each kind of server took to end.
Exits with 1 if any was not gone in time, or ended otherwise than with the line `stopped` and exit code 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PROMISED = 5.0                 # seconds
LOST = 60.0                    # after which it is killed
CLIENTS = 6


@dataclass(frozen=True)
class Heard:
    """What became of one signal."""

    phase: str                 # starting · running
    name: str
    twice: bool
    after: float               # seconds from the first byte to the signal
    seconds: float             # from the signal to the end of the process
    wrong: str                 # how it ended, where not as promised


def main() -> int:
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or tiny_run(Path(folder))
        chance = random.Random(options.seed)
        start = seconds_to_start(run)
        print(f"from the first byte to the first text: {start:.1f} s; load {os.getloadavg()[0]:.1f} "
              f"on {os.cpu_count()} cores", flush=True)
        found = []
        for number in range(options.signals):
            found.append(tried(run, chance, start, running=number % 2 == 1, twice=number % 5 == 4))
            if found[-1].wrong or (number + 1) % 20 == 0:
                print(f"{number + 1}: {found[-1]}", flush=True)
        return verdict(found)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Signals to a starting and a running server.")
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--run", help="a run folder of a language model; by default a tiny one is trained")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def tiny_run(folder: Path) -> str:
    sizes = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "64", "--steps", "5", "--device", "cpu"]
    subprocess.run([sys.executable, "-m", "regard", "train", "lm", "stories", *sizes, "--quiet",
                    "--out", str(folder / "tiny")], check=True)
    return str(folder / "tiny")


# --------------------------------------------------------------------------------------------- one signal


def tried(run: str, chance: random.Random, start: float, running: bool, twice: bool) -> Heard:
    number = chance.choice([signal.SIGINT, signal.SIGTERM])
    server, first = started(run)
    began = time.monotonic()
    over = threading.Event()
    if running:
        port = port_of(first + until_newline(server))
        asked = [threading.Thread(target=client, args=(port, Path(run).name, seed, over), daemon=True)
                 for seed in range(CLIENTS)]
        for each in asked:
            each.start()
        wait_for_text(port, Path(run).name)
    time.sleep(chance.random() * (1.0 if running else 1.2 * start))
    sent = time.monotonic()
    server.send_signal(number)
    if twice:
        time.sleep(chance.random() * 0.3)
        server.send_signal(chance.choice([signal.SIGINT, signal.SIGTERM]))
    wrong, ended = ending(server)
    over.set()
    took = ended - sent
    if not wrong and took > PROMISED:
        wrong = "too late"
    return Heard("running" if running else "starting", number.name, twice, sent - began, took, wrong)


def started(run: str) -> tuple[subprocess.Popen[bytes], bytes]:
    """A server that has printed its first byte."""
    server = subprocess.Popen([sys.executable, "-m", "regard", "serve", run, "--port", "0", "--device", "cpu"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert server.stdout is not None
    return server, server.stdout.read(1)


def until_newline(server: subprocess.Popen[bytes]) -> bytes:
    assert server.stdout is not None
    return server.stdout.readline()


def port_of(line: bytes) -> int:
    found = re.search(rb":(\d+)/", line)
    assert found, f"no address was printed: {line!r}"
    return int(found[1])


def ending(server: subprocess.Popen[bytes]) -> tuple[str, float]:
    """What was not as promised, and when it ended."""
    try:
        out, err = server.communicate(timeout=LOST)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()
        return "not heard", time.monotonic()
    ended = time.monotonic()
    if server.returncode != 0:
        return f"exit code {server.returncode}: {err[-200:]!r}", ended
    if not out.endswith(b"stopped\n") or b"Traceback" in err:
        return f"{out[-100:]!r} {err[-200:]!r}", ended
    return "", ended


# ------------------------------------------------------------------------------------------------ clients


def ask(port: int, model: str, tokens: int, stream: bool) -> socket.socket:
    body = json.dumps({"model": model, "prompt": "One day", "max_tokens": tokens, "stream": stream}).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=LOST)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return connection


def client(port: int, model: str, seed: int, over: threading.Event) -> None:
    """Asks until the server has gone: quickly, slowly, or without reading at all."""
    try:
        while not over.is_set():
            with ask(port, model, 4000 if seed % 3 else 20, stream=bool(seed % 3)) as connection:
                if seed % 3 == 2:
                    over.wait(LOST)                            # never reads
                    return
                while connection.recv(65536) and not over.is_set():
                    if seed % 3 == 1:
                        time.sleep(0.05)
    except OSError:
        return                                                 # the server has gone


def wait_for_text(port: int, model: str) -> None:
    """Until the server has answered once."""
    with ask(port, model, 1, stream=False) as connection:
        while connection.recv(65536):
            pass


def seconds_to_start(run: str) -> float:
    server, first = started(run)
    began = time.monotonic()
    wait_for_text(port_of(first + until_newline(server)), Path(run).name)
    took = time.monotonic() - began
    server.terminate()
    ending(server)
    return took


# ------------------------------------------------------------------------------------------------ verdict


def verdict(found: list[Heard]) -> int:
    print(f"{'':17} {'signals':>8} {'median s':>9} {'95% s':>7} {'most s':>7} {'wrong':>6}")
    for phase in ("starting", "running"):
        for twice in (False, True):
            some = [each for each in found if (each.phase, each.twice) == (phase, twice)]
            if some:
                seconds = sorted(each.seconds for each in some)
                print(f"{phase + (', twice' if twice else ''):17} {len(some):8d} {statistics.median(seconds):9.2f} "
                      f"{seconds[int(0.95 * (len(seconds) - 1))]:7.2f} {seconds[-1]:7.2f} "
                      f"{sum(bool(each.wrong) for each in some):6d}")
    wrong = [each for each in found if each.wrong]
    print(f"{len(found) - len(wrong)} of {len(found)} heard within {PROMISED:g} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
