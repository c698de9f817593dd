"""`regard demo`: French to English on the embedded phrasebook, in less than two minutes.

With `--lecture` the system that the lectures draw is trained as long, and the figures of both stand side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from regard.cli.options import DEVICE, print_json
from regard.errors import RunError

SHOWN, MEASURED = 6, 500           # held-out sentences shown, and measured on, of each kind
PARTS = {"valid": "held-out sentences", "unseen": "words that never met in training"}


# The lectures' system: a simple RNN that reads from left to right alone, a decoder of the same kind, and e = s · h.
LECTURE = {"cell": "rnn", "both": False, "score": "dot", "projections": "none", "when": "after"}
LECTURE_ABOUT = "the lectures' own: simple RNNs, read one way, e = s · h of the states themselves"


@click.command("demo")
@click.option("--family", default="rnn-attention", show_default=True,
              help="Kind of translator: rnn-attention, rnn (what the bottleneck costs), transformer, prefix.")
@click.option("--lecture", is_flag=True, help="Train the lectures' own system as long, and show both side by side: "
              "a simple RNN that reads one way, with the plain dot product of its states.")
@click.option("--minutes", default=1.9, show_default=True, help="How long to train each, reading included.")
@click.option("--out", metavar="FOLDER", help="Run folder; the lectures' system goes to FOLDER-lecture.  "
              "[default: runs/phrasebook-translate-FAMILY]")
@click.option("--seed", default=0, show_default=True)
@DEVICE
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    family: str, lecture: bool, minutes: float, out: str | None, seed: int, device: str, as_json: bool
) -> None:
    """Learn French to English from an embedded phrasebook, translate held-out sentences, and show what was read.

    As in the lectures: a recurrent encoder, and a decoder that looks at every word of the source (attention).
    """
    from regard.data import embedded
    from regard.training.run import TrainRequest

    def say(text: str = "") -> None:
        click.echo(text, err=as_json)

    began = time.monotonic()
    say("Three of the 100,000 pairs to learn from:")
    for pair in islice(embedded.pairs("phrasebook"), 3):
        say(f"  {pair.source}\n    {pair.target}")
    request = TrainRequest(("phrasebook",), task="translate", family=family, out=out, device=device,
                           settings={"training": {"minutes": minutes, "seed": seed}})
    if lecture and out and Path(f"{out}-lecture").exists():         # its own run would say so only after the first
        raise RunError(f"{out}-lecture exists already: choose another folder with --out")
    shown = train_and_show(request, f"the family {family}", say, as_json)
    both = {family: shown}
    if lecture:
        second = replace(request, family="rnn-attention", out=f"{shown['run']}-lecture",
                         settings={**(request.settings or {}), "model": LECTURE})
        both["the lectures' own"] = train_and_show(second, LECTURE_ABOUT, say, as_json)
    say()
    for part, name in PARTS.items():
        say(side_by_side(name, {kind: each["figures"][part] for kind, each in both.items()}))
    seconds = time.monotonic() - began
    say(f"\n{seconds:.0f} seconds in all. Go on with it:\n"
        f"  echo 'Le chat noir dort.' | regard translate {shown['run']}\n"
        f"  regard score {shown['run']} phrasebook --by-length")
    if as_json:
        answer = as_json_of(shown) | {"seconds": seconds}
        print_json(answer | {"lecture": as_json_of(both["the lectures' own"])} if lecture else answer)


def side_by_side(part: str, figures: dict[str, dict[str, Any]]) -> str:
    """Return one system in a line, or each in a line of its own below the part's name."""
    if len(figures) == 1:
        return f"{part:<34} {format_figures(*figures.values())}"
    return "\n".join([part, *(f"  {name:<32} {format_figures(each)}" for name, each in figures.items())])


def train_and_show(request: Any, about: str, say: Callable[..., None], as_json: bool) -> dict[str, Any]:
    """Train a translator, show translations of each part, and return its figures."""
    from regard.training.run import run_training

    minutes = request.settings["training"]["minutes"]
    say(f"\nTraining a translator, {about}, for about {minutes * 60:.0f} seconds ...")
    model = run_training(request)
    parts = {part: measure_part(model, part) for part in PARTS}
    for part, (pairs, translations, _) in parts.items():
        say(f"\n{PARTS[part].capitalize()}, as it translates them:")
        for pair, line in list(zip(pairs, translations, strict=True))[:SHOWN]:
            say(f"  {pair.source}\n    {line.text}" + ("" if line.text == pair.target else f"   (not: {pair.target})"))
    pairs, translations, _ = parts["valid"]
    maps = draw(model, pairs, translations, say, as_json)
    return {"figures": {part: figures for part, (_, _, figures) in parts.items()}, "run": str(model.path),
            "family": model.family, "parameters": model.parameters, "maps": maps}


def as_json_of(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the held-out part, with those of the other beside them."""
    figures, rest = shown["figures"], {name: value for name, value in shown.items() if name != "figures"}
    return {**figures["valid"], "unseen": figures["unseen"], **rest}


def measure_part(model: Any, part: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return the pairs of a part, their translations, and the figures: BLEU, exact match, and the alignment error."""
    from regard.data import embedded
    from regard.metrics.alignment_error import Gold
    from regard.metrics.translation_quality import measure

    pairs = list(islice(embedded.pairs("phrasebook", part), MEASURED))
    sources, targets = ([getattr(pair, side) for pair in pairs] for side in ("source", "target"))
    translations = model.translate(sources)
    quality = measure([line.text for line in translations], targets, lang=model.languages[1], intervals=False)
    figures: dict[str, Any] = {"bleu": quality.bleu, "exact_match": quality.exact_match, "aer": None}
    if model.attends:
        golds = [Gold(frozenset(pair.alignment)) for pair in pairs]
        figures["aer"] = model.alignment_error(sources, targets, golds).mean.aer
    return pairs, translations, figures


def format_figures(figures: dict[str, Any]) -> str:
    aer = "no attention to look at" if figures["aer"] is None else f"alignment error {figures['aer']:.3f}"
    return f"BLEU {figures['bleu']:5.1f} · exactly right {figures['exact_match']:6.1%} · {aer}"


def draw(model: Any, pairs: list[Any], translations: list[Any], say: Any, as_json: bool) -> list[str]:
    """Draw the map of one sentence in the terminal; save it as PNG, SVG and HTML in the run, and return their paths."""
    from rich.console import Console

    from regard.look.render import save, show
    from regard.look.render.maps import Map

    if not model.attends:
        say(f"\nThe family {model.family} has no attention: all of the source passed through one vector.")
        return []
    right = [pair for pair, line in zip(pairs, translations, strict=True) if line.text == pair.target] or pairs
    chosen = max(right, key=count_crossings)
    (line,) = model.translate([chosen.source], alignments=True)
    seen = Map(line.target_pieces, line.source_pieces, line.weights, title=chosen.source, row_title="English",
               column_title="French")
    if line.text == chosen.target:
        seen = seen.aligned(chosen.alignment)
    say("\nWhat each English word read of the French:")
    show(seen, Console(stderr=as_json))
    paths = [Path(model.path) / f"map.{suffix}" for suffix in ("png", "svg", "html")]
    for path in paths:
        save(seen, path)
    say(f"The same as pictures: {', '.join(map(str, paths))}")
    return [str(path) for path in paths]


def count_crossings(pair: Any) -> int:
    """Return how often the links of a pair cross; -1 for a sentence too short or too long to be shown."""
    links = pair.alignment
    crossings = sum((a - c) * (b - d) < 0 for a, b in links for c, d in links)
    return crossings if 7 <= len(pair.source.split()) <= 10 else -1
