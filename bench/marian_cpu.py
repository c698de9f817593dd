"""A translator of Marian's size on a CPU beside transformers and CTranslate2, taking turns: target tokens a second.

    python bench/marian_cpu.py --peer VENV/bin/python --json bench/results/marian_cpu.json
    python bench/marian_cpu.py                                 ours alone, beside figures that were measured once

`--peer` is a Python of its own with torch, transformers, ctranslate2 and sentencepiece; what is missing there is said
and left out. Same shape on all sides: 6+6 layers, width 512, 8 heads, feed-forward 2,048 with ReLU, normalised after
each part, sinusoids, one matrix of 32,000 tokens for both languages and the output: 61 million parameters, random. So
nothing ends by itself: every source is answered by 15 tokens exactly. 100 sources of 8 to 24 tokens, sorted by length,
32 at a time, by beam 1 and by beam 5. Everything is float32, but for CTranslate2's int8, which is told beside it.

Every tool is a process of its own that waits for its turn, so that one works at a time and a busy machine is busy for
all. Two more take their turns: the matrix products of our search alone, on the packed weights, and all its kernels,
one after another, with nothing between them and on numbers that are at hand; how far ahead of a peer the second is, our
search by these kernels cannot be. A round is one turn of each; the first warms up.
The ratio is the median of those of the rounds; beside it stands that of the best turns, which a busy machine disturbs
least, and that of the CPU seconds used.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from worker import Worker, answer, cpu

LAYERS, WIDTH, HEADS, FEED, VOCAB, NEW, ROWS, SOURCES = 6, 512, 8, 2048, 32_000, 15, 32, 100
OURS, ALONE, BEAMS = "regard", ("products", "kernels"), (1, 5)
LEAST = 1000                               # numbers of a tensor that makes a kernel worth its time
PEERS = ("transformers", "ctranslate2", "ctranslate2-int8")
MEASURED = {"transformers": {1: 322, 5: 117}, "ctranslate2": {1: 384, 5: 297}, "ctranslate2-int8": {1: 898, 5: 338}}
BARS = {"transformers": {1: 1.3, 5: 2.5}, "ctranslate2": {1: 1.0, 5: 1.0}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python with transformers and ctranslate2")
    parser.add_argument("--rounds", type=int, default=5, help="beside the first, which is not counted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=VOCAB)
    parser.add_argument("--sources", type=int, default=SOURCES)
    parser.add_argument("--only", nargs="*", choices=PEERS, help="run only these peers")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.peer is not None and not Path(arguments.peer).is_file():
        parser.error(f"there is no file {arguments.peer}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        workers = start(arguments, Path(folder), stack)
        result = measure(workers, arguments)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def start(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> dict[str, Worker]:
    def worker_of(name: str, python: str) -> Worker:
        words = name, folder, arguments.vocab, arguments.sources, arguments.threads
        return stack.enter_context(Worker(name, python, __file__, words, folder, arguments.threads))

    workers = {name: worker_of(name, sys.executable) for name in (OURS, *ALONE)}
    if arguments.peer is None:
        print("no --peer given: ours is compared with what was measured once, on another day")
    for name in (arguments.only or PEERS) if arguments.peer is not None else ():
        worker = worker_of(name, arguments.peer)
        if "missing" in worker.about:
            print(f"{name} is left out: {worker.about['missing']}")
        else:
            workers[name] = worker
    for name, worker in workers.items():
        print(f"{name:17s} {worker.about['version']}, {worker.about['parameters']:,} parameters", flush=True)
    return workers


def measure(workers: dict[str, Worker], arguments: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {
        "cpu": cpu(), "threads": arguments.threads, "vocab": arguments.vocab, "sources": arguments.sources,
        "tools": {name: worker.about for name, worker in workers.items()}}
    for beam in BEAMS:
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        for number in range(arguments.rounds + 1):
            for name, worker in workers.items():
                found = worker.ask(beam)
                if number:
                    turns[name].append(found)
        result[f"beam {beam}"] = figures(beam, turns)
    return result


def figures(beam: int, turns: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, own in turns.items():
        speeds = [turn["tokens"] / turn["seconds"] for turn in own]
        found[name] = {"tokens_a_second": statistics.median(speeds), "best": max(speeds),
                       "cpu_seconds": min(turn["cpu"] for turn in own), "turns": own}
        print(f"beam {beam} {name:17s} {statistics.median(speeds):8,.0f} tokens/s (best {max(speeds):,.0f})")
    for name in PEERS:
        told = MEASURED[name][beam]
        ratios = {"to_measured_once": found[OURS]["tokens_a_second"] / told}
        line = f"{ratios['to_measured_once']:.2f} x the {told} tokens/s measured once"
        if name in turns:
            alone = {f"{each}_alone": against(turns[each], turns[name])["ratio"] for each in ALONE}
            ratios |= against(turns[OURS], turns[name]) | alone
            line = (f"{ratios['ratio']:.2f} x {name} (best turns {ratios['of_the_best']:.2f}, "
                    f"CPU seconds {ratios['of_cpu']:.2f}); its kernels alone {alone['kernels_alone']:.2f} x, its "
                    f"products alone {alone['products_alone']:.2f} x; {line}")
        bar = BARS.get(name, {}).get(beam)
        print(f"beam {beam}   ours is {line}" + ("" if bar is None else f"; to reach: {bar}"), flush=True)
        found[f"against {name}"] = ratios | ({} if bar is None else {"bar": bar})
    return found


def against(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> dict[str, float]:
    rounds = [(b["seconds"] / b["tokens"]) / (a["seconds"] / a["tokens"]) for a, b in zip(ours, theirs, strict=True)]
    best, their_best = (min(turn["seconds"] / turn["tokens"] for turn in turns) for turns in (ours, theirs))
    cpu, their_cpu = (min(turn["cpu"] / turn["tokens"] for turn in turns) for turns in (ours, theirs))
    return {"ratio": statistics.median(rounds), "lowest": min(rounds), "highest": max(rounds),
            "of_the_best": their_best / best, "of_cpu": their_cpu / cpu}


# ------------------------------------------------------------------------------------------- the other end


def serve(name: str, folder: Path, vocab: int, sources: int, threads: int) -> None:
    """What is asked is a number of beams."""
    kind: Any = {OURS: Regard, "transformers": Transformers}.get(name, Alone if name in ALONE else CTranslate2)
    texts = made_up(sources, vocab)

    def begin() -> tuple[Any, Callable[[list[str]], Any]]:
        try:
            tool = kind(name, folder, vocab, threads)
        except ImportError as error:
            return {"missing": str(error)}, lambda words: {}
        return tool.about, lambda words: translated(tool, int(words[0]))

    def translated(tool: Any, beam: int) -> dict[str, float]:
        began, cpu = time.perf_counter(), time.process_time()
        tokens = tool.translate(texts, beam)
        assert tokens == NEW * sources, f"{name} wrote {tokens} tokens in place of {NEW * sources}"
        return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "tokens": tokens}

    answer(begin)


def made_up(sources: int, vocab: int) -> list[list[int]]:
    """Sources without special tokens, the longest first, for all tools alike."""
    draw = random.Random(0)
    texts = [[draw.randrange(4, vocab - 1) for _ in range(draw.randint(8, 24))] for _ in range(sources)]
    return sorted(texts, key=len, reverse=True)


class Regard:
    """Ours, called as `regard translate` calls it."""

    def __init__(self, name: str, folder: Path, vocab: int, threads: int):
        import torch

        from regard.families.translate import PairTransformerSettings, Vocabularies, build_transformer

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        settings = PairTransformerSettings(
            layers=LAYERS, width=WIDTH, heads=HEADS, expand=FEED / WIDTH, activation="relu", placement="post",
            positions="sinusoidal", context=128, tied=True, dropout=0.0)
        self.model = build_transformer(settings, Vocabularies(vocab, vocab, shared=True)).eval()
        parameters = sum(each.numel() for each in self.model.parameters())
        self.about = {"version": f"regard on torch {torch.__version__}", "parameters": parameters}

    def translate(self, texts: list[list[int]], beam: int) -> int:
        from regard.decoding.beam import BeamOptions, search_batches
        from regard.decoding.source_batches import text_batches
        from regard.decoding.special_tokens import SpecialTokens

        begin, end, written = 1, 2, 0
        special_tokens = SpecialTokens(begin, end, banned=(0, 1, 2, 3))  # the end, too: all write equally many
        for first in range(0, len(texts), ROWS):
            some = [[*text, end] for text in texts[first:first + ROWS]]
            room = ROWS * beam * max(map(len, some))
            batches = text_batches(self.model, some, NEW, beam, at_once=room)
            found = search_batches(self.model, batches, special_tokens, BeamOptions(beam))
            written += sum(len(best[0].tokens) for best in found)
        return written


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Alone(Regard):
    """The kernels of that search, or only its products, on the same weights and on inputs of the same sizes."""

    def __init__(self, name: str, *arguments: Any):
        super().__init__(name, *arguments)
        self.name = name
        self.found: dict[int, list[Call]] = {}

    def translate(self, texts: list[list[int]], beam: int) -> int:
        import torch

        if beam not in self.found:
            with noted(self.name == "products", {each.data_ptr() for each in self.model.parameters()}) as calls:
                super().translate(texts, beam)
            self.found[beam] = calls
        with torch.no_grad():
            for kernel, values, options in self.found[beam]:
                kernel(*values, **options)
        return NEW * len(texts)


@contextmanager
def noted(products: bool, weights: set[int]) -> Iterator[list[Call]]:
    """Everything of some size that is worked out in this block, or every product: the operation, and what to call it
    with. Weights are themselves, and whole numbers what they were; of other tensors one of each shape is for all."""
    import torch
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten, tree_map

    from regard.kernels.cpu import native

    calls: list[Call] = []
    at_hand: dict[Any, Tensor] = {}
    multiply = (torch.ops.mkl._mkl_linear.default, torch.ops.mkldnn._linear_pointwise.default,
                torch.ops.aten.mm.default, torch.ops.aten.addmm.default)

    def stand_in(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.data_ptr() in weights:
            return value
        if not value.is_floating_point():
            return value.clone()
        shape, stride = tuple(value.shape), value.stride()
        if (shape, stride, value.dtype) not in at_hand:
            room = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
            at_hand[shape, stride, value.dtype] = torch.randn(room, dtype=value.dtype).as_strided(shape, stride)
        return at_hand[shape, stride, value.dtype]

    class Notes(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
            options = options or {}
            sizes = [each.numel() for each in tree_flatten((arguments, options))[0]
                     if isinstance(each, Tensor) and each.layout == torch.strided and each.is_floating_point()]
            if function in multiply if products else not function.is_view and max(sizes, default=0) >= LEAST:
                calls.append((function, tree_map(stand_in, arguments), tree_map(stand_in, options)))
            return function(*arguments, **options)

    def in_c(name: str, *values: Any) -> None:
        if not products:
            calls.append((in_c_itself, (name, *map(stand_in, values)), {}))
        in_c_itself(name, *values)

    in_c_itself, native.call = native.call, in_c
    try:
        with Notes():
            yield calls
    finally:
        native.call = in_c_itself


def marian(vocab: int) -> Any:
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    return MarianMTModel(MarianConfig(
        vocab_size=vocab, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=FEED, decoder_ffn_dim=FEED, activation_function="relu",
        max_position_embeddings=128, scale_embedding=True, dropout=0.0, pad_token_id=vocab - 1, eos_token_id=0,
        decoder_start_token_id=vocab - 1, forced_eos_token_id=None)).eval()


class Transformers:
    """`generate` of MarianMTModel."""

    def __init__(self, name: str, folder: Path, vocab: int, threads: int):
        import torch
        import transformers

        torch.set_num_threads(threads)
        self.model = marian(vocab)
        self.about = {"version": f"{transformers.__version__} on torch {torch.__version__}",
                      "parameters": self.model.num_parameters()}

    def translate(self, texts: list[list[int]], beam: int) -> int:
        import torch

        pad, written = self.model.config.pad_token_id, 0
        for first in range(0, len(texts), ROWS):
            some = [[*text, 0] for text in texts[first:first + ROWS]]
            longest = max(map(len, some))
            items = torch.tensor([text + [pad] * (longest - len(text)) for text in some])
            with torch.inference_mode():
                found = self.model.generate(input_ids=items, attention_mask=(items != pad).long(), num_beams=beam,
                                            do_sample=False, min_new_tokens=NEW, max_new_tokens=NEW)
            written += found[:, 1:].numel()
        return written


class CTranslate2:
    """The same random model, converted."""

    def __init__(self, name: str, folder: Path, vocab: int, threads: int):
        import ctranslate2
        from ctranslate2.converters.transformers import MarianMTLoader

        model, words = marian(vocab), ["</s>", "<unk>", *(f"w{number}" for number in range(2, vocab - 1))]
        spec = MarianMTLoader().get_model_spec(model)
        spec.register_source_vocabulary(list(words))
        spec.register_target_vocabulary(list(words))
        spec.config.eos_token, spec.config.unk_token, spec.config.decoder_start_token = "</s>", "<unk>", "</s>"
        spec.config.add_source_eos = False
        spec.validate()
        kind = "int8" if name.endswith("int8") else "float32"
        spec.optimize(quantization=None if kind == "float32" else kind)
        where = folder / name
        where.mkdir()
        spec.save(str(where))
        self.translator = ctranslate2.Translator(
            str(where), device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads)
        self.about = {"version": f"{ctranslate2.__version__} {self.translator.compute_type}",
                      "parameters": model.num_parameters()}

    def translate(self, texts: list[list[int]], beam: int) -> int:
        some = [[f"w{token}" for token in text] + ["</s>"] for text in texts]
        found = self.translator.translate_batch(some, max_batch_size=ROWS, beam_size=beam, min_decoding_length=NEW,
                                                max_decoding_length=NEW)
        return sum(len(each.hypotheses[0]) for each in found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:7]))
    else:
        main()
