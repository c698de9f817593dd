"""Training on a CPU beside what one writes with torch.nn, taking turns: milliseconds a step.

    python bench/cpu_peers.py --text multi30k/train.en --json bench/results/cpu_peers.json
    python bench/cpu_peers.py --only nanogpt --rounds 20

    nanogpt   nanoGPT's CPU setting: 4 layers, 4 heads, width 128, 12 x 64 letters, no dropout, AdamW, clipped
    lstm      2 LSTM layers of 200, 20 lanes of 35 words, the vocabulary of the words of Multi30k, SGD, clipped

nanoGPT and the word language model of PyTorch's examples are on no package index, so that their parts are put together
here as they do it: nn.Linear, nn.LayerNorm, scaled_dot_product_attention, a tied output, AdamW in its plain form;
nn.Embedding, nn.LSTM, nn.Linear, nn.CrossEntropyLoss, and w -= rate * gradient by hand, with the state carried on.
Ours is a step of our own loop on a model of the same sizes: batch, forward, backward, clipping, update. `--text` gives
the words of the second; without it they are drawn at random from a vocabulary of the same size.

Steps of ours and of the peer alternate in rounds; who goes first changes. The ratio is the median over the rounds,
beside that of the best rounds and of CPU seconds, which a busy machine disturbs less. For the first, two more take
their turns: ours compiled, which costs half a minute once and is not the default on a CPU; and the kernels of torch
that a step cannot do without, products, attention, GELU and norms, both ways, on memory that is there already, and
nothing else at all. No program that is made of these kernels can be quicker than that.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from worker import cpu

from regard.data.batching.text_batches import Streams, Windows
from regard.data.reading.shards import Counts, Shard
from regard.families import FAMILIES
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep, make_forward_backward

Step = Callable[[], object]
MEASURED = {"nanogpt": 69.0, "lstm": 220.0}                # ms a step of the peer, once, on two cores
BAR = 1.5
LETTERS, WORDS = 65, 9_932                                # kinds: of tinyshakespeare, and of Multi30k's English words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="words for the LSTM, plain or .gz")
    parser.add_argument("--only", choices=MEASURED)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10, help="of each in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)                         # as our training does; it is for the peer, too
    makers = {"nanogpt": nanogpt, "lstm": lambda: lstm(arguments.text)}
    result: dict[str, Any] = {"cpu": cpu(), "threads": arguments.threads, "torch": torch.__version__}
    for name, make in makers.items():
        if arguments.only in (None, name):
            result[name] = figures(name, make(), arguments.rounds, arguments.steps)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def figures(name: str, runners: dict[str, Step], rounds: int, steps: int) -> dict[str, Any]:
    for step in runners.values():
        timed(step, 3)                                     # compiling, allocating, and the optimisers' first state
    found: dict[str, list[tuple[float, float]]] = {who: [] for who in runners}
    for turn in range(rounds):
        for who in list(runners)[::1 if turn % 2 else -1]:
            found[who].append(timed(runners[who], steps))
    wall, cpu = ({who: [each[place] for each in own] for who, own in found.items()} for place in (0, 1))
    ratios = [b / a for a, b in zip(wall["ours"], wall["peer"], strict=True)]
    told: dict[str, Any] = {
        "ms": {who: 1000 * statistics.median(own) for who, own in wall.items()},
        "best_ms": {who: 1000 * min(own) for who, own in wall.items()},
        "ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios),
        "of_the_best": min(wall["peer"]) / min(wall["ours"]), "of_cpu": min(cpu["peer"]) / min(cpu["ours"]),
        "bar": BAR, "peer_measured_once": MEASURED[name], "rounds": rounds}
    print(f"{name:8s} ours {told['ms']['ours']:.1f} ms a step, torch.nn {told['ms']['peer']:.1f}: "
          f"{told['ratio']:.2f} x as fast ({told['lowest']:.2f} to {told['highest']:.2f}; "
          f"best rounds {told['of_the_best']:.2f}, CPU seconds {told['of_cpu']:.2f}); to reach: {BAR}. "
          f"The peer was measured once at {MEASURED[name]:.0f} ms.", flush=True)
    if "compiled" in wall:
        told["compiled"] = statistics.median(b / a for a, b in zip(wall["compiled"], wall["peer"], strict=True))
        print(f"         compiled (training.compile=yes), ours is {told['compiled']:.2f} x as fast.", flush=True)
    if "kernels" in wall:
        told["kernels_alone"] = statistics.median(b / a for a, b in zip(wall["kernels"], wall["peer"], strict=True))
        told["kernels_alone_of_the_best"] = min(wall["peer"]) / min(wall["kernels"])
        print(f"         the kernels of both alone: {told['ms']['kernels']:.1f} ms, so that "
              f"{told['kernels_alone']:.2f} x is the most (best rounds {told['kernels_alone_of_the_best']:.2f}).",
              flush=True)
    return told


def timed(step: Step, times: int) -> tuple[float, float]:
    """Wall and CPU seconds of a step."""
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        step()
    return (time.perf_counter() - began) / times, (time.process_time() - cpu) / times


def our_step(model: Any, batches: Any, settings: TrainingSettings) -> Step:
    """As in training/loop.py, without its validations and saves."""
    ours = TrainingStep(model, batches, settings, make_forward_backward(model, settings, print), print)
    numbers = iter(range(10**9))

    def step() -> float:
        ours.set_rate(1.0)
        loss, _, _ = ours.backward(next(numbers), 0)
        norm = ours.clip_gradients()
        if not math.isfinite(float(loss) + float(norm)):
            raise SystemExit("our loss is no number")
        ours.update_weights()
        return float(loss)

    return step


def shard_of(tokens: Tensor) -> Shard:
    """Tokens as training reads them: narrow numbers, one after another."""
    narrow = tokens.numpy().astype(np.uint16)
    return Shard(Path(), narrow, np.array([len(narrow)], dtype=np.uint64), Counts(len(narrow), 1), "", "")


# ---------------------------------------------------------------------------------------------- nanoGPT


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width, bias=False) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).contiguous().view(batch, time, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norms[1](x)))))


class GPT(nn.Module):
    """nanoGPT's model."""

    def __init__(self, vocab: int, width: int, heads: int, layers: int, context: int):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(0.0)
        self.blocks = nn.ModuleList([GPTBlock(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width, bias=False), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.drop(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)


def nanogpt() -> dict[str, Step]:
    sizes = dict(layers=4, heads=4, width=128, context=64)
    torch.manual_seed(0)
    text = torch.randint(LETTERS, (1_000_000,))
    family = FAMILIES["transformer"]
    assert family.build is not None
    build, how = family.build, family.settings(**sizes, positions="learned", tied=True, dropout=0.0)

    def ours(compiled: str) -> Step:
        settings = TrainingSettings(
            batch=12, steps=1, reading="windows", optimizer="adamw", learning_rate=1e-3, beta2=0.99, weight_decay=0.1,
            compile=compiled)
        batches = Windows(shard_of(text), sizes["context"], 12)
        return our_step(build(how, LETTERS), batches, settings)

    runners = {"ours": ours("auto"), "peer": gpt_step(GPT(LETTERS, 128, 4, 4, 64), text, 12, 64),
               "kernels": gpt_kernels(12 * 64, 128, LETTERS, layers=4, heads=4, context=64)}
    if not any(map(shutil.which, ("g++", "clang++"))):
        print("no C++ compiler here: ours compiled is left out")
        return runners
    return runners | {"compiled": ours("yes")}


def gpt_kernels(rows: int, width: int, vocab: int, *, layers: int, heads: int, context: int) -> Step:
    """Only the kernels of a step: every layer has memory of its own, as what is kept for the way back has."""
    one = [layer_kernels(rows, width, heads, context) for _ in range(layers)]
    head = product_kernels(rows, width, vocab)

    def step() -> None:
        for forward, _ in one:
            forward()
        head()
        for _, backward in one[::-1]:
            backward()

    return step


def product_kernels(rows: int, width: int, out: int) -> Callable[[], None]:
    """A matrix's product on the way forward, and its two on the way back."""
    x, weight, y = torch.randn(rows, width), torch.randn(out, width), torch.randn(rows, out)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)

    def products() -> None:
        torch.mm(x, weight.t(), out=y)
        torch.mm(y, weight, out=dx)
        torch.mm(y.t(), x, out=dw)

    return products


def layer_kernels(rows: int, width: int, heads: int, context: int) -> tuple[Callable[[], None], Callable[[], None]]:
    aten = torch.ops.aten
    products = [product_kernels(rows, *sizes) for sizes in
                ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))]
    q, k, v = (torch.randn(rows // context, heads, context, width // heads) for _ in range(3))
    hidden, x, gain = torch.randn(rows, 4 * width), torch.randn(rows, width), torch.ones(width)
    out, again = torch.empty_like(hidden), torch.empty_like(hidden)
    attended = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    normed = aten.native_layer_norm(x, [width], gain, None, 1e-5)

    def forward() -> None:
        for _ in range(2):
            aten.native_layer_norm(x, [width], gain, None, 1e-5)
        aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
        aten.gelu(hidden, out=out)

    def backward() -> None:
        for each in products:
            each()
        aten.gelu_backward(out, hidden, grad_input=again)
        aten._scaled_dot_product_flash_attention_for_cpu_backward(q, q, k, v, *attended, 0.0, True)
        for _ in range(2):
            aten.native_layer_norm_backward(x, x, [width], *normed[1:], gain, None, [True, True, False])

    return forward, backward


def gpt_step(model: GPT, text: Tensor, rows: int, context: int) -> Step:
    matrices = [each for each in model.parameters() if each.ndim >= 2]
    gains = [each for each in model.parameters() if each.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.99))
    numbers = iter(range(10**9))

    def step() -> None:
        first = torch.randint(len(text) - context, (rows,))
        tokens = torch.stack([text[at:at + context] for at in first])
        targets = torch.stack([text[at + 1:at + 1 + context] for at in first])
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
        loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if next(numbers) % 10 == 0 and not math.isfinite(loss.item()):
            raise SystemExit("the peer's loss is no number")

    return step


# ------------------------------------------------------------------------------------------------- LSTM


class WordModel(nn.Module):
    """The model of PyTorch's word_language_model."""

    def __init__(self, vocab: int, width: int, layers: int):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, vocab)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, hidden: Any) -> tuple[Tensor, Any]:
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        return F.log_softmax(self.decoder(self.drop(output)).view(-1, self.decoder.out_features), 1), hidden


def lstm(text: Path | None) -> dict[str, Step]:
    layers, width, context, rows = 2, 200, 35, 20
    torch.manual_seed(0)
    words, vocab = words_of(text)
    family = FAMILIES["lstm"]
    assert family.build is not None
    model = family.build(
        family.settings(layers=layers, width=width, hidden=width, context=context, tied=False, dropout=0.2), vocab)
    settings = TrainingSettings(
        batch=rows, steps=1, reading="streams", optimizer="sgd", momentum=0.0, learning_rate=1.0, clip=0.25)
    ours = our_step(model, Streams(shard_of(words), context, rows), settings)
    return {"ours": ours, "peer": word_step(WordModel(vocab, width, layers), words, rows, context)}


def words_of(text: Path | None) -> tuple[Tensor, int]:
    """Each word's number, and how many there are; as there, a line ends with <eos>."""
    if text is None:
        print(f"no --text given: the LSTM reads {WORDS:,} kinds of words drawn at random")
        return torch.randint(WORDS, (400_000,)), WORDS
    plain = gzip.decompress(text.read_bytes()) if text.suffix == ".gz" else text.read_bytes()
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(word, len(numbers)) for line in plain.decode().splitlines()
             for word in [*line.split(), "<eos>"]]
    return torch.tensor(found), len(numbers)


def word_step(model: WordModel, words: Tensor, rows: int, context: int) -> Step:
    lanes = words[:len(words) // rows * rows].view(rows, -1).t().contiguous()                # (T, B)
    loss_of, places = nn.NLLLoss(), pieces(len(lanes) - 1, context)
    hidden = None

    def step() -> None:
        nonlocal hidden
        at = next(places)
        tokens, targets = lanes[at:at + context], lanes[at + 1:at + 1 + context].reshape(-1)
        model.zero_grad()
        hidden = None if hidden is None else tuple(each.detach() for each in hidden)
        output, hidden = model(tokens, hidden)
        loss = loss_of(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for weight in model.parameters():
            weight.data.add_(weight.grad, alpha=-1.0)                      # type: ignore[arg-type]
        if not math.isfinite(loss.item()):
            raise SystemExit("the peer's loss is no number")

    return step


def pieces(length: int, context: int) -> Iterator[int]:
    while True:
        yield from range(0, length - context, context)


if __name__ == "__main__":
    main()
