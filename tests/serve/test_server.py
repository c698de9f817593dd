"""The connections: those that say nothing are closed, and so are those that take nothing."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from regard.errors import SettingError
from regard.serve import server as served
from regard.serve.server import address_of, listen

from .conftest import wait_until


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(served, "PATIENCE", 0.3)


def closed(connection):
    """Whether the other side hangs up."""
    connection.settimeout(10)
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("said", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_who_does_not_finish_the_head_is_hung_up_on(running, said):
    with socket.create_connection(("127.0.0.1", running().port)) as connection:
        connection.sendall(said)
        began = time.monotonic()
        assert closed(connection) and time.monotonic() - began < 5


def test_the_next_request_on_a_connection_has_its_time_too(running):
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running().port)) as connection:
        for _ in range(2):
            connection.sendall(whole)
            answer = b""
            while not answer.endswith(b'"ok"}'):
                answer += connection.recv(65536)
        connection.sendall(whole[:10])
        assert closed(connection)


def test_a_request_that_takes_longer_than_a_head_may_is_answered(running, registry, monkeypatch):
    model = registry.get("stories-transformer").trained.language_model
    step = model.step

    def slow(*args):
        time.sleep(0.1)
        return step(*args)

    monkeypatch.setattr(model, "step", slow, raising=False)
    body = b'{"model": "stories-transformer", "prompt": "Tom", "max_tokens": 10, "temperature": 0}'
    with socket.create_connection(("127.0.0.1", running().port)) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.settimeout(20)
        assert b"200 OK" in connection.recv(65536)


def test_who_does_not_take_an_answer_is_hung_up_on(running):
    server = running()

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(50_000_000)})

    server.server.config.loaded_app = large
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        wait_until(lambda: len(server.server.server_state.connections) == 1, "it is connected")
        wait_until(lambda: not server.server.server_state.connections, "it is hung up on")


def test_too_many_headers_are_refused(running):
    with socket.create_connection(("127.0.0.1", running().port)) as connection:
        connection.settimeout(10)
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-Long: aaaaaaaaaaaaaaa\r\n" * 5_000)
            answer = connection.recv(65536)
        except ConnectionError:                            # it did not even listen to the end
            return
        assert b"400" in answer or answer == b""


WHOLE = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SLOW = (b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 900000\r\n\r\n{")


def ask(port, said=WHOLE % b"/health", seconds=10):
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(said)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return int(answer.split()[1])


@pytest.mark.parametrize("headers", [b"a:\r\n" * 10_000, b"a:\r\n" * 99, b"X: " + b"a" * 40_000 + b"\r\n"])
def test_many_headers_are_refused_in_one_packet_too(running, headers):
    said = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + b"\r\n"
    with suppress(ConnectionError):                        # it did not even listen to the end
        assert ask(running().port, said) in (400, 431)
    assert ask(running().port) == 200


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(served, "CONNECTIONS", 12)
    monkeypatch.setattr(served, "PATIENCE", 10.0)


@pytest.mark.parametrize("said", [b"", b"GET /health HT", SLOW])
def test_slow_clients_keep_nobody_out(running, few, said):
    """More of them than there are connections, and each sends a byte now and then; new ones come all the time."""
    port, slow = running().port, []
    for round in range(20):
        for connection in slow:
            with suppress(ConnectionError):                  # hung up on
                connection.sendall(b" ")
        for _ in range(20 if round == 0 else 2):
            slow.append(socket.create_connection(("127.0.0.1", port)))
            slow[-1].sendall(said)
            time.sleep(0.01)
        assert ask(port) == 200
        if round % 5 == 0:
            assert ask(port, WHOLE % b"/api/models") == 200
    for connection in slow:
        connection.close()


def test_who_is_being_answered_is_not_hung_up_on(running, few, registry, monkeypatch):
    """While all connections are being answered, `/health` is, and everybody else is told to come again."""
    server, let_go = running(), threading.Event()
    inner = server.server.config.loaded_app

    async def long(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/long":
            while (await receive()).get("more_body"):
                pass
            while not let_go.is_set():
                await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})
        else:
            await inner(scope, receive, send)

    server.server.config.loaded_app = long
    busy = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    for connection in busy:
        connection.sendall(WHOLE % b"/long")
    wait_until(lambda: len(server.server.server_state.tasks) == 12, "all are being answered")
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.sendall(SLOW)
    assert ask(server.port) == 200
    let_go.set()
    for connection in busy:
        assert b" 200 " in connection.recv(65536)
        connection.close()
    slow.close()


def test_the_client_with_the_most_connections_makes_room(monkeypatch):
    """A client with one connection keeps it, though it is the one that has kept us waiting for longest."""

    class Transport:
        closed = False

        def is_closing(self):
            return self.closed

        def abort(self):
            self.closed = True

    def connection(host, since, waiting=True):
        made = served.Impatient.__new__(served.Impatient)
        made.client, made.since, made.transport = (host, 1), since, Transport()
        made.had_grace = since < 4.0
        made.keeps_us_waiting = lambda: waiting and not made.transport.closed
        return made

    monkeypatch.setattr(served, "CONNECTIONS", 4)
    first = connection("9.9.9.1", 0.0)
    many = [connection("9.9.9.2", at, waiting=at != 1) for at in (1, 2, 3)]
    last = connection("9.9.9.3", 4.0)
    connections = {first, *many, last}
    for each in connections:
        each.connections = connections
    assert last.make_room() == 0
    assert [each.transport.closed for each in (first, *many, last)] == [False, False, True, False, False]


def test_a_burst_of_clients_is_read_before_anybody_is_hung_up_on(running, monkeypatch):
    """More than there are connections, at once: each has sent its request, and each is answered. A busy machine takes
    longer than the real grace and patience for a hundred of them."""
    monkeypatch.setattr(served, "CONNECTIONS", 20)
    monkeypatch.setattr(served, "GRACE", 60.0)
    monkeypatch.setattr(served, "PATIENCE", 60.0)
    port, clients = running().port, []
    for _ in range(100):
        clients.append(socket.create_connection(("127.0.0.1", port), timeout=20))
    try:
        for each in clients:
            each.sendall(WHOLE % b"/health")
        assert {each.recv(65536).split()[1] for each in clients} == {b"200"}
    finally:
        for each in clients:
            each.close()


def test_a_loop_that_was_held_up_reads_what_has_come_before_it_hangs_up(running, monkeypatch):
    """Each client that comes holds it up for longer than the grace: those before have sent their requests."""
    made = served.Impatient.connection_made

    def slowly(self, transport):
        made(self, transport)
        time.sleep(0.15)

    monkeypatch.setattr(served, "CONNECTIONS", 2)
    server = running()
    monkeypatch.setattr(served.Impatient, "connection_made", slowly)
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                   for _ in range(8)]
        for each in clients:
            each.sendall(WHOLE % b"/health")
        assert [each.recv(65536).split()[1] for each in clients] == 8 * [b"200"]


def test_where_it_listens():
    with listen("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        assert address_of(one, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert address_of(one, "::1") == f"http://[::1]:{port}"
        with pytest.raises(SettingError, match="try another --port"):
            listen("127.0.0.1", port)
