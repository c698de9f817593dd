"""Two guards in every Python that the tests start, by the interpreter's own audit events, which nothing passes by.

Nothing is unpickled where code of Regard is on the stack, and nobody is spoken to but this machine. What breaks one of
them raises where it stands, and is noted in a file, so that a test fails whose code swallowed the error.
"""

import os
import sys

NOTED = "REGARD_TEST_GUARD"          # the file in which breaches are noted
NAMED = "REGARD_TEST_NAMES"          # the one address that a test of `--host` may listen at, or ask for
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "regard") + os.sep
# Who may unpickle though Regard called it, and why.
ALLOWED = ("/multiprocessing/",              # processes of one program speak to each other (the lab's clock)
           "/torch/_inductor/", "/torch/_dynamo/", "/torch/_functorch/")     # code kept under a checked SHA-256
HOME = ("localhost", "ip6-localhost", "::1", "::ffff:127.0.0.1")
SPEAKING = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.bind": 1, "socket.getaddrinfo": 0,
            "socket.gethostbyname": 0}                       # events, and where in their values the address stands


class Breach(RuntimeError):
    """A guard of the tests was broken."""


def watch(event, values):
    if event == "pickle.find_class":
        guard_pickles(values)
    elif event in SPEAKING:
        guard_addresses(event, values)


def guard_pickles(values):
    """Between the unpickler and the nearest frame of ours there must be someone who is allowed."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in ALLOWED):
            return
        if name.startswith(OURS):
            tell(f"{name}:{frame.f_lineno} unpickles {'.'.join(map(str, values))}")
        frame = frame.f_back


def guard_addresses(event, values):
    """An address of this machine, a path, or none: a socket that is connected already."""
    address = values[SPEAKING[event]]
    host = address[0] if isinstance(address, tuple) else address if event.startswith("socket.get") else None
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if event in ("socket.bind", "socket.getaddrinfo") and host is not None and host == os.environ.get(NAMED):
        return
    if host is not None and host not in HOME and not host.startswith("127."):
        tell(f"{event} {address!r}")


def tell(breach):
    where = os.environ.get(NOTED)
    if where:
        with open(where, "a", encoding="utf-8") as file:
            file.write(breach + "\n")
    raise Breach(breach)


sys.addaudithook(watch)
