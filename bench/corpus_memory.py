"""How much memory and time it takes to prepare a large corpus, and to train on it.

    python bench/corpus_memory.py --megabytes 1024 --tokenizer bpe

Writes a synthetic corpus into a temporary folder, prepares it as `regard train lm` does, trains a small model on
it for some steps, and prints seconds, MB/s and the peak resident memory of the process.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.training.run import TrainRequest, run_training

WORDS = 60_000


def write_corpus(path: Path, megabytes: int, seed: int = 0) -> None:
    """Lines of made-up words, their frequencies as uneven as those of a language (Zipf), with some accents."""
    chance = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkéàüñ"))
    weights = 1 / np.arange(1, len(letters) + 1)
    words = ["".join(chance.choice(letters, size, p=weights / weights.sum()))
             for size in chance.integers(2, 10, WORDS)]
    ends = np.array([" "] * 12 + [", ", ". ", "\n"])
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < megabytes * 10**6:
            ranks = np.minimum(chance.zipf(1.3, 200_000) - 1, WORDS - 1)
            after = ends[chance.integers(0, len(ends), len(ranks))]
            text = "".join([words[rank] + end for rank, end in zip(ranks.tolist(), after.tolist(), strict=True)])
            file.write(text)
            written += len(text.encode())


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--tokenizer", default="bpe")
    parser.add_argument("--documents", default="auto")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "corpus.txt"
        write_corpus(text, options.megabytes)
        size = text.stat().st_size / 1e6
        before = peak_megabytes()
        began = time.perf_counter()
        data = DataSettings((str(text),), documents=options.documents)
        corpus = prepare(data, TokenizerSettings(options.tokenizer), Path(folder) / "cache")
        seconds = time.perf_counter() - began
        prepared = peak_megabytes()
        os.environ["REGARD_CACHE"] = str(Path(folder) / "cache")
        settings = {"data": {"documents": options.documents}, "tokenizer": {"kind": options.tokenizer},
                    "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
                    "training": {"steps": options.steps, "batch": 8, "valid_every": options.steps}}
        order = TrainRequest((str(text),), out=f"{folder}/run", settings=settings)
        run_training(order)
        print(f"{size:,.0f} MB of text, {len(corpus.train):,} training tokens: {seconds:.1f} s, "
              f"{size / seconds:.1f} MB/s; peak memory {before:,.0f} MB before (libraries included), "
              f"{prepared:,.0f} MB when prepared, {peak_megabytes():,.0f} MB when trained")


if __name__ == "__main__":
    main()
