"""No command opens a connection but those that SECURITY.md names: by what the code imports, and by what commands do."""

import ast
import re
import socket
from pathlib import Path

import pytest

from regard.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
SPEAKERS = {"socket", "ssl", "http.client", "urllib.request", "urllib3", "requests", "httpx", "httpx2", "aiohttp",
            "ftplib", "smtplib", "xmlrpc", "websockets", "huggingface_hub", "wandb", "trackio", "fsspec", "datasets"}
# Who may import what could open a connection, and why.
ALLOWED = {
    "interop/hub.py": {"huggingface_hub"},                     # push, pull and import hub:, and nobody else
    "data/reading/remote.py": {"fsspec"},                      # texts that the user names by an address
    "training/trackers.py": {"wandb", "trackio"},              # --log, which the same paragraph tells of
    "run_lock.py": {"socket"},                                 # the name of this host
    "training/meeting.py": {"socket"},                         # the same; ranks meet by torch.distributed
}
TALKS = {"push", "pull", "import"}                             # commands that reach interop/hub.py


def speakers_of(source: str) -> set[str]:
    """What a file imports of SPEAKERS, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("import_module", "__import__"):
            names = [str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant)]
        else:
            continue
        found |= {known for name in names for known in SPEAKERS if name == known or name.startswith(f"{known}.")}
    return found


def test_only_one_file_can_speak_to_elsewhere():
    found = {path.relative_to(ROOT / "regard").as_posix(): speakers_of(path.read_text("utf-8"))
             for path in (ROOT / "regard").rglob("*.py")}
    serving = {path for path in found if path.startswith(("serve/", "cli/serve"))}          # it listens
    assert {path: names for path, names in found.items() if names and path not in serving} == ALLOWED
    assert set().union(*(found[path] for path in serving)) <= {"socket"}


def test_an_import_that_speaks_is_seen():
    for source in ("import requests", "from urllib import request", "def f():\n    from huggingface_hub import HfApi",
                   "import_module('wandb')", "import http.client as c"):
        assert speakers_of(source), source
    assert not speakers_of("from urllib.parse import urlsplit\nfrom http import HTTPStatus\nfrom .requests import x")


def test_the_page_names_the_commands_that_do():
    (said,) = re.findall(r"^\*\*Nothing leaves the machine unless you say so\.\*\*(.+?)\n\n",
                         (ROOT / "SECURITY.md").read_text("utf-8"), re.M | re.S)
    named = set(re.findall(r"`regard (\w+)[^`]*`", said.partition("No other does")[0]))
    assert named == TALKS and named <= set(COMMANDS)


@pytest.fixture
def connections(monkeypatch):
    """The addresses that anything tries to reach; none is."""
    tried = []

    def refuse(self, address):
        tried.append(address)
        raise OSError("no connection in this test")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: tried.append(asked) or [])
    return tried


def test_a_run_is_trained_used_exported_and_imported_without_a_connection(connections, tmp_path, monkeypatch, capsys):
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("regard.interop.checking.LINES", 2)
    (tmp_path / "text.txt").write_text("the cat sat on the mat and saw a red kite\n" * 200)
    small = ["--steps", "2", "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2"]
    for words in (["train", "lm", "text.txt", "--tokenizer", "bpe", "--vocab", "280", "--out", "run", *small],
                  ["generate", "run", "--tokens", "4"], ["score", "run", "text.txt"], ["show", "run", "the cat"],
                  ["export", "run", "--to", "hf", "-o", "out"], ["import", "out", "-o", "back"],
                  ["data", "show", "text.txt"]):
        main(words)
    assert "checked in transformers" in capsys.readouterr().out and transformers and connections == []


def test_a_connection_that_is_tried_is_seen(connections):
    from urllib.request import urlopen

    with pytest.raises(OSError):
        urlopen("http://127.0.0.1:9/")
    assert connections
