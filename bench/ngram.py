"""The n-gram beside KenLM: how long it takes to build one, how much memory, how large it is, and how fast it scores.

    python bench/ngram.py multi30k                        # 5-gram of Multi30k English, tokenising included
    python bench/ngram.py large --words 20e6              # 20 million words, in memory; --memory 0.5: on the disk
    python bench/ngram.py score                           # val.en against the `kenlm` module, where it is installed
    REGARD_DATA=folder python bench/ngram.py multi30k --json

The peers' figures stand beside ours as they were measured on a machine of two cores: `lmplz -o 5 -S 1G` took 0.62 to
1.03 s for Multi30k, 51 s and 3.9 GB for 20 million words with Zipf frequencies; `kenlm.Model.score` 2.93 million words
a second. In `score` the two take turns in one run, so that a busy machine is busy for both. Ours uses every core,
theirs one: OMP_NUM_THREADS=1 compares core with core.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from regard.data.tokens.words import WhitespaceTokenizer, train_words
from regard.models.ngram import NGram, write_arpa
from regard.models.ngram.counting import EOS
from regard.tasks.lm.trained import Trained
from regard.training.run import TrainRequest, run_training

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "multi30k"
LMPLZ_SECONDS, LMPLZ_LARGE_SECONDS, LMPLZ_LARGE_GB, KENLM_WORDS = (0.62, 1.03), 51.0, 3.9, 2.93e6


def seconds(act: Callable[[], Any], turns: int = 1) -> tuple[float, Any]:
    """The best of some turns, and what the last gave."""
    best, made = float("inf"), None
    for _ in range(turns):
        began = time.perf_counter()
        made = act()
        best = min(best, time.perf_counter() - began)
    return best, made


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def lines(name: str) -> list[str]:
    if not DATA.is_dir():
        raise SystemExit(f"there is no {DATA}: REGARD_DATA names the folder of the public data sets")
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def built(texts: Sequence[str], order: int) -> tuple[NGram, WhitespaceTokenizer]:
    tokenizer = train_words("whitespace", texts, None)
    tokens, ends = tokenizer.encode_lines(texts)
    return NGram.fit(tokens.astype(np.uint16), ends, vocab=tokenizer.vocab_size, order=order), tokenizer


def multi30k(options: argparse.Namespace) -> dict[str, Any]:
    """From lines in memory to a model; and from a text file to a run folder, as `regard train lm` does it."""
    texts = lines("train.en.gz")
    library, (model, _) = seconds(lambda: built(texts, options.order), options.turns)
    command = float("inf")
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["REGARD_CACHE"] = f"{folder}/cache"
            Path(folder, "train.txt").write_text("\n".join(texts) + "\n")
            settings = {"model": {"order": options.order}, "tokenizer": {"kind": "whitespace"},
                        "data": {"documents": "line", "halve": False}}
            wanted = TrainRequest((f"{folder}/train.txt",), family="ngram", out=f"{folder}/run", settings=settings,
                                  quiet=True)
            command = min(command, seconds(lambda wanted=wanted: run_training(wanted))[0])
    return {"words": sum(len(text.split()) for text in texts), "ngrams": sum(map(len, model.orders)),
            "bytes_an_ngram": model.nbytes() / sum(map(len, model.orders)), "build_seconds": library,
            "command_seconds": command, "lmplz_seconds": LMPLZ_SECONDS, "build_ratio": library / LMPLZ_SECONDS[0]}


def zipf(words: int, vocab: int = 60_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Words drawn with Zipf's frequencies, in lines of 20; piece by piece, so as not to measure the drawing."""
    draw, chances = np.random.default_rng(seed), np.cumsum(1 / np.arange(1, vocab - 3) ** 1.05)
    tokens = np.empty(words, np.uint16)
    for first in range(0, words, 1 << 20):
        part = tokens[first:first + (1 << 20)]
        part[:] = 4 + np.searchsorted(chances, draw.random(len(part)) * chances[-1])
    ends = np.append(np.arange(20, words, 20), words)
    tokens[ends - 1] = EOS
    return tokens, ends


def large(options: argparse.Namespace) -> dict[str, Any]:
    """A large text: building, its peak memory, the size of the file, loading it, and the first scores."""
    tokens, ends = zipf(int(options.words))
    before = megabytes()
    with tempfile.TemporaryDirectory() as folder:
        took, model = seconds(lambda: NGram.fit(
            tokens, ends, vocab=60_000, order=options.order, memory=options.memory, folder=Path(folder)))
        peak = megabytes()
        save_file(model.saved_tensors(), f"{folder}/model.safetensors")
        settings, ngrams, size = model.settings, sum(map(len, model.orders)), model.nbytes()
        del model
        loading, loaded = seconds(lambda: NGram.from_tensors(load_file(f"{folder}/model.safetensors"), settings))
        first, _ = seconds(lambda: loaded.score_text(tokens[:100], None))
    return {"words": len(tokens), "ngrams": ngrams, "bytes_an_ngram": size / ngrams, "build_seconds": took,
            "build_ratio": took / LMPLZ_LARGE_SECONDS, "megabytes_before": before, "peak_megabytes": peak,
            "lmplz_seconds": LMPLZ_LARGE_SECONDS, "lmplz_megabytes": LMPLZ_LARGE_GB * 1000,
            "load_seconds": loading, "first_100_words_seconds": first}


def score(options: argparse.Namespace) -> dict[str, Any]:
    """Sentence scores of val.en, many times over: from ids, from text, and by the `kenlm` module, turn by turn."""
    model, tokenizer = built(lines("train.en.gz"), options.order)
    trained = Trained(model, tokenizer, {"run": {"family": "ngram"}, "data": {"documents": "line"}, "model": {}})
    texts = lines("val.en.gz") * options.repeat
    tokens, ends = tokenizer.encode_lines(texts)
    runs: dict[str, Callable[[], Any]] = {
        "ids": lambda: np.add.reduceat(model.score_text(tokens, ends).numpy(), np.append(0, ends[:-1]), dtype=float),
        "text": lambda: trained.score_lines(texts)}
    kenlm = _kenlm(model, tokenizer)
    if kenlm:
        runs["kenlm"] = lambda: [kenlm.score(text) for text in texts]
    runs["text"]()                                                  # the indices are made on first use
    best: dict[str, float] = {}
    for _ in range(options.turns):
        scores = {}
        for name, run in runs.items():
            took, scores[name] = seconds(run)
            best[name] = min(best.get(name, took), took)
    speeds = {f"{name}_words_a_second": len(tokens) / took for name, took in best.items()}
    theirs = speeds.get("kenlm_words_a_second", KENLM_WORDS)
    result = {"words": len(tokens), "threads": torch.get_num_threads(), **speeds, "kenlm_stated": KENLM_WORDS,
              "ids_ratio": speeds["ids_words_a_second"] / theirs, "text_ratio": speeds["text_words_a_second"] / theirs}
    if kenlm:
        ours = scores["text"].numpy() / np.log(10)
        result["largest_difference_log10"] = float(np.abs(ours - np.array(scores["kenlm"])).max())
    return result


def _kenlm(model: NGram, tokenizer: WhitespaceTokenizer) -> Any:
    try:
        import kenlm
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        write_arpa(model, ["<pad>", "<s>", "</s>", "<unk>", *tokenizer.words], f"{folder}/model.arpa")
        return kenlm.Model(f"{folder}/model.arpa")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=["multi30k", "large", "score"])
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5, help="the best of so many is given")
    parser.add_argument("--words", type=float, default=20e6)
    parser.add_argument("--memory", type=float, default=0.0, help="GB to count in; beyond, the disk is used")
    parser.add_argument("--repeat", type=int, default=40, help="how many times val.en is scored in a turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"multi30k": multi30k, "large": large, "score": score}[options.what](options)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name.replace('_', ' '):28s} " + (f"{value:,.4g}" if isinstance(value, float) else str(value)))


if __name__ == "__main__":
    main()
