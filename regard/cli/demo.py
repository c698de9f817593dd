"""`regard demo`: the whole of it in about a minute, on embedded stories."""

from __future__ import annotations

from typing import Any

import click

PROMPTS = ("", "Mia had a red kite,", "On Sunday, Tom")


@click.command("demo")
@click.option("--family", default="transformer", show_default=True, help="Kind of model: transformer, rnn, ngram.")
@click.option("--minutes", default=1.0, show_default=True, help="How long to train.")
@click.option("--out", metavar="FOLDER", help="Run folder.  [default: runs/stories-FAMILY]")
@click.option("--seed", default=0, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(family: str, minutes: float, out: str | None, seed: int, device: str, as_json: bool) -> None:
    """Train a small language model on embedded stories, then show what it writes and how well it predicts.

    An n-gram counted on the same stories stands beside it, as the baseline to beat.
    """
    import tempfile
    import time

    from regard.cli.output import print_json
    from regard.text import embedded
    from regard.training.run import Order, carry_out

    def say(text: str = "") -> None:
        click.echo(text, err=as_json)

    say("Three of the stories to learn from:")
    for _, story in zip(range(3), embedded.lines("stories"), strict=False):
        say(f"  {story}")
    say(f"\nTraining a {family} for about {minutes * 60:.0f} seconds ...")
    began = time.monotonic()
    settings = {"training": {"minutes": minutes, "seed": seed}}
    model = carry_out(Order(("stories",), family=family, out=out, settings=settings, device=device))
    seconds = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        baseline = carry_out(Order(("stories",), family="ngram", out=f"{folder}/ngram", quiet=True))
        both = {family: model, "ngram": baseline}
        scores = {name: each.score_files(["stories"]).as_dict() for name, each in both.items()}
    say("\nWhat it writes now:")
    samples = [prompt + model.generate(prompt, new_tokens=120, temperature=0.7, seed=seed) for prompt in PROMPTS]
    for sample in samples:
        say(f"  {sample}")
    say("\nHow well it predicts held-out stories:")
    for name, score in scores.items():
        say(f"  {name:<12} perplexity {score['perplexity']:6.3f} a token · {score['bits_per_byte']:.4f} bits per byte")
    say(f"\nGo on with it:  regard generate {model.path} --prompt 'Rosa lost'")
    if as_json:
        result: dict[str, Any] = {"run": str(model.path), "seconds": seconds, "samples": samples, "scores": scores}
        print_json(result)
