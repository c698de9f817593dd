"""Translation on a CPU beside JoeyNMT, taking turns: target tokens a second in training, sentences in beam search.

    python bench/translate_cpu.py train.fr train.en --valid val.fr val.en --peer VENV/bin/python --json FILE
    python bench/translate_cpu.py ... --folder work                   keeps the weights of both in a folder
    python bench/translate_cpu.py ... --folder work --only decode     translates with those of an earlier run

`--peer` is a Python that has JoeyNMT: in a venv of its own, pip install torch joeynmt==2.3.0 importlib_metadata and
"sentencepiece<0.2.1" (the newest no longer has a call it makes). Without it only our own figures are given. On two
cores JoeyNMT has been seen to train at 1,008 target tokens a second and to translate 13.7 sentences a second, with a
model of 6.0 million parameters (`--feed 512`); to reach: 2.5 times its training, 4 times its search. Our ratio to
those figures is told beside the one to its turns here.

Every tool is a process of its own that waits for its turn, so that one works at a time and a busy machine is busy for
all. Same pairs, same sizes on both sides: a Transformer of 3+3 layers, width 256, 4 heads, feed-forward 1,024, one BPE
vocabulary of 8,000 and one embedding for both languages, float32, dropout 0.1, label smoothing 0.1, batches of 2,048
target tokens with pads, gradients clipped. Each cuts words, fills batches and drops out in its own way. Theirs is
AdamW; ours is AdamW too, and Muon with averaged weights, our default, as a second figure. A training step is batch,
forward, backward, clipping and update; the first turn is for warming up. Pairs a second stand beside tokens, as a
tokenizer that cuts finer has more of these. After training (all alike, so many steps) each translates the validation
sources with beam 5: an untrained model does not end. Ours is the one trained by AdamW.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from worker import Worker, answer, cpu

LAYERS, WIDTH, HEADS, VOCAB, BATCH, BEAM, DROPOUT, SMOOTHING = 3, 256, 4, 8000, 2048, 5, 0.1, 0.1
RATE = 7e-4                                         # of AdamW, on both sides
STATED = {"train": {"tokens_a_second": 1008.0}, "decode": {"sentences_a_second": 13.7}}   # of the peer, once
BARS = {"train": 2.5, "decode": 4.0}
PEER, OURS, MUON = "joeynmt", "regard", "regard-muon"
ENDS = ("source", "target")                         # of the file names: what JoeyNMT takes for languages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=2, help="sources and targets to train on, plain or .gz")
    parser.add_argument("--valid", nargs=2, required=True, help="sources to translate, and their targets")
    parser.add_argument("--peer", help="a Python with JoeyNMT")
    parser.add_argument("--steps", type=int, default=300, help="training steps of each")
    parser.add_argument("--turns", type=int, default=10, help="in so many turns, the first not counted")
    parser.add_argument("--decode-turns", type=int, default=3)
    parser.add_argument("--lines", type=int, default=0, help="translate only the first so many; 0: all")
    parser.add_argument("--feed", type=int, default=1024, help="width of the feed-forward layers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=("train", "decode"))
    parser.add_argument("--folder", type=Path, help="where data, weights and the tools' own words go")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.turns < 2 or arguments.steps < arguments.turns:
        parser.error("--turns must be at least 2, and --steps as many")
    if arguments.only == "decode" and arguments.folder is None:
        parser.error("--only decode needs the --folder of a run that has trained")
    for name in (*arguments.files, *arguments.valid, *filter(None, [arguments.peer])):
        if not Path(name).is_file():
            parser.error(f"there is no file {name}")
    with tempfile.TemporaryDirectory() as temporary:
        result = compare(arguments, arguments.folder or Path(temporary))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def compare(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    write_plain(arguments, folder / "data")
    tools = {OURS: sys.executable, MUON: sys.executable, PEER: arguments.peer}
    if arguments.peer is None:
        print("no --peer given: JoeyNMT is left out, and there are no ratios", flush=True)
        del tools[PEER]
    if arguments.only == "decode":
        del tools[MUON]
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(
            name, python, __file__, (name, folder, arguments.feed), folder, arguments.threads))
            for name, python in tools.items()}
        return measure(workers, arguments)


def measure(workers: dict[str, Worker], arguments: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {
        "cpu": cpu(), "threads": arguments.threads, "feed": arguments.feed, "steps": arguments.steps,
        "peer_stated": STATED,
        "tools": {name: worker.about for name, worker in workers.items()}}
    for name, about in result["tools"].items():
        print(f"{name:12s} {about['parameters']:,} parameters, {about['vocab']:,} tokens, torch {about['torch']}")
    if arguments.only != "decode":
        result["train"] = train_in_turns(workers, arguments)
    if arguments.only != "train":
        result["decode"] = decode_in_turns({name: own for name, own in workers.items() if name != MUON}, arguments)
    result["peak_megabytes"] = {name: worker.ask("memory")["megabytes"] for name, worker in workers.items()}
    return result


def train_in_turns(workers: dict[str, Worker], arguments: argparse.Namespace) -> dict[str, Any]:
    """So many steps of each, in turns; of the figures of every turn but the first, the medians."""
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    done = 0
    for turn in range(1, arguments.turns + 1):
        steps = arguments.steps * turn // arguments.turns - done
        done += steps
        for name, worker in workers.items():
            turns[name].append(worker.ask("train", steps, arguments.steps))
        tell(f"training turn {turn}", turns, "tokens", "target tokens/s")
    for worker in workers.values():
        worker.ask("keep")
    found: dict[str, Any] = {name: train_figures(own) for name, own in turns.items()}
    report("training", found, {"tokens_a_second": "target tokens/s", "pairs_a_second": "pairs/s",
                               "ms_a_step": "ms a step", "padding": "share of pads"})
    return found | ratios(found, "tokens_a_second", "pairs_a_second") | to_stated("train", found)


def train_figures(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over the turns; pads and loss are those of all turns and of the last."""
    warm = turns[1:]
    total = {key: sum(turn[key] for turn in warm) for key in ("tokens", "places")}
    return {**spread("tokens_a_second", [turn["tokens"] / turn["seconds"] for turn in warm]),
            **spread("pairs_a_second", [turn["pairs"] / turn["seconds"] for turn in warm]),
            **spread("ms_a_step", [1000 * turn["seconds"] / turn["steps"] for turn in warm]),
            "padding": 1 - total["tokens"] / total["places"], "loss": turns[-1]["loss"], "turns": turns}


def decode_in_turns(workers: dict[str, Worker], arguments: argparse.Namespace) -> dict[str, Any]:
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for turn in range(1, arguments.decode_turns + 1):
        for name, worker in workers.items():
            turns[name].append(worker.ask("decode", arguments.lines))
        tell(f"decoding turn {turn}", turns, "lines", "sentences/s")
    found: dict[str, Any] = {name: {
        **spread("sentences_a_second", [turn["lines"] / turn["seconds"] for turn in own]),
        **spread("tokens_a_second", [turn["tokens"] / turn["seconds"] for turn in own]),
        "tokens_a_line": own[-1]["tokens"] / own[-1]["lines"], "words_a_line": own[-1]["words"] / own[-1]["lines"],
        "turns": own} for name, own in turns.items()}
    report("decoding", found, {"sentences_a_second": "sentences/s", "tokens_a_second": "tokens/s",
                               "tokens_a_line": "tokens a line", "words_a_line": "words a line"})
    references = plain(arguments.valid[1]).decode().splitlines()[:arguments.lines or None]
    wanted = sum(len(line.split()) for line in references) / len(references)
    print(f"  the references have {wanted:.1f} words a line: with many more or fewer, train for more --steps")
    return found | ratios(found, "sentences_a_second", "tokens_a_second") | to_stated("decode", found) | {
        "reference_words_a_line": wanted}


def tell(what: str, turns: dict[str, list[dict[str, float]]], of: str, unit: str) -> None:
    speeds = [f"{name} {own[-1][of] / own[-1]['seconds']:,.4g}" for name, own in turns.items()]
    print(f"{what}: {', '.join(speeds)} {unit}", flush=True)


def spread(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {name: statistics.median(values), f"{name}_range": [min(values), max(values)]}


def ratios(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """Ours over theirs, of the medians; and the lowest and highest of what single turns would have said."""
    if PEER not in found:
        return {}
    told: dict[str, Any] = {}
    for tool in (OURS, MUON):
        for name in names if tool in found else ():
            (low, high), (their_low, their_high) = (found[each][f"{name}_range"] for each in (tool, PEER))
            told[f"{tool}_{name}_ratio"] = found[tool][name] / found[PEER][name]
            told[f"{tool}_{name}_ratio_range"] = [low / their_high, high / their_low]
            print(f"  ratio {tool} / {PEER}, {name.replace('_', ' ')}: {told[f'{tool}_{name}_ratio']:.2f} "
                  f"({low / their_high:.2f} to {high / their_low:.2f})", flush=True)
    return told


def to_stated(what: str, found: dict[str, Any]) -> dict[str, float]:
    """Ours over what was measured of the peer once."""
    told = {}
    for name, figure in STATED[what].items():
        for tool in (OURS, MUON):
            if tool in found:
                told[f"{tool}_{name}_to_stated"] = found[tool][name] / figure
                print(f"  ratio {tool} / {PEER} as measured once, {name.replace('_', ' ')}: "
                      f"{found[tool][name] / figure:.2f}; to reach: {BARS[what]}", flush=True)
    return told


def report(what: str, found: dict[str, Any], columns: dict[str, str]) -> None:
    print(f"\n{what:12s} " + "".join(f"{title:>28s}" for title in columns.values()))
    for name, figures in found.items():
        cells = [f"{figures[key]:,.4g}" + (f" ({figures[f'{key}_range'][0]:,.4g}-{figures[f'{key}_range'][1]:,.4g})"
                                           if f"{key}_range" in figures else "") for key in columns]
        print(f"{name:12s} " + "".join(f"{cell:>28s}" for cell in cells), flush=True)


# ------------------------------------------------------------------------------------------------ turns


def write_plain(arguments: argparse.Namespace, folder: Path) -> None:
    """The four files as both tools read them: train.source, train.target, valid.source, valid.target."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, names in (("train", arguments.files), ("valid", arguments.valid)):
        for end, name in zip(ENDS, names, strict=True):
            (folder / f"{part}.{end}").write_bytes(plain(name))


def plain(name: str) -> bytes:
    text = Path(name).read_bytes()
    return gzip.decompress(text) if name.endswith(".gz") else text


def serve(name: str, folder: Path, feed: int) -> None:
    """The other end: what is asked is a method of the tool, and its numbers."""
    def begin() -> tuple[Any, Callable[[list[str]], Any]]:
        tool: Any = JoeyNMT(folder, feed) if name == PEER else Regard(name, folder, feed)
        import torch

        parameters = sum(p.numel() for p in tool.model.parameters())
        told = {"torch": torch.__version__, "parameters": parameters, **tool.about()}
        return told, lambda words: getattr(tool, words[0])(*map(int, words[1:]))

    answer(begin)


class Tool:
    """What is asked of both."""

    folder: Path

    def memory(self) -> dict[str, float]:
        return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    def train(self, steps: int, last: int) -> dict[str, float]:
        """So many steps on, of `last` in all: what they read, and how long they took."""
        total = {"tokens": 0, "pairs": 0, "places": 0, "steps": steps}
        began, loss = time.perf_counter(), 0.0
        for _ in range(steps):
            loss, read = self.step(last)
            for key, value in read.items():
                total[key] += value
        return {**total, "loss": loss, "seconds": time.perf_counter() - began}

    def step(self, last: int) -> tuple[float, dict[str, int]]:
        raise NotImplementedError


# ------------------------------------------------------------------------------------------------- ours


class Regard(Tool):
    """Our own training step, as the loop makes it, and our own translator."""

    def __init__(self, name: str, folder: Path, feed: int):
        os.environ.setdefault("REGARD_CACHE", str(folder / "cache"))
        import torch

        from regard.run_folder import RunFolder
        from regard.training.parts import Parts, build_model
        from regard.training.report import TrainingProgress
        from regard.training.request import TrainRequest, plan_new

        data = folder / "data"
        train, valid = (tuple(str(data / f"{part}.{end}") for end in ENDS) for part in ("train", "valid"))
        tables = {"data": {"valid": valid, "langs": "fr-en", "halve": False},
                  "tokenizer": {"kind": "bpe", "vocab": VOCAB}}
        self.plan = plan_new(TrainRequest(train, task="translate", family="transformer", device="cpu",
                                          settings=tables | self.settings(name, feed)),
                             say=lambda text: print(text, file=sys.stderr))
        torch.manual_seed(0)
        self.run = RunFolder(folder / name)
        self.run.create()
        self.job = Parts(self.plan, build_model(self.plan), self.run, TrainingProgress(quiet=True)).make_job(self.plan)
        self.corpus, self.tables, self.at = self.plan.corpus, self.plan.tables(), 0
        self.sources = (data / "valid.source").read_text("utf-8").removesuffix("\n").split("\n")
        self.trained: Any = None

    def settings(self, name: str, feed: int) -> dict[str, dict[str, Any]]:
        model = dict(layers=LAYERS, width=WIDTH, heads=HEADS, expand=feed / WIDTH, activation="relu", dropout=DROPOUT)
        training: dict[str, Any] = dict(batch=BATCH, steps=1, label_smoothing=SMOOTHING, precision="float32")
        if name == OURS:                                   # as much alike as can be; otherwise as we would train
            training |= dict(optimizer="adamw", learning_rate=RATE, ema=0.0, weight_decay=0.0)
        return {"model": model, "training": training}

    def about(self) -> dict[str, Any]:
        return {"vocab": self.corpus.tokenizer.vocab_size, "model": self.tables["model"],
                "training": self.tables["training"]}

    def step(self, last: int) -> tuple[float, dict[str, int]]:
        """As in training/loop.py, without its validations and saves."""
        from dataclasses import replace

        from regard.training.report import Figures
        from regard.training.schedule import rate

        step, batch = self.job.step, self.job.step.batches.batch(self.at)
        step.set_rate(rate(self.at, replace(self.job.settings, steps=last, warmup=0.1, schedule="constant")))
        loss, tokens, _ = step.backward(self.at, 0)
        told, _ = Figures(self.at, loss, step.clip_gradients()).read()
        step.update_weights()
        self.at += 1
        return told, {"tokens": tokens, "pairs": len(batch.tokens), "places": batch.tokens.numel()}

    def keep(self) -> dict[str, Any]:
        self.corpus.tokenizer.save(self.run.tokenizer_path)
        self.run.save_settings(self.tables)
        self.job.checkpoints.keep_weights()
        return {}

    def decode(self, lines: int) -> dict[str, float]:
        from regard.trained import load

        if self.trained is None:
            self.trained = load(self.run.path, device="cpu", task="translate")
        sources = self.sources[:lines or None]
        began = time.perf_counter()
        found = self.trained.translate(sources, beam=BEAM)
        return {"seconds": time.perf_counter() - began, "lines": len(found),
                "tokens": sum(each.n_best[0].tokens for each in found),
                "words": sum(len(each.text.split()) for each in found)}


# ----------------------------------------------------------------------------------------------- theirs


class JoeyNMT(Tool):
    """JoeyNMT's own training step, as its TrainManager makes it, and its own `predict`."""

    def __init__(self, folder: Path, feed: int):
        from joeynmt.config import parse_global_args
        from joeynmt.prediction import prepare
        from joeynmt.training import TrainManager

        self.folder, pieces = folder / PEER, folder / "data" / "bpe"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.learn_pieces(folder / "data", pieces)
        self.args = parse_global_args(self.settings(folder / "data", pieces, feed), rank=0, mode="train")
        self.model, self.train_data, self.valid_data, _ = prepare(self.args, rank=0, mode="train")
        self.manager = TrainManager(
            rank=0, model=self.model, model_dir=self.folder, device=self.args.device, n_gpu=0, num_workers=0,
            autocast=self.args.autocast, seed=self.args.seed, train_args=self.args.train, dev_args=self.args.test)
        self.batches, self.at, self.loaded = self.endless(), 0, False

    def learn_pieces(self, data: Path, pieces: Path) -> None:
        """A joint BPE vocabulary by SentencePiece, JoeyNMT's default; one file of it serves both languages."""
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=",".join(str(data / f"train.{end}") for end in ENDS), model_prefix=str(pieces), vocab_size=VOCAB,
            model_type="bpe", character_coverage=1.0)
        lines = pieces.with_suffix(".vocab").read_text("utf-8").splitlines()
        words = [line.split("\t")[0] for line in lines]
        pieces.with_suffix(".txt").write_text("\n".join(words[3:]) + "\n")         # it adds its own marks

    def settings(self, data: Path, pieces: Path, feed: int) -> dict[str, Any]:
        side = {"level": "bpe", "voc_file": str(pieces.with_suffix(".txt")), "tokenizer_type": "sentencepiece",
                "tokenizer_cfg": {"model_file": str(pieces.with_suffix(".model"))}}
        part = {"type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH,
                "ff_size": feed, "dropout": DROPOUT, "layer_norm": "pre",
                "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": DROPOUT}}
        return {
            "name": "bench", "model_dir": str(self.folder), "use_cuda": False, "random_seed": 42,
            "data": {"train": str(data / "train"), "dev": str(data / "valid"), "dataset_type": "plain",
                     "src": {"lang": ENDS[0], **side}, "trg": {"lang": ENDS[1], **side}},
            "training": {"optimizer": "adamw", "adam_betas": [0.9, 0.95], "learning_rate": RATE,
                         "scheduling": "warmupinversesquareroot", "label_smoothing": SMOOTHING, "batch_size": BATCH,
                         "batch_type": "token", "normalization": "tokens", "clip_grad_norm": 1.0,
                         "logging_freq": 100, "validation_freq": 1000},
            "testing": {"beam_size": BEAM, "beam_alpha": 1.0, "batch_size": BATCH, "batch_type": "token",
                        "eval_metrics": []},
            "model": {"initializer": "xavier_uniform", "bias_initializer": "zeros", "tied_embeddings": True,
                      "tied_softmax": True, "encoder": part, "decoder": part}}

    def about(self) -> dict[str, Any]:
        return {"vocab": len(self.model.trg_vocab)}

    def endless(self) -> Iterator[Any]:
        train = self.args.train
        while True:
            yield from self.train_data.make_iter(
                batch_size=train.batch_size, batch_type=train.batch_type, seed=self.args.seed, shuffle=True,
                num_workers=0, device=self.args.device, eos_index=self.model.eos_index,
                pad_index=self.model.pad_index)

    def step(self, last: int) -> tuple[float, dict[str, int]]:
        """As in its `train_and_validate`, without the logs; the rate rises as ours does."""
        manager, batch = self.manager, next(self.batches)
        for group in manager.optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (self.at + 1) / max(1, round(0.1 * last)))
        loss, _ = manager._train_step(batch)
        manager.clip_grad_fun(parameters=self.model.parameters())
        manager.optimizer.step()
        self.model.zero_grad()
        self.at += 1
        return loss, {"tokens": int(batch.ntokens), "pairs": batch.nseqs, "places": batch.trg.numel()}

    def keep(self) -> dict[str, Any]:
        import numpy as np

        np.savez(self.folder / "weights.npz", **{name: each.numpy() for name, each in self.model.state_dict().items()})
        return {}

    def decode(self, lines: int) -> dict[str, float]:
        import numpy as np
        import torch
        from joeynmt.prediction import predict

        if not self.loaded:
            with np.load(self.folder / "weights.npz", allow_pickle=False) as kept:
                self.model.load_state_dict({name: torch.from_numpy(kept[name]) for name in kept.files})
            self.loaded = True
            if lines:
                for lang in ENDS:
                    self.valid_data.data[lang] = self.valid_data.data[lang][:lines]
                self.valid_data.reset_indices(random_subset=-1)
        began = time.perf_counter()
        _, _, texts, pieces, _, _ = predict(
            model=self.model, data=self.valid_data, device=self.args.device, n_gpu=0, args=self.args.test,
            autocast=self.args.autocast)
        return {"seconds": time.perf_counter() - began, "lines": len(texts), "tokens": sum(map(len, pieces)),
                "words": sum(len(text.split()) for text in texts)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
