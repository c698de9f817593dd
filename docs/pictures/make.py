"""Makes the pictures of the README: trains two small models on the embedded stories, then draws.

    python docs/pictures/make.py [--runs FOLDER]

About five minutes on two CPU cores. Runs that are already in FOLDER are used again, so that drawing anew is quick.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

import regard

HERE = Path(__file__).parent
STORY = ("Hugo had four pears. Rosa came by and was hungry. Hugo gave her two pears. Rosa was very cheerful. "
         '"How many pears do you have now?" asked Finn. "I have two pears," said Hugo.')       # held out
READER, READ = ("two", "many"), "pears"          # framed on the map: the word before a mention, and the earlier ones
INK, FAINT, BLUE, ORANGE, GREEN = "#222222", "#8a8a8a", "#1f5fa8", "#c8641b", "#3a7d44"

TRAINING = {"steps": 2000, "batch": 16, "optimizer": "muon", "muon_rate": 0.04, "learning_rate": 0.006,
            "schedule": "cosine", "valid_every": 200}
RUNS: dict[str, dict[str, Any]] = {
    "transformer": {"model": {"layers": 2, "width": 64, "heads": 4, "context": 128, "tied": False, "dropout": 0.0},
                    "training": TRAINING},
    "rnn": {"model": {"layers": 1, "width": 64, "hidden": 256, "context": 128, "tied": False, "dropout": 0.0},
            "training": TRAINING | {"muon_rate": 0.01, "weight_decay": 0.1}},     # at 0.04 it diverges: docs/log.md
    "ngram": {"model": {"order": 5}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/pictures"), help="where the models are kept")
    runs = parser.parse_args().runs
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "regard", "axes.edgecolor": FAINT,
                         "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK})
    models = {family: trained(family, runs / family) for family in RUNS}
    save(attention_map(models["transformer"]), "attention.svg")
    save(learning_curves(runs), "learning.svg")


def trained(family: str, out: Path) -> regard.Trained:
    if (out / "model.safetensors").exists():
        return regard.load(out, device="cpu")
    return regard.train("stories", family=family, out=str(out), settings=RUNS[family], device="cpu")


# ------------------------------------------------------------------------------------------ attention


def attention_map(model: regard.Trained) -> plt.Figure:
    """The head that reads the earlier mention most, its tokens on both axes."""
    tokens, maps = watched(model, STORY)
    layer, head = max(maps, key=lambda place: sum(maps[place][q, k].item() for q, k in frames(tokens)))
    figure, axes = plt.subplots(figsize=(8.4, 8.6), layout="constrained")
    axes.imshow(maps[layer, head], cmap="Blues", vmin=0, vmax=1)
    for query, key in frames(tokens):
        axes.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, edgecolor=ORANGE, linewidth=1.4))
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8)
    axes.set_yticks(range(len(tokens)), tokens, fontsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel("what is read")
    axes.set_ylabel("who reads, to predict the next word")
    axes.set_title(f"Layer {layer + 1}, head {head + 1}: before it says “pears” again, it looks where they were",
                   fontsize=11, loc="left")
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def watched(model: regard.Trained, text: str) -> tuple[list[str], dict[tuple[int, int], torch.Tensor]]:
    """The tokens of a text, and the weights (T, T) of every (layer, head) that read it."""
    t = model.tokenizer
    ids = torch.tensor([[t.bos, *t.encode(text).tolist(), t.eos]])
    with torch.no_grad(), regard.watch() as seen:
        model.model.score(ids[:, :-1], ids[:, 1:])
    maps = {(layer, head): weights for layer, reading in enumerate(seen.of("weights"))
            for head, weights in enumerate(reading.values[0])}
    return [t.token(i) for i in ids[0, :-1].tolist()], maps


def frames(tokens: list[str]) -> list[tuple[int, int]]:
    """(query, key): each word before a later mention, and every earlier mention."""
    mentions = [place for place, token in enumerate(tokens) if token == READ]
    return [(later - 1, earlier) for later in mentions[1:] for earlier in mentions
            if earlier < later and tokens[later - 1] in READER]


# -------------------------------------------------------------------------------------- learning curves


def learning_curves(runs: Path) -> plt.Figure:
    """Loss on held-out stories against tokens read; the n-gram, which only counts, is a line."""
    figure, axes = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    for family, colour, lower in (("transformer", BLUE, 12), ("rnn", ORANGE, -4)):
        rows = [json.loads(line) for line in (runs / family / "metrics.jsonl").read_text().splitlines()]
        valid = [(row["tokens"], row["valid_loss"]) for row in rows if "valid_loss" in row]
        axes.plot(*zip(*valid, strict=True), color=colour, marker="o", markersize=4, linewidth=1.8)
        axes.annotate(f"{family} {valid[-1][1]:.2f}", valid[-1], xytext=(8, -lower), textcoords="offset points",
                      color=colour)
    counted = json.loads((runs / "ngram" / "metrics.jsonl").read_text().splitlines()[-1])["valid_loss"]
    axes.axhline(counted, color=GREEN, linewidth=1.4, linestyle="--")
    axes.annotate(f"5-gram, counted once: {counted:.2f}", (0.99, counted), xycoords=("axes fraction", "data"),
                  xytext=(0, 5), textcoords="offset points", ha="right", color=GREEN)
    axes.set_ylim(0.35, 0.95)
    axes.set_xlim(0, valid[-1][0] * 1.23)
    axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens / 1e6:.1f} M")
    axes.set_xlabel("tokens read")
    axes.set_ylabel("loss, nats a token")
    axes.set_title("Loss on held-out stories: the same text, the same 2,000 steps", fontsize=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(HERE / name, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    print(f"{name}: {(HERE / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
