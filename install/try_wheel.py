"""Install the wheel into an empty environment outside the tree, and use it there: `try_wheel.py [WHEEL]`.

    python install/try_wheel.py                            # builds the wheel first; with the Python that runs this
    python install/try_wheel.py dist/regard-0.1.0-py3-none-any.whl --python python3.12 --json

A virtual environment is made in a folder of its own, so that nothing of the repository can be imported. There Regard
trains on a text, translates, serves a page on loopback and writes the lab's report. Each step has a limit of time, and
its seconds are printed. The folder is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from requirements import CONSTRAINTS, ROOT

BIN, SUFFIX = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
TEXT = "".join(f"Line {n}: Anna has {n % 7} red apples, and Ben eats {n % 3} of them.\n" for n in range(4000))
LIMIT = 900.0                                  # seconds for a step, but for the installation
INSTALL_LIMIT = 3600.0
PAGES = ("/", "/health", "/v1/models")


class Failed(Exception):
    """A step did not do what it should, in one line."""


class Trial:
    """An empty environment, and what was done in it."""

    def __init__(self, folder: Path, python: str, pip: list[str]):
        self.folder, self.python, self.pip = folder, python, pip
        self.work = folder / "work"
        self.work.mkdir()
        self.steps: list[dict[str, float | str]] = []

    def program(self, name: str) -> str:
        return str(self.folder / "venv" / BIN / f"{name}{SUFFIX}")

    def step(self, name: str, act: Callable[[], str]) -> None:
        """Do a step and print its seconds, with what it says of itself."""
        began = time.monotonic()
        said = act()
        seconds = time.monotonic() - began
        self.steps.append({"step": name, "seconds": round(seconds, 1), "said": said})
        print(f"{name:<22} {seconds:7.1f} s   {said}", file=sys.stderr, flush=True)

    def run(self, *command: str, limit: float = LIMIT) -> str:
        """Run a program in the empty folder; return what it printed."""
        done = subprocess.run(command, cwd=self.work, env=clean_environment(), capture_output=True, text=True,
                              encoding="utf-8", timeout=limit)
        if done.returncode:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def regard(self, *arguments: str) -> str:
        return self.run(self.program("regard"), *arguments)

    # ------------------------------------------------------------------------------------------- the steps

    def make_environment(self) -> str:
        self.run(self.python, "-m", "venv", str(self.folder / "venv"))
        return self.run(self.program("python"), "--version").strip()

    def install(self, wheel: Path) -> str:
        self.run(self.program("python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--constraint", str(CONSTRAINTS), *self.pip, f"{wheel}[web]", limit=INSTALL_LIMIT)
        asked = "import regard, torch; print(regard.__file__, regard.__version__, torch.__version__)"
        place, version, torch = self.run(self.program("python"), "-c", asked).split()
        if ROOT in Path(place).parents:
            raise Failed(f"regard was imported from {place}, not from the wheel")
        return f"regard {version}, torch {torch}"

    def demo(self, minutes: float) -> str:
        told = json.loads(self.regard("demo", "--json", "--minutes", str(minutes), "--out", "runs/demo"))
        if not told["bleu"] > 1:
            raise Failed(f"BLEU of the demo is {told['bleu']:.1f}: nothing was learned")
        return f"BLEU {told['bleu']:.1f}, {told['exact_match']:.0%} exactly right"

    def translate(self) -> str:
        (self.work / "french.txt").write_text("Le chien voit la petite maison.\n", encoding="utf-8")
        return self.regard("translate", "runs/demo", "french.txt").strip()

    def train(self, minutes: float) -> str:
        (self.work / "text.txt").write_text(TEXT, encoding="utf-8")
        self.regard("train", "lm", "text.txt", "--minutes", str(minutes), "--out", "runs/text")
        loss = json.loads((self.work / "runs/text/test.json").read_text("utf-8"))["test_loss"]
        if not loss < 1.0:                     # nats a character; such lines are learned within seconds
            raise Failed(f"the loss on held-out lines is {loss:.2f}: nothing was learned")
        return f"held-out loss {loss:.3f}"

    def serve(self, *runs: str) -> str:
        with self.serving(*runs) as address:
            found = [fetch(address + page) for page in PAGES]
            names = [model["id"] for model in json.loads(found[-1])["data"]]
            if not names:
                raise Failed("the server has no model")
            if "text" in names:
                body = {"model": "text", "prompt": "Line 7: Anna", "max_tokens": 12, "seed": 1}
                written = json.loads(fetch(f"{address}/v1/completions", body))["choices"][0]["text"]
                return f"{', '.join(names)}; wrote {written.strip()!r}"
        return ", ".join(names)

    @contextmanager
    def serving(self, *runs: str) -> Iterator[str]:
        """A server on loopback at a free port, stopped at the end."""
        command = [self.program("regard"), "serve", *runs, "--port", "0"]
        with subprocess.Popen(command, cwd=self.work, env=clean_environment(), stdout=subprocess.PIPE, text=True,
                              encoding="utf-8") as server:
            try:
                assert server.stdout is not None
                first = server.stdout.readline()
                if " at http://127.0.0.1:" not in first:
                    raise Failed(f"regard serve said {first!r}")
                yield first.split(" at ")[1].split()[0].rstrip("/")
            finally:
                server.terminate()
                server.wait(LIMIT)

    def report_lab(self) -> str:
        self.regard("lab", "report", "claims.html")
        page = (self.work / "claims.html").read_text("utf-8")
        charts = page.count("data:image/svg+xml")
        if charts < 30:
            raise Failed(f"the lab's report has {charts} charts")
        return f"{len(page) / 2**20:.1f} MB, {charts} charts"


def fetch(address: str, body: dict[str, object] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))      # loopback needs no proxy
    with opener.open(request, timeout=LIMIT) as answer:
        return answer.read().decode()


def clean_environment() -> dict[str, str]:
    """Without what would lead to another Regard or another cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REGARD", "VIRTUAL"))}
    return kept | {"PYTHONUTF8": "1"}


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check",
               "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("regard-*.whl")
    return wheel


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", type=Path, help="built where none is given")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--minutes", type=float, default=1.9, help="for each of the two trainings")
    parser.add_argument("--pip", action="append", default=[], metavar="OPTION", help="for pip install: --pip=--no-deps")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="regard-wheel-"))
    try:
        wheel = (given.wheel or build_wheel(folder)).resolve()
        trial = Trial(folder, given.python, given.pip)
        trial.step("environment", trial.make_environment)
        trial.step("install", lambda: trial.install(wheel))
        trial.step("info", lambda: trial.regard("info").splitlines()[0].split(",")[0])
        trial.step("demo", lambda: trial.demo(given.minutes))
        trial.step("translate", trial.translate)
        trial.step("train lm", lambda: trial.train(given.minutes))
        trial.step("serve, own runs", lambda: trial.serve("runs/text", "runs/demo"))
        trial.step("serve, small models", lambda: trial.serve())
        trial.step("lab report", trial.report_lab)
    except (Failed, subprocess.TimeoutExpired) as failed:
        print(f"failed: {failed}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        print(json.dumps({"wheel": wheel.name, "bytes": given.wheel and wheel.stat().st_size, "steps": trial.steps}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
