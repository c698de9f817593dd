"""The connections: those that say nothing are closed, and so are those that take nothing."""

import socket
import time

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


def test_where_it_listens():
    with listen("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        assert address_of(one, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert address_of(one, "::1") == f"http://[::1]:{port}"
        with pytest.raises(SettingError, match="try another --port"):
            listen("127.0.0.1", port)
