"""The server under load: many clients at once, some of which read slowly and some of which leave in the middle.

    python bench/serve_load.py --seconds 60

Trains a tiny model (or takes --run), serves it as a process of its own, and asks it for texts with 100 clients: 60 that
behave, 20 that read a streamed answer slowly, 20 that go away. Prints the answers by status, and the server's memory
and file descriptors over time. Exits with 1 if any answer is not 200, 429 or 503, or if memory or descriptors grew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ALLOWED = {200, 429, 503}
WARM = 0.3                     # of the time, after which memory should have settled
GROWTH = 1.05                  # of memory, from then on


def main() -> int:
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or tiny_run(Path(folder))
        server, port = started(run)
        try:
            return measured(server, port, options)
        finally:
            server.terminate()
            server.wait(20)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The server under load.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--run", help="a run folder; by default a tiny one is trained")
    return parser.parse_args()


def tiny_run(folder: Path) -> str:
    sizes = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "64", "--steps", "5", "--device", "cpu"]
    subprocess.run([sys.executable, "-m", "regard", "train", "lm", "stories", *sizes, "--quiet",
                    "--out", str(folder / "tiny")], check=True)
    return str(folder / "tiny")


def started(run: str) -> tuple[subprocess.Popen[str], int]:
    server = subprocess.Popen([sys.executable, "-m", "regard", "serve", run, "--port", "0", "--device", "cpu"],
                              stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    found = re.search(r":(\d+)/", line)
    assert found, f"no address was printed: {line!r}"
    return server, int(found[1])


# -------------------------------------------------------------------------------------------- clients


class Tally:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.lock = threading.Lock()
        self.until = 0.0

    def add(self, kind: str, status: int | str) -> None:
        with self.lock:
            self.counts[f"{kind} {status}"] += 1
            if isinstance(status, int) and status not in ALLOWED:
                self.wrong.append(f"{kind}: {status}")


def ask(port: int, model: str, chance: random.Random, stream: bool, tokens: int) -> socket.socket:
    body = json.dumps({"model": model, "prompt": "One day", "max_tokens": tokens, "stream": stream,
                       "seed": chance.randrange(1000)}).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=90)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return connection


def status_of(head: bytes) -> int:
    found = re.match(rb"HTTP/1.1 (\d+)", head)
    return int(found[1]) if found else 0


def behaved(port: int, model: str, chance: random.Random, tally: Tally) -> None:
    with ask(port, model, chance, chance.random() < 0.5, chance.randint(1, 60)) as connection:
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    status = status_of(answer)
    tally.add("well-behaved", status)
    if status != 200:
        time.sleep(chance.random())


def slow(port: int, model: str, chance: random.Random, tally: Tally) -> None:
    with ask(port, model, chance, True, 60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        head = b""
        while piece := connection.recv(200):
            head = head or piece
            if time.monotonic() > tally.until:
                break
            time.sleep(0.05)
    tally.add("slow", status_of(head))


def leaving(port: int, model: str, chance: random.Random, tally: Tally) -> None:
    with ask(port, model, chance, chance.random() < 0.5, 2000):
        time.sleep(chance.random())
    tally.add("leaving", "left")


def client(act, port: int, model: str, seed: int, tally: Tally) -> None:
    chance = random.Random(seed)
    while time.monotonic() < tally.until:
        try:
            act(port, model, chance, tally)
        except (ConnectionError, TimeoutError) as error:
            tally.add(act.__name__, type(error).__name__)
            tally.wrong.append(f"{act.__name__}: {error}")


# ------------------------------------------------------------------------------------------- measuring


def measured(server: subprocess.Popen[str], port: int, options: argparse.Namespace) -> int:
    model = listed(port)
    tally = Tally()
    behaved(port, model, random.Random(0), tally)               # loads the model
    idle = resources(server.pid)
    print(f"idle: {idle[0]:.0f} MB, {idle[1]} descriptors, {idle[2]} threads")
    tally.until = time.monotonic() + options.seconds
    acts = [leaving if at % 5 == 0 else slow if at % 5 == 1 else behaved for at in range(options.clients)]
    threads = [threading.Thread(target=client, args=(act, port, model, seed, tally), daemon=True)
               for seed, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    seen = watched(server.pid, port, tally)
    for thread in threads:
        thread.join(90)
    left = settled(server.pid, idle[1])
    return verdict(tally, seen, idle, left, options)


def listed(port: int) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=60) as answer:
        return json.load(answer)["data"][0]["id"]


def resources(pid: int) -> tuple[float, int, int]:
    """Memory in MB, open files, threads."""
    told = Path(f"/proc/{pid}/status").read_text()
    memory, threads = (int(re.search(rf"{name}:\s+(\d+)", told)[1]) for name in ("VmRSS", "Threads"))  # type: ignore[index]
    return memory / 1024, len(os.listdir(f"/proc/{pid}/fd")), threads


def watched(pid: int, port: int, tally: Tally) -> list[tuple[float, float, int]]:
    """Memory and descriptors over time, and how long /health takes."""
    import urllib.request

    seen, began, slowest = [], time.monotonic(), 0.0
    print(f"{'seconds':>8} {'MB':>8} {'files':>6} {'threads':>8} {'health ms':>10}")
    while time.monotonic() < tally.until:
        asked = time.monotonic()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30).read()
        except OSError as error:
            tally.wrong.append(f"health: {error}")
        took = time.monotonic() - asked
        slowest = max(slowest, took)
        memory, files, threads = resources(pid)
        seen.append((time.monotonic() - began, memory, files))
        print(f"{seen[-1][0]:8.1f} {memory:8.1f} {files:6d} {threads:8d} {1000 * took:10.0f}", flush=True)
        time.sleep(2)
    return seen


def settled(pid: int, files: int, seconds: float = 15) -> tuple[float, int, int]:
    """What is left when all clients are gone, after a while for the connections to be closed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and resources(pid)[1] > files:
        time.sleep(0.2)
    return resources(pid)


def verdict(tally: Tally, seen: list[tuple[float, float, int]], idle, left, options: argparse.Namespace) -> int:
    for kind, number in sorted(tally.counts.items()):
        print(f"{kind:32} {number:8,}")
    warm = [memory for at, memory, _ in seen if at >= WARM * options.seconds]
    wrong = list(dict.fromkeys(tally.wrong))
    if warm and warm[-1] > GROWTH * warm[0]:
        wrong.append(f"memory grew from {warm[0]:.0f} to {warm[-1]:.0f} MB")
    if left[1] > idle[1]:
        wrong.append(f"{left[1] - idle[1]} descriptors are left open")
    print(f"after: {left[0]:.0f} MB, {left[1]} descriptors, {left[2]} threads")
    print("; ".join(wrong) or "only 200, 429 and 503; memory and descriptors flat")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
