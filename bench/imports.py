"""Large models of other programs come in: the time, the distance from the program they came from, and first use.

    python bench/imports.py                        # two threads; writes bench/results/interop/import.json

transformers makes a GPT-2 of 124M parameters and a Marian of 77M with random weights. Each is imported several times by
the command, in a process of its own, and opened on both sides: all logits are compared, the page's look at 200 tokens
is timed, and one step of fine-tuning tells the loss that it starts from, beside transformers' own on the same tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import regard
from regard.config import fill
from regard.contract import Source
from regard.corpora import phrasebook, stories
from regard.data.tokens.characters import byte_letters
from regard.interop.target_ids import Counting
from regard.training.run import TrainRequest, run_training
from regard.training.settings import TrainingSettings

RESULTS = Path(__file__).parent / "results" / "interop" / "import.json"
GPT2_TOKENS, MARIAN_PIECES = 50_257, 64_001
LOOKED_AT, COMPARED = 200, 256
TIMES, THREADS = 3, 2


# ------------------------------------------------------------------------------------- models to import


def make_gpt2(folder: Path) -> Any:
    """GPT-2's smallest size, with a tokenizer of as many tokens: merges of each letter with each other."""
    import transformers

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    model.save_pretrained(folder)
    letters = byte_letters()
    merges = [(a, b) for a in letters for b in letters][:GPT2_TOKENS - 1 - len(letters)]
    tokens = [*letters, *(a + b for a, b in merges), "<|endoftext|>"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"id": GPT2_TOKENS - 1, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False, "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: id for id, token in enumerate(tokens)}, "merges": merges}}))
    return model


def make_marian(folder: Path) -> Any:
    """The size of opus-mt: 6 and 6 layers, 512 wide. Pieces of the phrasebook, and as many more as it has rows."""
    import sentencepiece
    import transformers

    folder.mkdir(parents=True)
    pairs = phrase_pairs(3000)
    pieces = ["</s>", "<unk>"]
    for side, lines in (("source", [each.source for each in pairs]), ("target", [each.target for each in pairs])):
        (folder / "text.txt").write_text("\n".join(lines))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text.txt"), model_prefix=str(folder / side), vocab_size=1000, model_type="unigram",
            character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, bos_id=-1, eos_id=0, unk_id=1)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        made = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces += [made.id_to_piece(n) for n in range(made.get_piece_size())]
    pieces = list(dict.fromkeys(pieces))
    pieces += [f"\u2581spare{n}" for n in range(MARIAN_PIECES - 1 - len(pieces))] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=MARIAN_PIECES, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, pad_token_id=MARIAN_PIECES - 1, eos_token_id=0,
        decoder_start_token_id=MARIAN_PIECES - 1)
    model = transformers.MarianMTModel(config).eval()
    model.save_pretrained(folder)
    return model


def phrase_pairs(count: int) -> list[Any]:
    return list(islice(phrasebook.pairs(count), count))


# ------------------------------------------------------------------------------------------- measured


def time_import(folder: Path, out: Path) -> tuple[float, float]:
    """Import by the command; return the seconds of the process, and of the import alone."""
    began = time.monotonic()
    command = [sys.executable, "-m", "regard", "import", str(folder), "-o", str(out), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return time.monotonic() - began, json.loads(told)["seconds"]


@torch.no_grad()
def differ(theirs: Any, trained: Any) -> float:
    """Return the largest difference of a log-probability, over all of the vocabulary."""
    generator = torch.Generator().manual_seed(1)
    model, pair = trained.model, trained.tokenizer
    counting = Counting(pair, model.vocab)
    tokens = [1, *torch.randint(4, model.vocab, (COMPARED,), generator=generator).tolist()]
    given = {"input_ids": torch.tensor([counting.theirs(tokens)])}
    state = None
    if model.needs_source:
        source = [*torch.randint(4, pair.source.vocab_size, (COMPARED,), generator=generator).tolist(), 2]
        read = Counting(pair.source, pair.source.vocab_size).theirs(source)
        given = {"input_ids": torch.tensor([read]), "decoder_input_ids": given["input_ids"]}
        state = model.start(1, None, Source(torch.tensor([source]), torch.tensor([len(source)])))
    ours = counting.columns(model.head(model.encode(torch.tensor([tokens]), state)[0])[0])
    return float((ours - theirs(**given).logits[0].log_softmax(-1)).abs().max())


def time_look(trained: Any, **asked: str) -> tuple[float, int]:
    """Return the seconds of the page's answer to a look, and how many tokens it has. A short one before loads the
    model."""
    from starlette.testclient import TestClient

    from regard.serve.app import make_app
    from regard.serve.registry import Registry

    app = make_app(Registry([trained.path], device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        body = {"model": trained.path.name, **asked}
        client.post("/api/look", json={name: value[:20] if name != "model" else value for name, value in body.items()})
        began = time.monotonic()
        answer = client.post("/api/look", json=body)
        seconds = time.monotonic() - began
        answer.raise_for_status()
    return seconds, sum(len(side["tokens"]) for side in answer.json()["sides"].values())


def first_loss(trained: Any, task: str, files: list[Path], folder: Path) -> float:
    """Return the validation loss of a training that hardly moves: what fine-tuning starts from."""
    settings = {"training": {"steps": 1, "batch": 1 if task == "lm" else 64, "learning_rate": 1e-12, "samples": False,
                             "ema": 0.0, "precision": "float32", "valid_every": 1}}
    run_training(TrainRequest(tuple(map(str, files)), task=task, base=str(trained.path), out=str(folder), mix=False,
                              settings=settings, device="cpu", quiet=True))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return next(row["valid_loss"] for row in rows if "valid_loss" in row)


@torch.no_grad()
def their_loss(theirs: Any, run: Path) -> float:
    """Return transformers' loss on the tokens that the training of a run held out."""
    trained = regard.load(run, "cpu")
    task, tables = trained.task, trained.tables
    corpus = task.prepare(fill(task.data, tables["data"], "data"), trained.tokenizer, say=lambda text: None)
    settings = fill(TrainingSettings, tables["training"], "training")
    counting = Counting(trained.tokenizer, trained.model.vocab)
    total = count = 0.0
    for batch in task.held_out(corpus, settings, trained.context):
        for row in range(len(batch.tokens)):
            total_of, count_of = loss_of_row(theirs, trained, counting, batch, row)
            total, count = total + total_of, count + count_of
    return total / count


def loss_of_row(theirs: Any, trained: Any, counting: Counting, batch: Any, row: int) -> tuple[float, float]:
    """Return the nats of one row of a batch, and its tokens; transformers computes its mean itself."""
    real = int(batch.is_real()[row].sum())
    tokens, targets = (counting.theirs(each[row, :real].tolist()) for each in (batch.tokens, batch.targets))
    given = {"input_ids": torch.tensor([tokens])}
    if trained.model.needs_source:
        length = int(batch.source_lengths[row])
        pair = trained.tokenizer
        read = Counting(pair.source, pair.source.vocab_size).theirs(batch.source[row, :length].tolist())
        given = {"input_ids": torch.tensor([read]), "decoder_input_ids": given["input_ids"]}
        loss = theirs(**given, labels=torch.tensor([targets])).loss
    else:                                  # its labels are the tokens themselves, which it shifts
        whole = torch.tensor([[*tokens, targets[-1]]])
        loss = theirs(input_ids=whole, labels=torch.where(torch.arange(real + 1)[None] > 0, whole, -100)).loss
    return float(loss) * real, real


def measure(name: str, make: Any, task: str, files: list[Path], looked: dict[str, str], folder: Path) -> dict[str, Any]:
    theirs = make(folder / name)
    times = [time_import(folder / name, folder / f"{name}-{n}") for n in range(TIMES)]
    trained = regard.load(folder / f"{name}-0", "cpu")
    looks = [time_look(trained, **looked) for _ in range(TIMES)]
    ours = first_loss(trained, task, files, folder / f"{name}-tuned")
    other = their_loss(theirs, folder / f"{name}-tuned")
    found = {"parameters": sum(weight.numel() for weight in theirs.parameters()),
             "import_seconds": [round(alone, 2) for _, alone in times],
             "command_seconds": [round(whole, 2) for whole, _ in times],
             "largest_difference": float(f"{differ(theirs, trained):.2e}"),
             "look_tokens": looks[0][1], "look_seconds": [round(seconds, 2) for seconds, _ in looks],
             "first_loss": ours, "transformers_loss": other, "loss_difference": float(f"{abs(ours - other):.2e}")}
    print(json.dumps({name: found}), flush=True)
    assert statistics.median(found["command_seconds"]) < 20 and found["largest_difference"] < 1e-4
    assert statistics.median(found["look_seconds"]) < 3 and found["loss_difference"] < 1e-5
    return found


def main() -> None:
    import transformers

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    found: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__, "threads": THREADS,
                             "load_before": round(os.getloadavg()[0], 2)}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["REGARD_CACHE"] = str(folder / "cache")
        texts = [folder / name for name in ("text.txt", "pairs.fr", "pairs.en")]
        texts[0].write_text("\n".join(stories.generate(60)) + "\n")
        pairs = phrase_pairs(400)
        texts[1].write_text("".join(f"{each.source}\n" for each in pairs))
        texts[2].write_text("".join(f"{each.target}\n" for each in pairs))
        text = texts[0].read_text()[:2 * LOOKED_AT]
        found["gpt2"] = measure("gpt2", make_gpt2, "lm", texts[:1], {"text": text}, folder)
        said = [" ".join(getattr(each, side) for each in pairs[:12]) for side in ("source", "target")]
        found["marian"] = measure("marian", make_marian, "translate", texts[1:],
                                  {"source": said[0], "target": said[1]}, folder)
    found["load_after"] = round(os.getloadavg()[0], 2)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
