"""`regard serve`: starts quickly, says where, stops cleanly; mistakes are one line."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

REGARD = [sys.executable, "-c", "from regard.cli import main; main()"]


class Served:
    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen(
            [*REGARD, "serve", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
        self.line = self.process.stdout.readline()
        self.address = re.search(r"http://\S+", self.line)[0]

    def get(self, path, **headers):
        return urllib.request.urlopen(urllib.request.Request(self.address.split("?")[0].rstrip("/") + path,
                                                             headers=headers), timeout=60)

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_serves_and_stops_with_a_line(runs, how):
    served = Served(runs / "transformer", runs / "ngram", "--port", 0)
    assert served.line.startswith("2 models at http://127.0.0.1:") and "token" not in served.line
    assert b'"ok"' in served.get("/health").read()
    assert b"transformer" in served.get("/api/models").read()
    code, out, err = served.stop(how)
    assert (code, out) == (0, "stopped\n") and "Traceback" not in err, err


def test_it_stops_while_somebody_is_written_to(runs):
    served = Served(runs / "transformer", "--port", 0)
    ask = urllib.request.Request(
        f"{served.address}v1/completions", headers={"content-type": "application/json"},
        data=b'{"model": "transformer", "max_tokens": 4000, "temperature": 0, "stream": true}')    # greedy has no end
    reader = urllib.request.urlopen(ask, timeout=60)
    reader.readline()
    began = time.monotonic()
    code, out, err = served.stop()
    assert (code, out) == (0, "stopped\n") and time.monotonic() - began < 10, err
    assert b"the server is stopping" in reader.read() and err == ""


def test_elsewhere_than_on_loopback_a_token_is_made_and_told_once(runs):
    served = Served(runs / "ngram", "--port", 0, "--host", "0.0.0.0", REGARD_TEST_NAMES="0.0.0.0")
    try:
        token = re.search(r"\?token=([\w-]{43})", served.line)[1]
        port = re.search(r":(\d+)/", served.line)[1]
        address = f"http://127.0.0.1:{port}"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/api/models", timeout=60)
        assert refused.value.code == 401
        asked = urllib.request.Request(f"{address}/api/models", headers={"Authorization": f"Bearer {token}"})
        assert b"ngram" in urllib.request.urlopen(asked, timeout=60).read()
        assert urllib.request.urlopen(f"{address}/health", timeout=60).status == 200
    finally:
        _, out, err = served.stop()
    assert token not in out + err and "TLS" in err


def test_a_token_of_ones_own_comes_from_the_environment(runs):
    served = Served(runs / "ngram", "--port", 0, REGARD_TOKEN="a-token-of-the-tests-own")
    with pytest.raises(urllib.error.HTTPError):
        served.get("/api/models")
    assert served.get("/api/models", Authorization="Bearer a-token-of-the-tests-own").status == 200
    served.stop()


def test_without_a_run_the_small_models_that_come_along_are_served(tmp_path):
    served = Served("--port", 0)
    assert served.line.startswith("4 models at http://127.0.0.1:")
    assert b"stories-transformer" in served.get("/api/models").read()
    code, out, err = served.stop()
    assert (code, out) == (0, "stopped\n") and err.startswith("(no run was named: these are the small models")


def test_all_runs_of_a_folder_are_served(runs, tmp_path):
    shutil.copytree(runs / "ngram", tmp_path / "good")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "run.toml").write_text((runs / "ngram" / "run.toml").read_text())
    served = Served("--runs", tmp_path, "--port", 0)
    assert served.line.startswith("1 model at ")
    served.stop()


def test_a_damaged_run_of_a_folder_is_said_and_left_out(regard, runs, tmp_path):
    for name in ("good", "bad"):
        shutil.copytree(runs / "ngram", tmp_path / name)
    (tmp_path / "bad" / "run.toml").write_text("[run")
    served = Served("--runs", tmp_path, "--port", 0)
    assert served.line.startswith("1 model at ")
    assert b"bad" in served.get("/api/models").read() and served.get("/api/runs").status == 200
    _, _, err = served.stop()
    assert re.fullmatch(r"\(bad is left out: run\.toml is not a TOML file: [^\n]+\)\n", err), err
    (tmp_path / "good" / "run.toml").write_text("[run")
    assert regard("serve", "--runs", tmp_path).err.splitlines()[-1].startswith("regard: no run in ")


def test_a_signal_that_comes_while_it_starts_is_not_lost(runs):
    at_once = """
import os, signal
import uvicorn
from regard.cli import main
real = uvicorn.Server.run
uvicorn.Server.run = lambda self, sockets=None: os.kill(os.getpid(), signal.SIGINT) or real(self, sockets)
main()
"""
    done = subprocess.run([sys.executable, "-c", at_once, "serve", runs / "ngram", "--port", "0"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("\nstopped\n"), done.stderr


def test_help_imports_nothing_slow():
    asked = """
import sys
from regard.cli import main
try:
    main(["serve", "--help"])
except SystemExit:
    pass
print([name for name in ("torch", "numpy", "fastapi", "uvicorn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]" and "--token" in done.stdout, done.stderr


# ------------------------------------------------------------------------------------------- mistakes


def test_a_wrong_run_is_one_line(regard, runs, here):
    assert "there is no run at nothing" in regard("serve", "nothing").mistake()
    assert "is not a run folder" in regard("serve", ".").mistake()
    (here / "empty").mkdir()
    assert "no finished run in empty" in regard("serve", "--runs", "empty").mistake()
    assert "--runs nowhere: there is no such folder" in regard("serve", "--runs", "nowhere").mistake()
    assert "--lab nowhere" in regard("serve", runs / "ngram", "--lab", "nowhere").mistake()


def test_a_short_token_is_one_line(regard, runs):
    assert "at least 16" in regard("serve", runs / "ngram", "--token", "short").mistake()


def test_a_port_in_use_is_one_line(regard, runs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1, port {port}" in regard("serve", runs / "ngram", "--port", port).mistake()


def test_an_address_that_is_none_is_one_line(regard, runs, monkeypatch):
    monkeypatch.setenv("REGARD_TEST_NAMES", "no.such.host.invalid")
    said = regard("serve", runs / "ngram", "--host", "no.such.host.invalid", "--token", "a-token-of-the-tests-own")
    assert "cannot listen at no.such.host.invalid" in said.mistake()


def test_without_the_extra_the_cure_is_told(runs):
    asked = f"""
import sys
sys.modules["fastapi"] = None
from regard.cli import main
main(["serve", {str(runs / "ngram")!r}])
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "regard: serving needs more than is installed (fastapi): pip install 'regard[web]'\n"
