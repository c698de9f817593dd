"""The guards see what they are there for, in this process and in those that tests start."""

import io
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sitecustomize import ALLOWED, OURS, Breach

ROOT = Path(__file__).parents[2]


class Planted:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return os.getcwd, ()


PICKLE = pickle.dumps(Planted())


def by_torch():
    held = io.BytesIO()
    torch.save({"x": torch.ones(2)}, held)
    return torch.load(io.BytesIO(held.getvalue()), weights_only=False)


def by_numpy():
    held = io.BytesIO()
    np.save(held, np.array([{}], dtype=object), allow_pickle=True)
    return np.load(io.BytesIO(held.getvalue()), allow_pickle=True)


WAYS = {"loads": lambda: pickle.loads(PICKLE), "load": lambda: pickle.load(io.BytesIO(PICKLE)),
        "in Python": lambda: pickle._loads(PICKLE), "Unpickler": lambda: pickle.Unpickler(io.BytesIO(PICKLE)).load(),
        "torch": by_torch, "numpy": by_numpy}


def as_ours(call, below=""):
    """The call as a file of Regard would make it, or somebody whom Regard called."""
    def named(path, inner):
        space = {"call": inner}
        exec(compile("def run():\n    return call()", path, "exec"), space)
        return space["run"]

    return named(OURS + "planted.py", named(below, call) if below else call)


@pytest.fixture
def forgiven(pytestconfig):
    """What was noted, and no longer is."""
    def noted():
        told = pytestconfig.breaches.read_text("utf-8")
        pytestconfig.breaches.write_text("")
        return told

    yield noted
    noted()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_unpickled_by_regard_nor_by_whom_it_calls(way, forgiven):
    WAYS[way]()                                                  # the tests may
    for below in ("", "/elsewhere/package.py"):
        with pytest.raises(Breach, match=r"planted\.py:2 unpickles"):
            as_ours(WAYS[way], below)()
    assert forgiven().count("unpickles") == 2
    as_ours(WAYS[way], f"/lib{ALLOWED[0]}queues.py")()


def test_plain_tensors_are_made_by_torch_without_a_breach():
    held = io.BytesIO()
    torch.save({"x": torch.ones(2)}, held)
    assert as_ours(lambda: torch.load(io.BytesIO(held.getvalue()), weights_only=True))()["x"].sum() == 2


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_nobody_is_spoken_to_but_this_machine(host, forgiven):
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    ways = [lambda: socket.create_connection((host, 9), 0.1), lambda: socket.getaddrinfo(host, 9),
            lambda: socket.gethostbyname(host)]
    if host[0].isdigit():                                        # a name is asked for before an event tells of it
        ways += [lambda: socket.socket(kind).connect((host, 9)),
                 lambda: socket.socket(kind, socket.SOCK_DGRAM).sendto(b"x", (host, 9))]
    for speak in ways:
        with pytest.raises(Breach):
            speak()
    assert forgiven().count(host) == len(ways)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_nobody_else_may_speak_to_a_test(host, forgiven):
    with pytest.raises(Breach), socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as asked:
        asked.bind((host, 0))


def test_this_machine_may_be_spoken_to():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    socket.getaddrinfo("localhost", 80), socket.getaddrinfo(None, 80)
    one, other = socket.socketpair()
    one.close(), other.close()


@pytest.mark.parametrize("line", ["import socket; socket.create_connection(('192.0.2.1', 9), 0.1)",
                                  "import pickle; exec(compile('pickle.loads(data)', ours, 'exec'))"])
def test_a_python_that_a_test_starts_is_watched_too(line, forgiven):
    told = subprocess.run([sys.executable, "-c", f"data, ours = {PICKLE!r}, {OURS + 'planted.py'!r}\n{line}"],
                          capture_output=True, text=True, cwd=ROOT)
    assert told.returncode == 1 and "Breach" in told.stderr and forgiven()
