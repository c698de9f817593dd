"""Generation memory: a recurrence carries one state, however long the text; attention carries every key and value.

    RNN, SSM        state: layers x hidden numbers                                the same for every T
    Transformer     key/value cache: layers x T x 2 x width numbers               grows with T

The state is what our models carry from one word to the next, and its bytes are counted. The speed is that of writing
words one after another behind a text of T words: on a GPU behind many such texts at once, since behind a single one it
would measure how long a kernel takes to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.stopwatch import exponent, seconds
from regard.lab.tiny import language_model

VOCAB = 32
WIDTH = 64
WRITTEN = 16                               # words written at each length
LONGEST = {"cpu": 16384, "cuda": 65536}    # words read before
TEXTS = {"cpu": 1, "cuda": 32}             # written at once
SETTINGS: dict[str, dict[str, Any]] = {
    "rnn": dict(layers=2, hidden=WIDTH), "gru": dict(layers=2, hidden=WIDTH), "lstm": dict(layers=2, hidden=WIDTH),
    "linear-rnn": dict(layers=2), "mamba": dict(layers=2),
    "transformer": dict(layers=2, heads=2, positions="alibi", context=2 * max(LONGEST.values()))}
FLIPPED: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("window", "transformer"): ("transformer", SETTINGS["transformer"] | {"window": 32}),
    ("state", "rnn"): ("hybrid", SETTINGS["transformer"] | {"pattern": ("rnn", "attention")})}


def lengths(setting: Setting) -> tuple[int, ...]:
    return tuple(LONGEST[setting.device] // 4**at for at in (3, 2, 1, 0))


@torch.no_grad()
def measured(setting: Setting, family: str) -> Values:
    along = lengths(setting)
    family, own = FLIPPED.get((setting.flipped, family), (family, SETTINGS[family]))
    model = language_model(family, VOCAB, setting.device, width=WIDTH, **own).eval()
    sizes, speeds = [], []
    for length in along:
        sizes.append(model.start(1, length).nbytes() / 1024)
        speeds.append(WRITTEN / writing_time(model, length, setting))
    return {"lengths": list(along), "kilobytes": sizes, "words a second": speeds, "growth": exponent(along, sizes),
            "slower": speeds[0] / speeds[-1]}


def after(model: Any, length: int, room: int, texts: int = 1) -> Any:
    """A state as if `length` words had been read, with room for more: the cost of a word does not depend on which.

    What counts is set to the length, and what was computed is drawn: to read 16,384 words takes longer than to write.
    """
    state = model.start(texts, length + room)
    return state.map(lambda each: torch.randn_like(each) if each.is_floating_point() else torch.full_like(each, length))


def writing_time(model: Any, length: int, setting: Setting) -> float:
    """Seconds to write some words behind a text, each chosen as the likeliest after the one before."""
    repeats, texts = setting.pick(5, 3), TEXTS[setting.device]
    state = after(model, length, WRITTEN * (repeats + 1), texts)
    word = torch.full((texts, 1), 4, device=setting.device)

    def write() -> None:
        nonlocal state, word
        for _ in range(WRITTEN):
            said, state = model.step(word, state)
            word = said.argmax(-1, keepdim=True)

    return seconds(write, setting.device, repeats=repeats)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    along = seeds[0]["rnn"]["lengths"]
    ways = {"kilobytes": ("What is carried from word to word", "KiB"),
            "words a second": ("Writing one word after another", "words a second, of each text")}
    return [Chart(title, "words read so far, T", unit,
                  [Line(name, along, column(seeds, name, key)) for name in SETTINGS], log_x=True, log_y=True)
            for key, (title, unit) in ways.items()]


RECURRENT = tuple(name for name in SETTINGS if name != "transformer")

EXPERIMENT = Experiment(
    name="generation-memory", number=6, title="Memory of generation",
    claim="The state of an RNN or SSM is of one size; a Transformer's key/value cache grows with the text, and writing "
          "slows down with it.",
    source="lecture 003: for generation RNNs have a small hidden state, so they require less memory",
    equation="state: O(1) against O(T)",
    refuted="a recurrent state that grows, a cache that does not, or a Transformer that writes as fast after a long "
            "text",
    flips=(Flip("window", "lets the Transformer keep the last 32 words only", arms=("transformer",)),
           Flip("state", "lets the RNN attend to its own past: one layer of it becomes attention", arms=("rnn",))),
    arms=tuple(Arm(name, lambda s, name=name: measured(s, name)) for name in SETTINGS),          # type: ignore[misc]
    rules=(Rule("the bytes of the Transformer's cache grow with the length of the text to the power",
                lambda s: s["transformer"]["growth"], above=0.9, exact=True, cause="window"),
           Rule("the bytes of the states of RNN, GRU, LSTM, linear RNN and Mamba grow with it to at most the power",
                lambda s: max(abs(s[name]["growth"]) for name in RECURRENT), below=0.001, exact=True, cause="state"),
           Rule("from the shortest text to the longest, writing slows down more for the Transformer than for the RNN, "
                "by a factor of", lambda s: s["transformer"]["slower"] / s["rnn"]["slower"], above=1.3,
                cause="window")),
    fixed=Fixed("2026-11-15", "711a5685b486",
                after="on a GPU 32 texts are written at once, for the reason in the notes"), charts=charts, timing=True,
    notes="Two layers of 64; one text at a time on a CPU, 32 at once on a GPU (with one, an H200 waited for kernels to "
          "start, whatever the length). Bytes are those of one text. The longest text is 64 times the shortest. The "
          "Transformer has ALiBi, so that any length can be read.")
