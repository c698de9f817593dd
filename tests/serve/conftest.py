"""Small trained models behind the application, asked in this process or over a real socket."""

import threading
import time

import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

import uvicorn
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.registry import Registry
from regard.serve.server import ServerSettings, configure, listen
from tests.served_runs import shared_folder, train

NAMES = ("stories-transformer", "stories-ngram", "phrasebook")
HOST = "http://127.0.0.1"


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    import torch

    folder = shared_folder(tmp_path_factory)
    train(folder, NAMES)
    torch.set_flush_denormal(False)              # training had them flushed, and Hypothesis wants floats to be whole
    return folder / "runs"


@pytest.fixture(scope="session")
def registry(runs):
    return Registry([runs / name for name in NAMES], device="cpu")


@pytest.fixture
def app(registry):
    return make_app(registry)


@pytest.fixture
def client(app):
    with TestClient(app, base_url=HOST) as client:
        yield client


def client_of(registry, **settings):
    """An application with other settings; what goes wrong inside is answered, not raised."""
    return TestClient(make_app(registry, ServerSettings(**settings)), base_url=HOST, raise_server_exceptions=False)


class Running:
    """A real server on a free port of this machine."""

    def __init__(self, app):
        self.socket = listen("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.app, self.server = app, uvicorn.Server(configure(app))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        wait_until(lambda: self.server.started, "the server starts")

    def stop(self):
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive(), "the server did not stop"


def wait_until(true, what, seconds=20.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.01)


@pytest.fixture
def running(registry):
    """Starts servers, and stops them at the end."""
    started = []

    def start(settings=None, over=registry):
        started.append(Running(make_app(over, settings)))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def line_of(response, status):
    """The one line of a refusal, in its shape."""
    assert response.status_code == status, (response.status_code, response.text)
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and "\n" not in error["message"]
    assert "Traceback" not in error["message"]
    return error["message"]
