"""Speculative generation beside plain generation: tokens a second, in turns, on one model and one machine.

    python bench/speculate.py runs/notes-transformer                 continue a story that repeats itself
    python bench/speculate.py runs/notes-transformer --draft runs/notes-ngram
    python bench/speculate.py runs/code --text module.py --tokens 400       continue a file of one's own
    python bench/speculate.py                                        train a small model first, for a minute

Two texts are continued. After the `given` one few guesses may stand. The model's `own` is that text with what the model
wrote after it, greedily and for long: models come to go in circles then, and guesses stand often.

Each text is written plainly and with each kind of draft, greedily and sampled, with the same seed; rounds alternate,
and the median of each counts. `same` says that the tokens are the same. `passes` are those a token: 1 without a draft.
The first line says what a pass over several tokens costs, measured in passes over one: below it no draft can go. It is
for a CPU: on a GPU drafts gained nothing, and every text is written without them.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import regard
from regard.decoding.fast.drafts import Acceptance, Speculation
from regard.decoding.fast.speculative import after_each
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.models.neural import NeuralLM
from regard.tasks.lm.trained import Trained

STORY = ("Mia had three plums. Tom had two plums. Mia gave one plum to Tom. Then Mia had two plums. Then Tom had three "
         "plums. ") * 3
OWN = 400                      # tokens of a model's own text
WAYS = {"greedy": Sampling(0.0), "sampled": Sampling(0.7, top_p=0.9, seed=1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", help="a run of a language model; none: a small one is trained")
    parser.add_argument("--draft", help="a run of an n-gram with the same tokenizer")
    parser.add_argument("--text", type=Path, help="what to continue; none: a story")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--draft-tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = regard.load(arguments.run, arguments.device, task="lm") if arguments.run else small()
    draft = regard.load(arguments.draft, "cpu", task="lm") if arguments.draft else None
    prompt = arguments.text.read_text() if arguments.text else STORY
    ways = speculations(model, draft, arguments.draft_tokens)
    result = about(model) | {"pass": cost_of_a_pass(model, arguments.draft_tokens + 1), "texts": []}
    print(f"{result['family']}, {result['parameters']:,} parameters, {result['machine']}; a pass over "
          f"{arguments.draft_tokens + 1} tokens takes {result['pass']:.2f} times one over 1")
    print(f"{'text':6} {'':8} {'draft':14} {'tokens/s':>9} {'ratio':>6} {'passes':>7} {'stood':>6}  same")
    given = [model.tokenizer.bos, *model.tokenizer.encode(prompt).tolist()]
    for text, ids in {"given": given, "own": given + own_text(model, given)}.items():
        for name, how in WAYS.items():
            for row in measure(model, ids, arguments.tokens, how, ways, arguments.rounds):
                result["texts"].append({"text": text, "how": name} | row)
                print(f"{text:6} {name:8} {row['draft']:14} {row['speed']:9.0f} {row['ratio']:6.2f} "
                      f"{row['passes']:7.2f} {row['rate']:6.0%}  {row['same']}", flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def small() -> Trained:
    """A small Transformer over words of the embedded stories, read as one long text that does not end."""
    tables = {"tokenizer": {"kind": "word"}, "data": {"documents": "file"}}
    with tempfile.TemporaryDirectory() as folder:
        return regard.train("stories", family="transformer", settings=tables, minutes=1, out=str(Path(folder) / "run"),
                            quiet=True)


def own_text(model: Trained, given: list[int]) -> list[int]:
    """What the model goes on to write, greedily and without an end."""
    t = model.tokenizer
    steps = generate_tokens(model.model, [given], new_tokens=OWN, sampling=WAYS["greedy"],
                            banned=(t.pad, t.bos, t.unk, t.eos))
    return [token for token, in steps if token is not None]


def speculations(model: Trained, draft: Trained | None, ahead: int) -> dict[str, Speculation | None]:
    ways = {"none": None, "prompt": model.speculation("prompt", ahead=ahead),
            "ngram (prompt)": model.speculation("ngram", ahead=ahead)}
    return ways if draft is None else ways | {"ngram (run)": model.speculation("ngram", draft, ahead)}


def about(model: Trained) -> dict[str, Any]:
    device = model.model.device
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"family": model.family, "parameters": model.parameters, "torch": torch.__version__, "machine": machine,
            "threads": torch.get_num_threads()}


@torch.no_grad()
def cost_of_a_pass(model: Trained, width: int, past: int = 64) -> float:
    """What a pass over `width` tokens takes, in passes over one token, both after the same past."""
    lm = model.model
    assert isinstance(lm, NeuralLM), f"{model.family} has no passes to spare"
    past = min(past, (lm.context or 4 * past) // 2)
    times: dict[int, list[float]] = {1: [], width: []}
    for _ in range(20):
        for size, taken in times.items():
            tokens = torch.full((1, past + size), model.tokenizer.eos, device=lm.device)
            _, state = lm.step(tokens[:, :past], lm.start(1, past + size))
            lengths, first = torch.tensor([size], device=lm.device), torch.zeros(1, dtype=torch.long, device=lm.device)
            began = now(lm.device)
            after_each(lm, tokens[:, past:], state, lengths, first, size)
            taken.append(now(lm.device) - began)
    return statistics.median(times[width]) / statistics.median(times[1])


def measure(
    model: Trained, prompt: list[int], new_tokens: int, how: Sampling, ways: dict[str, Speculation | None], rounds: int
) -> list[dict[str, Any]]:
    """A row of figures for each way to write the same text."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    texts: dict[str, list[int | None]] = {}
    tallies: dict[str, Acceptance] = {}
    for turn in range(rounds + 1):                                    # the first is for warming up
        for name, speculation in ways.items():
            tallies[name] = Acceptance()
            began = now(model.model.device)
            steps = list(model.steps([prompt], new_tokens=new_tokens, sampling=how, speculation=speculation,
                                     tally=tallies[name]))
            taken = now(model.model.device) - began
            texts[name] = [step[0] for step in steps if step[0] is not None]
            if turn:
                speeds[name].append(len(texts[name]) / taken)
    plain = statistics.median(speeds["none"])
    return [{"draft": name, "speed": statistics.median(speeds[name]), "tokens": len(texts[name]),
             "ratio": statistics.median(speeds[name]) / plain,
             "passes": tallies[name].passes_per_token if speculation else 1.0, "rate": tallies[name].rate,
             "same": texts[name] == texts["none"]} for name, speculation in ways.items()]


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    main()
