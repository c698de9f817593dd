"""From a text to other programs by commands: what is trained here writes and translates the same there.

    python bench/interop_commands.py --minutes 0.5          # writes bench/results/interop/commands.json

Language models are trained by `regard train lm stories`, with all defaults and `--like llama`, and leave for
transformers, GGUF and onnxruntime. The demo's translator leaves for onnxruntime, a Transformer for CTranslate2 in 32
and 8 bits, and one `--like marian` for transformers. Greedy texts and translations must be the same everywhere. A GGUF
file is read by llama.cpp's definition in numpy (tests/interop/gguf_by_definition.py); `make interop` asks llama.cpp.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch

import regard
from regard.data import embedded
from regard.interop.ct2_engine import open_engine
from regard.metrics.translation_quality import measure

RESULTS = Path(__file__).parent / "results" / "interop" / "commands.json"
PROMPTS = ("Once upon a time", "Tom had a red", "One day")
# A name -> words of the command, and where the run leaves for. Stories are read in words, which no GGUF holds.
LANGUAGE_MODELS = {
    "stories": ([], ("hf", "onnx")),
    "stories-bpe": (["--tokenizer", "bpe"], ("gguf",)),
    "stories-like-llama": (["--like", "llama", "--tokenizer", "bpe"], ("hf", "gguf", "onnx")),
}
WRITTEN, TRANSLATED = 30, 100                  # tokens of each text; lines of the test part


def call(*words: object) -> str:
    """Run a command of Regard, and return what it prints."""
    done = subprocess.run([sys.executable, "-m", "regard", *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})
    if done.returncode:
        raise SystemExit(f"regard {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def train(run: Path, *words: object) -> dict[str, Any]:
    began = time.monotonic()
    call("train", *words, "--out", run, "--quiet", "--device", "cpu")
    return {"command": f"regard train {' '.join(map(str, words))}", "seconds": round(time.monotonic() - began, 1)}


def export(run: Path, to: str, out: Path, *words: str) -> dict[str, Any]:
    """Export by the command; return the row of the table."""
    told = json.loads(call("export", run, "--to", to, "-o", out, "--json", *words))
    checked = told["checked"] or {}
    return {"command": " ".join(["regard export", run.name, "--to", to, *words]), "kind": told["kind"],
            "bytes": told["bytes"], "seconds": round(told["seconds"], 2), "difference": checked.get("difference")}


# ------------------------------------------------------------------------------------ language models


def our_texts(run: Path) -> list[str]:
    """Return the network's greedy continuations; it leaves without its n-gram."""
    trained = regard.load(run, "cpu", alone=True)
    return [trained.generate(prompt, new_tokens=WRITTEN, temperature=0.0) for prompt in PROMPTS]


@torch.no_grad()
def texts_of_transformers(folder: Path) -> list[str]:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = []
    for prompt in PROMPTS:
        given = tokenizer(prompt, return_tensors="pt")
        ids = model.generate(**given, max_new_tokens=WRITTEN, do_sample=False)[0, given["input_ids"].shape[1]:]
        texts.append(tokenizer.decode(ids, skip_special_tokens=True))
    return texts


def texts_of_gguf(file: Path, run: Path) -> list[str]:
    """Return the texts by llama.cpp's definition, each token from a whole read."""
    from tests.interop.gguf_by_definition import File, log_probs
    from tests.interop.test_gguf import BENDS

    trained, found = regard.load(run, "cpu", alone=True), File(file)
    bend = BENDS.get(trained.tables["model"]["activation"], BENDS["gelu"])
    special, texts = trained.special_tokens, []
    for prompt in PROMPTS:
        ids = [special.begin, *trained.tokenizer.encode(prompt).tolist()]
        start = len(ids)
        while len(ids) < start + WRITTEN and ids[-1] != special.end:
            row = log_probs(found, ids, lambda x: bend(torch.from_numpy(x)).numpy())[-1]
            row[list(special.banned)] = -np.inf
            ids.append(int(row.argmax()))
        texts.append(trained.tokenizer.decode([id for id in ids[start:] if id != special.end]))
    return texts


def answers_of_onnx(folder: Path, inputs: list[str]) -> list[str]:
    """Return what the program in README.md prints for each input, in a process without Regard."""
    program = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert program is not None
    (folder / "use.py").write_text(program[1])
    return [subprocess.run([sys.executable, "use.py", given], cwd=folder, capture_output=True, text=True,
                           check=True).stdout.removesuffix("\n") for given in inputs]


def language_models(folder: Path, minutes: float) -> list[dict[str, Any]]:
    rows = []
    for name, (words, targets) in LANGUAGE_MODELS.items():
        run = folder / name
        rows.append(train(run, "lm", "stories", *words, "--minutes", minutes))
        ours, lossless = our_texts(run), regard.load(run, "cpu").tokenizer.lossless
        if "--like" in words:                  # trained without an n-gram, so that the command writes the same
            said = [call("generate", run, "--prompt", prompt, "--greedy", "--tokens", WRITTEN) for prompt in PROMPTS]
            assert all(text.strip() in told for text, told in zip(ours, said, strict=True)), (ours, said)
        for to in targets:
            row = export(run, to, out := folder / f"{name}-{to}")
            theirs = texts_of(to, out, run)
            row["same"] = all(spelled(text, lossless) in spelled(told, lossless)
                              for told, text in zip(theirs, ours, strict=True))
            rows.append(row)
            assert row["same"], (row, ours, theirs)
    return rows


def texts_of(to: str, out: Path, run: Path) -> list[str]:
    """Return the texts that a target writes."""
    if to == "onnx":                           # whose program prints the prompt, too, and writes on to the end
        return answers_of_onnx(out, list(PROMPTS))
    return texts_of_transformers(out) if to == "hf" else texts_of_gguf(out, run)


def spelled(text: str, lossless: bool) -> str:
    """Return a text without its spaces where other programs have no decoder of ours for words."""
    return text if lossless else "".join(text.split())


# -------------------------------------------------------------------------------------------- translators


def test_pairs() -> tuple[list[str], list[str]]:
    pairs = list(islice(embedded.pairs("phrasebook", "test"), TRANSLATED))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


@torch.no_grad()
def translations_of_transformers(folder: Path, lines: list[str]) -> list[str]:
    import transformers

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    own = folder / "target-tokenizer"          # where each language has a vocabulary
    writer = transformers.AutoTokenizer.from_pretrained(own) if own.exists() else reader
    return [writer.decode(model.generate(**reader(line, return_tensors="pt"), num_beams=1, do_sample=False)[0],
                          skip_special_tokens=True) for line in lines]


def translators(folder: Path, minutes: float) -> list[dict[str, Any]]:
    lines, references = test_pairs()
    rows = [train(folder / "demo", "translate", "phrasebook", "--family", "rnn-attention", "--minutes", minutes)]
    demo = regard.load(folder / "demo", "cpu")
    row = export(folder / "demo", "onnx", folder / "demo-onnx")
    row["same"] = same_lines(demo, lines[:20], answers_of_onnx(folder / "demo-onnx", lines[:20]))
    rows += [row, *on_ctranslate2(folder, minutes, lines, references)]
    run = folder / "like-marian"
    rows.append(train(run, "translate", "phrasebook", "--like", "marian", "--minutes", minutes))
    row = export(run, "hf", folder / "marian-hf")
    theirs = translations_of_transformers(folder / "marian-hf", lines[:20])
    row["same"] = same_lines(regard.load(run, "cpu"), lines[:20], theirs)
    rows.append(row)
    assert all(row.get("same", True) for row in rows), rows
    return rows


def same_lines(trained: Any, lines: list[str], theirs: list[str]) -> bool:
    """Return whether another program translates these lines as our greedy search does. Ours writes a word that the
    target's vocabulary lacks as the source has it, which no other program does: such lines are not compared."""
    tokenizer = trained.tokenizer.target
    ours = [each.text for each in trained.translate(lines, beam=1)]
    differ = [(a, b) for a, b in zip(ours, theirs, strict=True) if tokenizer.unk not in tokenizer.encode(a)
              and spelled(a, tokenizer.lossless) != spelled(b, tokenizer.lossless)]
    if differ:
        print(f"differ: {differ}", file=sys.stderr)
    return not differ


def on_ctranslate2(
    folder: Path, minutes: float, lines: list[str], references: list[str]
) -> list[dict[str, Any]]:
    """A Transformer, searched by Regard and by CTranslate2, with the BLEU of each on the test part."""
    run = folder / "transformer"
    rows = [train(run, "translate", "phrasebook", "--family", "transformer", "--minutes", minutes)]
    trained = regard.load(run, "cpu")
    ours = [each.text for each in trained.translate(lines)]
    rows[0]["bleu"] = round(measure(ours, references, lang="en", intervals=False).bleu, 2)
    for precision, engine in (("float32", "ct2"), ("int8", "ct2-int8")):
        row = export(run, "ct2", folder / f"ct2-{precision}", "--precision", precision)
        trained.engine = open_engine(trained, engine)
        theirs = [each.text for each in trained.translate(lines)]
        row["bleu"] = round(measure(theirs, references, lang="en", intervals=False).bleu, 2)
        row["same_lines"] = sum(a == b for a, b in zip(ours, theirs, strict=True))
        if precision == "float32":
            row["same"] = theirs == ours
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.5, help="of each training")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["REGARD_CACHE"] = str(folder / "cache")
        rows = [*language_models(folder, arguments.minutes), *translators(folder, arguments.minutes)]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    arguments.results.write_text(f'{{"minutes": {arguments.minutes}, "torch": "{torch.__version__}", "rows": [\n'
                                 f'{lines}\n]}}\n')


if __name__ == "__main__":
    main()
