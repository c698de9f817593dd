"""Make the small models that come with Regard anew: `make models`. `regard serve` opens on them where no run is named.

Four models on the embedded corpora, so that the page can set them side by side: a Transformer, an LSTM and an n-gram
that read the same stories, and a translator of the phrasebook. They are run folders without checkpoints. Seeds and
steps are fixed: on one processor, with one version of torch, the same bits come out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from requirements import ROOT

MODELS = ROOT / "regard" / "serve" / "small_models"
MOST_BYTES = 3_000_000                        # all of them; the wheel carries them
SHARED = "--seed 0 --device cpu --set training.threads=1 --set training.log_every=20 --set training.valid_every=150"
TEXT = "train lm stories --tokenizer word"
NETWORK = "--layers 2 --width 64 --context 128 --batch 8 --steps 600 --set training.valid_one_in=8"
COMMANDS = {
    "phrasebook": "train translate phrasebook --tokenizer word --family rnn-attention --width 64 --hidden 96 "
                  "--steps 750",
    "stories-lstm": f"{TEXT} --family lstm --hidden 96 {NETWORK}",
    "stories-ngram": f"{TEXT} --family ngram --order 3 --prune 0,1,3",
    "stories-transformer": f"{TEXT} --family transformer --heads 4 {NETWORK}",
}


def main(names: list[str]) -> int:
    for name in names or COMMANDS:
        with tempfile.TemporaryDirectory(prefix="regard-models-") as folder:
            print(f"{name} ...", flush=True)
            made = make(name, Path(folder))
            shutil.rmtree(MODELS / name, ignore_errors=True)
            shutil.copytree(made, MODELS / name)
    size = count_bytes()
    print(f"{size:,} bytes in {MODELS.relative_to(ROOT)}")
    return 0 if size <= MOST_BYTES else 1


def make(name: str, folder: Path) -> Path:
    """Train a model; return its folder, without what only training needs."""
    shared = "" if "ngram" in name else SHARED
    command = [sys.executable, "-m", "regard", *COMMANDS[name].split(), *shared.split(), "--out", f"made/{name}"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, cwd=folder, check=True, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"})
    shutil.rmtree(folder / "made" / name / "checkpoints", ignore_errors=True)
    return folder / "made" / name


def count_bytes() -> int:
    return sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
