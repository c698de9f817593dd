"""The graphs of an export, run by onnxruntime: what they say of texts, at once and step by step.

T time · V vocabulary
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Feeds = dict[str, NDArray[Any]]
ERRORS_ONLY = 3                            # onnxruntime's word for it


class OnnxProgram:
    """The graphs of a folder, opened."""

    def __init__(self, folder: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        self.version: str = onnxruntime.__version__
        self.about: dict[str, Any] = json.loads((folder / "graphs.json").read_text("utf-8"))
        self.sessions = {
            name: onnxruntime.InferenceSession(str(folder / graph["file"]), options, ["CPUExecutionProvider"])
            for name, graph in self.about["graphs"].items()}
        self.asked = 0

    def run(self, name: str, feeds: Feeds) -> list[NDArray[Any]]:
        return self.sessions[name].run(None, feeds)                                    # type: ignore[no-any-return]

    def log_probs(self, tokens: Sequence[int], source: Any) -> NDArray[Any]:
        """(T, V), by the whole graph and by steps in turn, so that both are compared."""
        self.asked += 1
        if "whole" in self.sessions and (self.asked % 2 or "step" not in self.sessions):
            feeds = {"tokens": row(tokens), **self.source(source)}
            if "step" not in self.sessions:
                feeds["lengths"] = np.array([len(tokens)])
            return self.run("whole", feeds)[0][0]                                      # type: ignore[no-any-return]
        state, found = self.start(source), []
        for token in tokens:
            log_probs, state = self.step(token, state)
            found.append(log_probs)
        return np.stack(found)

    def greedy(self, tokens: Sequence[int], count: int, source: Any) -> list[int]:
        """Return the tokens that follow, each the likeliest, up to the end or so many."""
        state = self.start(source)
        written: list[int] = []
        for token in tokens:
            log_probs, state = self.step(token, state)
        while len(written) < count and (not written or written[-1] != self.about["special_tokens"]["end"]):
            if written:
                log_probs, state = self.step(written[-1], state)
            written.append(int(log_probs.argmax()))
        return written

    def start(self, source: Any) -> Feeds:
        given = {"tokens": row([0])} if source is None else self.source(source)
        return dict(zip(self.about["state"], self.run("start", given), strict=True))

    def step(self, token: int, state: Feeds) -> tuple[NDArray[Any], Feeds]:
        log_probs, *after = self.run("step", {"tokens": row([token]), **state})
        return log_probs[0], dict(zip(self.about["state"], after, strict=True))

    def source(self, source: Any) -> Feeds:
        """A source as the graphs read it: the pixels of a picture (3, height, width), or the ids of a text."""
        if source is None:
            return {}
        if isinstance(source, np.ndarray):
            return {"pixels": source[None]}
        return {"source": row(source), "source_lengths": np.array([len(source)])}


def row(ids: Sequence[int]) -> NDArray[np.int64]:
    return np.array([list(ids)], np.int64)
