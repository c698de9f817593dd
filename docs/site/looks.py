"""The pictures of the tour: small models that are trained while the site is built, and what each of them reads.

A model is trained by commands, a look is drawn by `regard show`; both stand on the page. What was made is kept beside
the site under the hash of its commands and of our code, and is made again when one of them changes.
"""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import shlex
import shutil
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from docs.site.stage import ROOT

FORMS = ("svg", "html")
STORIES = "regard data get stories --lines 1200 --out notes.txt"
PAIRS = "regard data get phrasebook --lines 3000 --out book"


class NoSuchLook(Exception):
    """A name in a page that no look has."""


class NotDrawn(Exception):
    """A command of a look that failed."""


@dataclass(frozen=True)
class Model:
    """A small model: its data, and the flags it is trained with."""

    name: str
    data: str
    flags: str

    @property
    def commands(self) -> tuple[str, str]:
        """What a reader types to have it: runs/NAME."""
        task = "lm notes.txt" if self.data == STORIES else "translate book.fr book.en"
        return self.data, f"regard train {task} --tokenizer word {self.flags} --out runs/{self.name}"


@dataclass(frozen=True)
class LookOf:
    """One picture: whose, of what, and what a reader who cannot see it should know."""

    name: str
    model: str
    text: str
    alt: str
    options: str = ""

    @property
    def command(self) -> str:
        return f"regard show runs/{self.model} {shlex.quote(self.text)} {self.options}".rstrip()


SMALL = "--layers 2 --width 64 --context 64 --batch 32 --steps 150"
HEADS = f"{SMALL} --heads 2"
RECURRENT = "--family rnn-attention --width 64 --hidden 128 --batch 512"
BOTH = "--layers 2 --width 64 --heads 4 --batch 1024"
MODELS = {model.name: model for model in (
    Model("counted", STORIES, "--family ngram --order 4"),
    Model("average", STORIES, f"--family average {SMALL}"),
    Model("window", STORIES, f"--family window --order 5 {SMALL}"),
    Model("rnn", STORIES, f"--family rnn --hidden 128 {SMALL}"),
    Model("transformer", STORIES,
          "--family transformer --layers 2 --width 64 --heads 4 --context 64 --batch 32 --steps 400"),
    Model("orderless", STORIES, f"--family transformer {HEADS} --set model.positions=none"),
    Model("alibi", STORIES, f"--family transformer {HEADS} --set model.positions=alibi"),
    Model("deep", STORIES, "--family transformer --layers 6 --width 64 --heads 2 --context 64 --batch 32 --steps 100"),
    Model("windowed", STORIES, f"--family transformer {HEADS} --set model.window=6"),
    Model("linear", STORIES, f"--family linear-rnn {SMALL}"),
    Model("mamba", STORIES, f"--family mamba {SMALL}"),
    Model("blind", PAIRS, "--family rnn --width 64 --hidden 128 --batch 512 --steps 500"),
    Model("dot", PAIRS, f"{RECURRENT} --steps 500 --score dot"),
    Model("bilinear", PAIRS, f"{RECURRENT} --steps 500 --score bilinear"),
    Model("additive", PAIRS, f"{RECURRENT} --steps 800 --score additive"),
    Model("location", PAIRS, f"{RECURRENT} --steps 500 --score location"),
    Model("both-sides", PAIRS, f"--family transformer {BOTH} --steps 300"),
    Model("prefix", PAIRS, f"--family prefix {BOTH} --steps 500"),
)}

STORY = "Mia had a red kite. Ben had a black map. Paul wanted to see the red"
FRENCH = "Le chat noir dort dans le jardin."
LOOKS = {look.name: look for look in (
    LookOf("counting", "counted", STORY,
           "A map with a row for each predicted word of a short story. Filled is the longest context that this word "
           "followed in the training text: three words in most rows, fewer at the beginning and where it was unseen."),
    LookOf("averaging", "average", STORY,
           "A map of influence below the diagonal. In each row all earlier words are equally dark.",
           "--influence sensitivity"),
    LookOf("windows", "window", STORY,
           "A map of influence: a band of four words along the diagonal, and nothing to the left of it.",
           "--influence sensitivity"),
    LookOf("recurrence", "rnn", STORY,
           "A map of influence: darkest near the diagonal, and paler to the left, where words are older.",
           "--influence sensitivity"),
    LookOf("learning", "rnn", STORY,
           "A map of influence with signs: which earlier words spoke for the word that is predicted, and which against "
           "it.", "--influence gradient"),
    LookOf("bottleneck", "blind", FRENCH,
           "A map of influence, English words down and French words across: all rows have nearly the same shape, and "
           "no word has a square of its own.", "--influence sensitivity"),
    LookOf("attention", "dot", FRENCH,
           "A map of attention, English words down and French words across: each English word reads one or two French "
           "ones, mostly along the diagonal."),
    LookOf("bilinear", "bilinear", FRENCH,
           "A map of attention by a bilinear score, English words down and French words across."),
    LookOf("additive", "additive", FRENCH,
           "A map of attention by an additive score, English words down and French words across."),
    LookOf("location", "location", FRENCH,
           "A map of attention by location alone: a staircase that follows the place of the word, whatever stands "
           "there."),
    LookOf("self-attention", "transformer", STORY,
           "A map of self-attention: a triangle, in which each word reads itself and earlier ones by unequal shares.",
           "--layer 1"),
    LookOf("order", "orderless", STORY,
           "A map of self-attention without positions: in each row that reads both mentions of had, the two squares "
           "are equally dark.", "--layer 1"),
    LookOf("positions", "alibi", STORY,
           "A map of self-attention with ALiBi, the mean of two heads: near words are read more than far ones.",
           "--layer 1"),
    LookOf("masks", "transformer", STORY,
           "A map of self-attention of layer 2: everything right of the diagonal is empty.", "--layer 2"),
    LookOf("heads-first", "transformer", STORY,
           "A map of the first head of layer 1: the same triangle as the mean of all heads, with other squares dark.",
           "--layer 1 --head 1"),
    LookOf("heads-second", "transformer", STORY,
           "A map of the fourth head of layer 1, on the same text: other words are read most than by the first.",
           "--layer 1 --head 4"),
    LookOf("residuals", "deep", STORY,
           "Attention multiplied through six layers: every word reaches all earlier ones, and the first column is the "
           "darkest.",
           "--layer rollout"),
    LookOf("block", "deep", STORY,
           "A map of self-attention of the sixth layer alone: a few columns are read by many rows.", "--layer 6"),
    LookOf("encoder", "both-sides", FRENCH,
           "A map of the encoder's attention: a full square, in which words read later words as well.",
           "--track encoder"),
    LookOf("cross", "both-sides", FRENCH,
           "A map of cross-attention, English words down and French words across: each English word reads the French "
           "word that it translates, most of all.", "--track cross"),
    LookOf("decoder-only", "prefix", FRENCH,
           "A map of the part of self-attention in which the English words read the French ones before them."),
    LookOf("linear-recurrence", "linear", STORY,
           "The kernel of a linear recurrence: a triangle whose rows fade to the left, with both signs.",
           "--track kernel --layer 1"),
    LookOf("state-spaces", "mamba", STORY,
           "The kernel of a selective state space: a triangle in which some words are kept for long and others fade at "
           "once.", "--track kernel --layer 1"),
    LookOf("cost", "windowed", STORY,
           "A map of self-attention with a window of six positions: a band along the diagonal.", "--layer 1"),
)}


def look_named(name: str) -> LookOf:
    if name not in LOOKS:
        raise NoSuchLook(f"{name}: docs/site/looks.py has no such look")
    return LOOKS[name]


def make_looks(folder: Path, cache: Path, workers: int = 2) -> None:
    """Draw every look into `folder`, as NAME.svg and NAME.html; models are trained side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    code = hash_of_code(ROOT / "regard")
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=use_one_thread) as pool:
        made = [pool.submit(make_model, name, cache, code) for name in sorted(MODELS, key=slowest_first)]
        for each in made:
            for file in each.result():
                shutil.copyfile(file, folder / file.name)


def use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def slowest_first(name: str) -> bool:
    return MODELS[name].data == STORIES


def hash_of_code(folder: Path) -> str:
    """A digest of our modules, so that no look outlives the code that drew it."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def make_model(name: str, cache: Path, code: str) -> list[Path]:
    """Train a model and draw its looks, where they are not kept already; return their files."""
    model, looks = MODELS[name], [look for look in LOOKS.values() if look.model == name]
    commands = [*model.commands, *(f"{look.command} -o {look.name}.{form}" for look in looks for form in FORMS)]
    key = hashlib.sha256("\n".join([code, *commands]).encode()).hexdigest()[:16]
    kept = cache.resolve() / f"{name}-{key}"
    if not kept.is_dir():
        for old in cache.glob(f"{name}-*"):
            shutil.rmtree(old)
        making = kept.with_name(f"making-{kept.name}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        run_all(commands, making)
        making.rename(kept)
    return [kept / f"{look.name}.{form}" for look in looks for form in FORMS]


def run_all(commands: Iterable[str], folder: Path) -> None:
    """Run `regard` commands in a folder, in this process."""
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    from regard.cli import main

    with chdir(folder):
        for command in commands:
            said = io.StringIO()
            try:
                with redirect_stdout(said), redirect_stderr(said):
                    main(shlex.split(command)[1:])
            except SystemExit as end:
                if end.code:
                    raise NotDrawn(f"{command}\n{said.getvalue()}") from None
