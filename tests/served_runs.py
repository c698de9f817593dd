"""Small runs of every kind for the tests of looking and serving, trained once for all test processes by the commands.

They know little, but are not blank: the Transformer and the translator are trained for some seconds.
"""

import fcntl
import json
from itertools import islice
from pathlib import Path

import pytest

from regard.cli import main
from regard.corpora import gists, phrasebook, shapes, stories

COMMON = ["--device", "cpu", "--quiet"]
PAIRS = ["--tokenizer", "word", "--batch", "512"]
ONCE = ["--set", "training.valid_every=1000"]              # validation at the end only: it writes with a beam
RUNS = {
    "stories-transformer": ["lm", "stories.txt", "--tokenizer", "word", "--layers", "2", "--width", "32",
                            "--heads", "2", "--context", "128", "--batch", "16", "--steps", "120"],
    "stories-rnn": ["lm", "stories.txt", "--family", "rnn", "--tokenizer", "word", "--width", "24", "--hidden", "48",
                    "--context", "64", "--steps", "40"],
    "stories-mamba": ["lm", "stories.txt", "--family", "mamba", "--tokenizer", "char", "--layers", "2", "--width", "24",
                      "--context", "128", "--batch", "8", "--steps", "20"],
    "stories-ngram": ["lm", "stories.txt", "--family", "ngram", "--order", "4", "--tokenizer", "word"],
    "phrasebook": ["translate", "pairs.fr", "pairs.en", "--family", "rnn-attention", "--width", "32", "--hidden", "48",
                   "--steps", "100", *PAIRS],
    "phrasebook-transformer": ["translate", "pairs.fr", "pairs.en", "--family", "transformer", "--layers", "2",
                               "--width", "32", "--heads", "2", "--steps", "40", *PAIRS, *ONCE],
    "shapes": ["caption", "shapes", "--tokenizer", "word", "--image", "32", "--patch", "8", "--width", "32",
               "--hidden", "48", "--batch", "512", "--steps", "40", *ONCE],
    "gists": ["summarise", "gists.jsonl", "--family", "transformer", "--layers", "2", "--width", "32", "--heads", "2",
              "--tokenizer", "word", "--batch", "512", "--steps", "10", *ONCE],
}


def write_texts(folder: Path) -> None:
    (folder / "stories.txt").write_text("".join(f"{story}\n" for story in stories.generate(1500)))
    pairs = list(islice(phrasebook.pairs(2500), 2500))
    (folder / "pairs.fr").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (folder / "pairs.en").write_text("".join(f"{pair.target}\n" for pair in pairs))
    (folder / "gists.jsonl").write_text("".join(
        json.dumps({"document": pair.source, "summary": pair.target}) + "\n" for pair in gists.pairs(300)))
    shapes.write(folder / "shapes", 240)


def train(folder: Path, names=tuple(RUNS)) -> None:
    """The runs of these names under a folder; each that is there already is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)                    # the other test process may be at it
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        if not (folder / "shapes").exists():
            write_texts(folder)
        for name in names:
            if not (folder / "runs" / name / "model.safetensors").exists():
                main(["train", *RUNS[name], *COMMON, "--out", str(folder / "runs" / name)])


def shared_folder(tmp_path_factory) -> Path:
    """One for all processes of a test session."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "served-runs"
