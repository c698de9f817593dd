"""Measurements of a trained model beside its loss: speed, state, cost against length, and samples of its text.

Every measurement is bounded in time: a long length that would take too long is left out, and its point is missing.
B batch · T time · L length
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.contract import LanguageModel
from regard.data.reading.shards import Shard
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.stream import generate_tokens
from regard.errors import note
from regard.run_folder import read_log
from regard.tasks.lm.trained import Trained

STATE_LENGTHS = (128, 1024, 8192)
LENGTHS = tuple(2**n for n in range(5, 14))          # 32 .. 8192, of the plots
GENERATED = 256                                      # tokens written for the rate of generation
SAMPLED = 240                                        # tokens of sample text
LONGEST = 2.0                                        # seconds one point may take before no longer length is tried
STEPS = 9                                            # steps timed at each position
POINTS = 200                                         # of a training curve that are kept


# ------------------------------------------------------------------------------------------- training


def read_metrics(path: Path) -> list[dict[str, Any]]:
    rows, damaged = read_log(path)
    whole = [row for row in rows if "tokens" in row and "seconds" in row]
    if damaged := damaged + len(rows) - len(whole):
        note(f"{damaged:,} of the lines of {path} could not be read, and are not in the figures")
    return whole


def training_rate(rows: list[dict[str, Any]]) -> float | None:
    """Tokens a second between two rows of training; validations and what follows them are left out."""
    tokens = seconds = 0.0
    last: dict[str, Any] | None = None
    for row in rows:
        if "train_loss" in row and last is not None:
            tokens += row["tokens"] - last["tokens"]
            seconds += row["seconds"] - last["seconds"]
        last = row if "train_loss" in row else None
    if seconds > 0:
        return tokens / seconds
    return rows[-1]["tokens"] / rows[-1]["seconds"] if rows and rows[-1]["seconds"] > 0 else None


def curve(rows: list[dict[str, Any]], judged: tuple[str, str] | None = None) -> dict[str, list[list[float]]]:
    """[tokens, seconds, loss] of every validation, and of training, averaged over stretches of rows. `judged` is the
    key and the name of what validation measures beside the loss, if it measures anything."""
    keys = ("valid_loss", "train_loss", judged[0] if judged else "")
    valid, train, values = ([[row["tokens"], row["seconds"], row[key]] for row in rows if key in row] for key in keys)
    parts = np.array_split(np.array(train), min(POINTS, len(train))) if train else []
    curves = {"valid": valid, "train": [part.mean(0).tolist() for part in parts]}
    return curves | ({keys[2].removeprefix("valid_"): values} if values else {})


# -------------------------------------------------------------------------------------------- memory


class ResidentPeak:
    """The growth of this process in bytes, from now on to its largest.

    Linux can forget the peak so far, which importing torch may have made; elsewhere growth below it is not seen.
    """

    def __init__(self) -> None:
        with suppress(OSError):                              # else the peak so far stays, and growth is counted from it
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        self.before = _resident_peak()

    def grown(self) -> int | None:
        now = _resident_peak()
        return None if now is None or self.before is None else now - self.before


def _resident_peak() -> int | None:
    """The most memory this process held, in bytes; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def state_bytes(model: LanguageModel, lengths: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Bytes of the state after a text of each length; a bounded model never keeps more than its context."""
    sizes = {}
    for length in lengths:
        bounded = model.context is not None and length > model.context
        with torch.no_grad():
            state = model.start(1, capacity=min(length, model.context or length))
        sizes[str(length)] = {"bytes": state.nbytes() if state is not None else 0, "bounded": bounded}
    return sizes


# --------------------------------------------------------------------------------------------- speed


def _wait(model: LanguageModel) -> None:
    """Wait until the device has done all that was asked of it."""
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def generation_rate(trained: Trained, rows: int, limit: float = 3.0) -> float:
    """Tokens a second over all rows, written from nothing and never ending; up to 256 each, or what `limit` allows."""
    t = trained.tokenizer
    steps = generate_tokens(
        trained.model, [[t.bos]] * rows, new_tokens=GENERATED + 2, banned=(*trained.special_tokens.banned, t.eos))
    next(steps), next(steps)                                           # what is done only once is not counted
    began, count = time.perf_counter(), 0
    for _ in steps:                                                    # each step ends on the host: nothing to wait for
        count += 1
        if time.perf_counter() - began > limit:
            break
    return rows * count / max(time.perf_counter() - began, 1e-9)


def costs(model: LanguageModel, stream: np.ndarray, lengths: tuple[int, ...]) -> dict[str, list[list[float]]]:
    """Against the length: seconds to score a text of it, and seconds to write the token at its end."""
    if isinstance(model, nn.Module):
        model.eval()
    text = torch.from_numpy(np.resize(stream, max(lengths) + 1).astype(np.int64))[None].to(model.device)
    return {"read": points(lengths, lambda length: reading_seconds(model, text[:, : length + 1])),
            "step": points([n for n in lengths if n <= (model.context or n)],
                           lambda length: step_seconds(model, text[:, :length]))}


def points(lengths: Any, measure: Callable[[int], tuple[float, float]]) -> list[list[float]]:
    """[length, seconds] for each length, until one takes too long."""
    measured = []
    for length in lengths:
        seconds, spent = measure(length)
        measured.append([length, seconds])
        if spent > LONGEST:
            break
    return measured


@torch.no_grad()
def reading_seconds(model: LanguageModel, text: Tensor) -> tuple[float, float]:
    """The least time of a few, and all the time taken, to score a text (1, L + 1) once."""
    tokens, targets = text[:, :-1], text[:, 1:]
    if model.context is not None and tokens.shape[1] > model.context:            # in windows, as it is scored in truth
        pieces = tokens.shape[1] // model.context
        tokens, targets = (t[:, : pieces * model.context].reshape(pieces, -1) for t in (tokens, targets))
    times: list[float] = []
    while len(times) < 3 and sum(times) < LONGEST / 2:
        _wait(model)
        began = time.perf_counter()
        model.score(tokens, targets)
        _wait(model)
        times.append(time.perf_counter() - began)
    return min(times), sum(times)


@torch.no_grad()
def step_seconds(model: LanguageModel, text: Tensor) -> tuple[float, float]:
    """The median time of the last few steps of reading (1, L), token by token, and all the time taken."""
    length = text.shape[1]
    state = model.start(1, capacity=length)
    began = time.perf_counter()
    assert state is not None
    _, state = model.step(text[:, : length - STEPS], state)
    times = []
    for at in range(length - STEPS, length):
        _wait(model)
        step_began = time.perf_counter()
        _, state = model.step(text[:, at : at + 1], state)
        _wait(model)
        times.append(time.perf_counter() - step_began)
    return sorted(times)[len(times) // 2], time.perf_counter() - began


# ------------------------------------------------------------------------------------------- writing


def opening(shard: Shard, tokenizer: Tokenizer, longest: int = 40) -> str:
    """The first words of the held-out text, to be continued."""
    first = int(shard.ends[0]) if len(shard.ends) else len(shard.tokens)
    text = tokenizer.decode(shard.tokens[: min(first, 200)])
    text = text[: min(longest, max(1, len(text) // 2))]
    return text.rpartition(" ")[0] or text


def samples(trained: Trained, prompt: str) -> list[dict[str, str]]:
    """Texts written from nothing and after a prompt, from a fixed seed."""
    return [{"prompt": start, "text": trained.generate(start, new_tokens=SAMPLED, temperature=0.8, seed=1)}
            for start in ("", prompt)]


# ------------------------------------------------------------------------------------------- machine


def machine(device: torch.device) -> dict[str, Any]:
    """The machine of the figures, in general words."""
    found = {"processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
             "python": platform.python_version(), "torch": torch.__version__, "system": platform.system(),
             "device": device.type}
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
