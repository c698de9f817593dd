"""A command on a hostile run folder, in this process: how it ends, what it takes, and what it touches."""

import ctypes
import hashlib
import io
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.hostile.commands import USES
from tests.hostile.folders import Hostile, place_good, small

SECONDS, MEGABYTES = 1.0, 256            # of a CPU and of memory, beyond what the good folder needs
LONGEST = 2100                           # characters of a line that is told


class Trial:
    """What lasts for a process: what each use takes with a good folder, and the watch."""

    def __init__(self, kept: Path):
        from tests.hostile.watched import Watch

        self.kept, self.seconds = kept, {}
        os.environ |= {"REGARD_CACHE": str(kept / "cache"), "MPLCONFIGDIR": str(kept / "matplotlib"),
                       "HF_HOME": str(kept / "hf"), "HF_ENDPOINT": "http://127.0.0.1:9", "HF_TOKEN": "hf_none",
                       "TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        from huggingface_hub import constants

        constants.ENDPOINT = os.environ["HF_ENDPOINT"]       # where it was imported before, it has read the environment
        sys.dont_write_bytecode = True
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(-8, 1)                 # one arena: each thread's own counts 64 MB of addresses
        import torch

        torch.set_num_threads(1)
        self.watch = Watch()

    def run(self, seed, use, folder):
        """What was wrong, in one line; None where nothing was."""
        if use not in self.seconds:
            self.measure(use, folder / "good")
        hostile = Hostile(seed, use.run, folder / "case")
        before = snapshot(hostile.outside)
        words = [hostile.word if word == "RUN" else "good" if word == "GOOD" else word for word in use.words]
        self.watch.start((hostile.here, self.kept, os.environ.get("TMPDIR", "/tmp")), hostile.here)
        with bounded(SECONDS + 2 * self.seconds[use]):
            ended = call(words, hostile.here)
        breaches = self.watch.stop()
        wrong = ended.wrong() or "; ".join(breaches[:3])
        if not wrong and hostile.mark.exists():
            wrong = "code of the folder ran"
        if not wrong and snapshot(hostile.outside) != before:
            wrong = "what lies outside was changed"
        return wrong and f"{use.name} ({', '.join(hostile.acts)}): {wrong}"

    def measure(self, use, folder):
        """The seconds of CPU that the good folder takes, once everything is imported; it must be done."""
        for again in range(2):
            place_good(folder / str(again) / "here", use.run)
            words = ["run" if word == "RUN" else "good" if word == "GOOD" else word for word in use.words]
            began = time.process_time()
            ended = call(words, folder / str(again) / "here")
            took = time.process_time() - began
            if ended.wrong() or (ended.code and not use.refused):
                raise AssertionError(f"{use.name} with a good folder: {ended.code} {ended.wrong()} {ended.err[-1500:]}")
            if took < 0.1:
                break
        self.seconds[use] = took
        shutil.rmtree(folder)


class Ended:
    """How a command ended."""

    def __init__(self, code, err, trace, out):
        self.code, self.err, self.trace, self.out = code, err, trace, out

    def wrong(self):
        if self.trace:
            return "traceback: " + self.trace.replace("\n", " | ")[-1200:]
        lines = self.err.removesuffix("\n").split("\n") if self.err else []
        if self.code not in (0, 1, 2):
            return f"ended with {self.code}: {self.err[-300:]!r}"
        if re.search(r"\bnan\b", self.out, re.I) and not self.code:
            return f"tells of nan: {self.out[-300:]!r}"
        if self.code and not (lines and lines[-1].startswith(("regard: ", "Error: "))):
            return f"ended with {self.code}, and did not say why: {self.err[-300:]!r}"
        told = [line for line in lines if not line.isprintable() or len(line) > LONGEST or "Traceback" in line
                or "Warning" in line]
        return f"a line that is no plain line: {told[0][:300]!r}" if told else ""


def call(words, here):
    """Run a command in this folder."""
    from regard.cli import main

    place, path, out, err = os.getcwd(), list(sys.path), sys.stdout, sys.stderr
    shown, handlers = warnings.showwarning, {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    told = io.StringIO()
    written = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape")
    sys.stdout, sys.stderr, sys.stdin = written, told, io.TextIOWrapper(io.BytesIO(), "utf-8")
    os.chdir(here)
    code, trace = 0, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            ASKED.get(words[0], main)(words)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        trace = traceback.format_exc()
    finally:
        os.chdir(place)
        sys.path[:], sys.stdout, sys.stderr, warnings.showwarning = path, out, err, shown
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for name in [name for name, module in sys.modules.items()
                     if str(getattr(module, "__file__", None) or "").startswith(str(here))]:
            del sys.modules[name]
    written.flush()
    return Ended(code, told.getvalue(), trace, written.buffer.getvalue().decode(errors="replace"))


def ask(words):
    """Serve the folder, and send it a request of each kind; an answer is one of the model, or a plain refusal."""
    import click
    from starlette.testclient import TestClient

    from regard.errors import RegardError, one_line
    from regard.serve.app import make_app
    from regard.serve.registry import Registry

    try:
        registry = Registry([words[1]], device="cpu", lenient=True)
    except RegardError as mistake:
        click.echo(f"regard: {one_line(str(mistake))}", err=True)
        sys.exit(mistake.exit_code)
    with TestClient(make_app(registry), base_url="http://127.0.0.1") as client:
        id = next(iter(registry.models), "run")
        answers = [client.get(path) for path in ("/health", "/v1/models", "/api/runs", f"/api/runs/{id}", "/languages")]
        answers += [client.post(path, json=body) for path, body in (
            ("/v1/completions", {"model": id, "prompt": "cat", "max_tokens": 3}),
            ("/api/look", {"model": id, "text": "cat"}), ("/api/next", {"model": id, "text": "cat"}),
            ("/translate", {"q": "chat", "source": "auto", "target": "en"}))]
    for answer in answers:
        if answer.status_code >= 500 and answer.status_code != 503:
            raise AssertionError(f"{answer.request.url} answers {answer.status_code}: {answer.text[:500]}")


def serve(words):
    """`regard serve` until it would wait for requests."""
    import regard.serve.server
    import regard.serve.stop_signals
    from regard.cli import main

    put = {regard.serve.server: "serve", regard.serve.stop_signals: "StopSignals"}
    were = {module: getattr(module, name) for module, name in put.items()}
    regard.serve.server.serve = lambda listening, *_: listening.close()
    regard.serve.stop_signals.StopSignals = NoSignals
    try:
        main(words)
    finally:
        for module, name in put.items():
            setattr(module, name, were[module])


class NoSignals:
    """In the place of those that end the process."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def check(self):
        pass

    end = check


ASKED = {"ASK": ask, "serve": serve}


@contextmanager
def bounded(seconds):
    """So many seconds of CPU, by a signal that ends the process, and so much more memory than now."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEGABYTES * 2**20, hard))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def snapshot(folder):
    """Every name, kind and content below a folder."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest() if small(path)
            else path.lstat().st_mode for path in sorted(folder.rglob("*"))}


def use_of(seed, first=6, later=100):
    """Which use a seed is of: in CI some of each, in the soak many of one before the next, which must be measured."""
    few = first * len(USES)
    return USES[seed // first if seed < few else (seed - few) // later % len(USES)]
