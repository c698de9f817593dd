"""A server in a process of its own, and two hundred clients at once: quick ones, slow ones, and some that go away.

Everything is on loopback, and bounded in time.
"""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.fixtures.runs import HERE

LM, TRANSLATOR = "lm-transformer-alibi", "translate-rnn-attention-additive"
ALLOWED = {200, 429, 503}
GET = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
POST = ("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}")
# It never ends by itself.
LONG = {"model": LM, "prompt": "a", "max_tokens": 4000, "stream": True, "temperature": 0}
QUICK = (("/v1/completions", {"model": LM, "prompt": "a cat", "max_tokens": 4}),
         ("/v1/completions", {"model": LM, "prompt": "the dog", "max_tokens": 30, "stream": True}),
         ("/translate", {"q": "un chat dort", "source": "source", "target": "target"}),
         ("/api/next", {"model": LM, "text": "a cat"}), ("/api/look", {"model": LM, "text": "a cat"}),
         ("/health", None), ("/api/models", None), ("/v1/models", None))
HEALTH = 0.2                                                 # seconds
STOPS = 1.0                                                  # seconds until generation has stopped
GROWTH = 1.05                                                # of memory


def request(path, body):
    if body is None:
        return GET.format(path).encode()
    text = json.dumps(body)
    return POST.format(path, len(text), text).encode()


class ServedApart:
    """`regard serve` over small runs, and what the system says of it."""

    def __init__(self, log):
        runs = [str(HERE / "runs" / name) for name in (LM, TRANSLATOR)]
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "regard", "serve", *runs, "--port", "0", "--device", "cpu"],
                stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "OMP_NUM_THREADS": "1"})
        line = self.process.stdout.readline().decode()
        self.port = int(line.rpartition(":")[2].split("/")[0].split()[0])
        self.seen = psutil.Process(self.process.pid)

    def close(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def seconds_of_cpu(self):
        times = self.seen.cpu_times()
        return times.user + times.system

    def memory(self):
        return self.seen.memory_info().rss

    def descriptors(self):
        return self.seen.num_fds()


@dataclass
class Crowd:
    """What many clients met in some seconds."""

    port: int
    until: float
    chance: random.Random
    statuses: Counter = field(default_factory=Counter)
    health: list = field(default_factory=list)               # seconds of each answer, or inf
    closed: int = 0

    def over(self):
        return time.monotonic() > self.until

    async def ask(self, said, take=None):
        """Send a request, take the answer or a part of it, and return its status; None if the connection was closed."""
        writer = None
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 10)
            writer.write(said)
            await writer.drain()
            first = await asyncio.wait_for(reader.readline(), 30)
            if not first:
                return None
            if take is None:
                while await asyncio.wait_for(reader.read(65536), 30):
                    pass
            else:
                await take(reader)
            return int(first.split()[1])
        except (OSError, asyncio.IncompleteReadError, ValueError):               # ValueError: a line that never ends
            return None
        finally:
            if writer is not None:
                writer.transport.abort()

    def note(self, status):
        if status is None:
            self.closed += 1
        else:
            self.statuses[status] += 1

    async def be_quick(self):
        """Requests one after another; a third of the clients go away in the middle of an answer."""
        while not self.over():
            path, body = self.chance.choice(QUICK)
            leaves = self.chance.random() < 0.3
            self.note(await self.ask(request(path, LONG if leaves and path.startswith("/v1/c") else body),
                                     take=leave_soon if leaves else None))
            await asyncio.sleep(self.chance.random() * 0.2)

    async def take_slowly(self):
        """A long answer, of which a few bytes are taken now and then."""
        async def sip(reader):
            while not self.over() and await asyncio.wait_for(reader.read(16), 30):
                await asyncio.sleep(0.2)

        while not self.over():
            self.note(await self.ask(request("/v1/completions", LONG), take=sip))
            await asyncio.sleep(0.1)

    async def send_slowly(self):
        """A request whose head or body comes byte by byte."""
        said = request("/translate", {"q": "un chat dort", "source": "source", "target": "target"})
        first = self.chance.choice((20, len(said) - 30))
        while not self.over():
            with suppress(OSError):
                _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 10)
                try:
                    writer.write(said[:first])
                    for byte in said[first:-1]:
                        if self.over() or writer.transport.is_closing():
                            break
                        writer.write(bytes([byte]))
                        await asyncio.sleep(0.5)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.1)

    def watch_health(self):
        """Ask for `/health` all the time, in a thread of its own: the crowd must not make its own clock slow."""
        said = request("/health", None)
        while not self.over():
            began, answer = time.monotonic(), b""
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                connection.sendall(said)
                while piece := connection.recv(4096):
                    answer += piece
            self.health.append(time.monotonic() - began if b" 200 " in answer[:20] else float("inf"))
            time.sleep(0.05)

    async def come(self, quick, readers, writers):
        """Let all come; when the time is over those that still wait go away too."""
        clients = [asyncio.ensure_future(each) for each in (
            *(self.be_quick() for _ in range(quick)), *(self.take_slowly() for _ in range(readers)),
            *(self.send_slowly() for _ in range(writers)))]
        await asyncio.to_thread(self.watch_health)
        for each in clients:
            each.cancel()
        for found in await asyncio.gather(*clients, return_exceptions=True):
            if found is not None and not isinstance(found, asyncio.CancelledError):
                raise found


async def leave_soon(reader):
    await asyncio.sleep(0.05)


def send_crowd(server, seconds, seed, quick=120, readers=40, writers=40):
    """Let so many clients come for some seconds; return what they met."""
    crowd = Crowd(server.port, time.monotonic() + seconds, random.Random(seed))
    asyncio.run(crowd.come(quick, readers, writers))
    return crowd


def wrong_answers(crowd):
    """A status that is not allowed, or a `/health` that was not answered."""
    if strange := {status: count for status, count in crowd.statuses.items() if status not in ALLOWED}:
        return f"statuses {strange} among {dict(crowd.statuses)}"
    if not crowd.statuses[200]:
        return f"nobody was answered: {dict(crowd.statuses)}, {crowd.closed} closed"
    if missed := crowd.health.count(float("inf")):
        return f"/health was not answered {missed} times of {len(crowd.health)}"
    return ""


def seconds_until_it_stops(server, most=5.0):
    """Go away in the middle of a long text; return the seconds until the server computes no more."""
    async def begin_and_leave():
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request("/v1/completions", LONG))
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 30)
        await asyncio.wait_for(reader.readuntil(b"data:"), 30)
        writer.transport.abort()

    asyncio.run(begin_and_leave())
    began, last, quiet = time.monotonic(), server.seconds_of_cpu(), None
    while time.monotonic() - began < most:
        time.sleep(0.05)
        now = server.seconds_of_cpu()
        if now - last >= 0.02:                               # two ticks of the clock of a process
            quiet = None
        elif quiet is None:
            quiet = time.monotonic() - began
        if quiet is not None and time.monotonic() - began - quiet > 0.4:
            return quiet
        last = now
    return most
