"""Past the end: learned positions stop at the n of training; positions that are computed go on.

    learned        x_t + p_t, a vector for each t <= n that was trained
    sinusoidal     x_t + PE(t), PE_2i(t) = sin(t / 10000^(2i/D)), PE_2i+1(t) = cos of the same
    rotary         (R_t q) . (R_s k) = q . R_(s-t) k: only the distance counts
    ALiBi          q . k - m (t - s): what is far away counts for less

Each model learns our stories letter by letter, in pieces of n letters, and is then given pieces four times as long.
Measured is by how much the loss of a letter grows from the second half of the first n places to the places past them.
The table of learned vectors is given room for 4 n, so that there is something to measure; with room for n it refuses to
go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard.errors import SettingError
from regard.lab.exercises import FIRST, letters, story_text
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tiny import fit, language_model

N, TIMES, BUCKET = 32, 4, 8                # places in training, how much further is read, places averaged over
WIDTH, ROWS = 48, 24
COMPUTED = ("sinusoidal", "rotary", "alibi")
KINDS = ("learned", *COMPUTED)


def trained(setting: Setting, kind: str) -> Values:
    known, _ = story_text(setting.seed)
    model = language_model("transformer", FIRST + len(known), setting.device, layers=2, width=WIDTH, heads=4,
                           context=N * TIMES, positions=kind, embedding_scale="width")
    rows, length = (ROWS // TIMES, N * TIMES) if setting.flipped else (ROWS, N)
    fit(model, lambda step: letters(rows, length, setting.seed, step), setting.pick(450, 220), rate=1e-2)
    losses = loss_by_place(model, setting.seed)
    within, past = losses[N // 2:N], losses[N:]
    buckets = [sum(losses[at:at + BUCKET]) / BUCKET for at in range(0, N * TIMES, BUCKET)]
    return {"losses": buckets, "grows": sum(past) / len(past) - sum(within) / len(within)}


@torch.no_grad()
def loss_by_place(model: Any, seed: int, rows: int = 128) -> list[float]:
    """Nats a letter at each of the 4 n places of pieces that were not learned from."""
    batch = letters(rows, N * TIMES, seed, -1).to(model.device)
    scores, _ = model.score(batch.tokens, batch.targets)
    return [-float(each) for each in scores.mean(0).cpu()]


def refusal(setting: Setting) -> Values:
    """1 if a model with n learned positions refuses to read one letter more than n. Flipped, it has n + 1."""
    known, _ = story_text(setting.seed)
    model = language_model("transformer", FIRST + len(known), setting.device, layers=1, width=8, heads=1,
                           context=N + (setting.flipped == "room"), positions="learned")
    batch = letters(1, N + 1, setting.seed, 0).to(setting.device)
    model.score(batch.tokens[:, :N], batch.targets[:, :N])
    try:
        model.score(batch.tokens, batch.targets)
    except SettingError as refused:
        return {"refuses": 1.0, "says": str(refused)}
    return {"refuses": 0.0, "says": ""}


def beyond_half(seed: Seed, kind: str) -> float:
    """The loss of this kind past n, less half of that of learned positions: nats a letter."""
    return float(seed[kind]["grows"] - seed["learned"]["grows"] / 2)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    places = [at + BUCKET // 2 for at in range(0, N * TIMES, BUCKET)]
    lines = [Line("ALiBi" if kind == "alibi" else kind, places, column(seeds, kind, "losses")) for kind in KINDS]
    return [Chart(f"The loss of a letter by its place; trained on {N} places", "place in the text, letters",
                  "nats a letter", lines)]


def table(seeds: Sequence[Seed]) -> Table:
    """The loss over n places at a time, and by how much it grows past the first n."""
    columns = ["positions", *(f"places {at + 1} to {at + N}" for at in range(0, N * TIMES, N)), "grows by"]
    rows = []
    for kind in KINDS:
        mean = torch.tensor(column(seeds, kind, "losses")).mean(0).unflatten(0, (TIMES, -1)).mean(1).tolist()
        grows = column(seeds, kind, "grows")
        rows.append([kind, *(f"{each:.2f}" for each in mean), f"{sum(grows) / len(grows):.2f}"])
    return Table(columns, rows)


CAUSES = {"sinusoidal": "practice", "rotary": "practice", "alibi": "vectors"}
EXPERIMENT = Experiment(
    name="past-the-end", number=9, title="Past the length of training",
    claim="Learned positions stop at the n they were trained on; sinusoids, rotations and ALiBi go on past it.",
    source="lecture 002, 10.3.2: we know nothing about sequences longer than n; lecture 003, the sinusoids",
    equation="x_t + p_t, t <= n",
    refuted="learned positions losing nothing past n, or a kind that is computed losing half as much as they do",
    flips=(Flip("room", "gives the table of learned positions room for one more", arms=("refusal",)),
           Flip("vectors", "trains the learned vectors of all the places that are read later", arms=("learned",)),
           Flip("practice", "trains the positions that are computed on all the places that are read later: if nothing "
                "is lost then, what was missing is not a formula but practice", arms=COMPUTED)),
    arms=(Arm("refusal", refusal, once=True), *(Arm(kind, partial(trained, kind=kind)) for kind in KINDS)),
    rules=(Rule("a model with n learned positions refuses the next one (1: it does)", lambda s: s["refusal"]["refuses"],
                above=0.5, exact=True, cause="room"),
           Rule("with learned positions a letter past n costs more, by", lambda s: s["learned"]["grows"], above=0.2,
                unit=" nats", cause="vectors"),
           *(Rule(f"past n {kind} positions lose more than half of what learned ones lose, by",
                  partial(beyond_half, kind=kind), below=0, unit=" nats", cause=CAUSES[kind]) for kind in COMPUTED)),
    charts=charts, table=table,
    fixed=Fixed("2026-11-17", "be562f95c152",
                after="what a kind loses was first judged as a share of what learned positions lose, "
                "below a half; it is the same rule as a difference, for once learned vectors are trained on all places "
                "there is no loss to take a share of"),
    notes="Two layers of width 48, n = 32 letters, read up to 128; embeddings are multiplied by sqrt(D), or "
          "sinusoids drown them. A position that can be computed is not yet one that a model can use: see past 32.")
