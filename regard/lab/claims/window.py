"""A window model only sees n - 1 words; an n-gram only what it has counted.

    P(w_t | w_1 .. w_{t-1}) = P(w_t | w_{t-n+1} .. w_{t-1})

Both are better with a larger n as long as the text has something to say about it. An n-gram counts: the longer the
context, the fewer of the held-out ones it has ever seen, and without smoothing what was not seen is impossible. A
window has a weight matrix for each place instead, and can say something about contexts it has never seen.

On the embedded stories, by word: bits per word of held-out stories against n, and the share of held-out n-grams that
were never counted. And where a text needs what stands farther back than n - 1 words, no window helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tasks import FIRST, generator, recall_at
from regard.lab.tiny import Batch, accuracy, far_apart, fit, language_model, loss_on
from regard.models.ngram import NGram
from regard.text import stories

ORDERS = (1, 2, 3, 4, 5, 7)
WINDOWS = (2, 4, 7)
STORIES, HELD_OUT = 1000, 100
NAMES, NOISE = 6, 8
DISTANCES = (1, 2, 3, 4, 5, 6, 8, 10)
ORDER, WIDER = 6, 16                       # of the window that is asked for a name; flipped, the wider one is
WITHIN = ORDER - 3                         # of n - 1 words one is the question and one the name


@cache
def texts(seed: int) -> tuple[list[list[int]], list[list[int]], int]:
    """Stories as word ids, those to learn from and those held out, and how many words there are."""
    every = stories.generate(STORIES + HELD_OUT, seed=seed + 1)
    lines = [story.replace(".", " .").replace(",", " ,").split() for story in every]
    words = {word: FIRST + place for place, word in enumerate(sorted({word for line in lines for word in line}))}
    ids = [[words[word] for word in line] for line in lines]
    return ids[:STORIES], ids[STORIES:], FIRST + len(words)


def counted(setting: Setting) -> Values:
    learned, held_out, vocab = texts(setting.seed)
    stream, ends = joined(learned)
    bits, unseen = [], []
    for n in ORDERS:
        bits.append(bits_of(NGram.fit(stream, ends, vocab=vocab, order=n), held_out))
        known = {tuple(line[at:at + n]) for line in learned for at in range(len(line) - n + 1)}
        asked = [tuple(line[at:at + n]) for line in held_out for at in range(len(line) - n + 1)]
        unseen.append(sum(each not in known for each in asked) / len(asked))
    return {"bits": bits, "unseen": unseen}


def joined(lines: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    stream = np.array([word for line in lines for word in (*line, 2)])                # <eos>
    return stream, np.array([len(line) + 1 for line in lines]).cumsum()


def bits_of(model: NGram, lines: list[list[int]]) -> float:
    """Bits a word, each line's end counted as one."""
    batch = padded(lines)
    scores, _ = model.score(batch.tokens, batch.targets, None, batch.lengths)
    return -float(scores.double()[batch.counts].sum()) / math.log(2) / int(batch.counts.sum())


def windowed(setting: Setting) -> Values:
    learned, held_out, vocab = texts(setting.seed)
    bits = []
    for n in WINDOWS:
        model = far_apart(language_model("window", vocab, setting.device, order=n, width=24, hidden=96, layers=1))
        fit(model, lambda step: drawn(learned, 24, setting.seed, step), setting.pick(160, 120), rate=1e-2)
        bits.append(loss_on(model, padded(held_out)) / math.log(2))
    return {"bits": bits}


def drawn(lines: list[list[int]], rows: int, seed: int, step: int) -> Batch:
    picked = torch.randint(len(lines), (rows,), generator=generator(seed, step)).tolist()
    return padded([lines[at] for at in picked])


def padded(lines: list[list[int]]) -> Batch:
    longest = max(map(len, lines)) + 1
    tokens = torch.tensor([[1, *line] + [0] * (longest - len(line) - 1) for line in lines])
    targets = torch.tensor([[*line, 2] + [0] * (longest - len(line) - 1) for line in lines])
    lengths = torch.tensor([len(line) + 1 for line in lines])
    return Batch(tokens, targets, torch.arange(longest) < lengths[:, None], lengths=lengths)


def reach(setting: Setting) -> Values:
    """A name k words ago, asked of a window: what stands farther back cannot be known."""
    order = WIDER if setting.flipped else ORDER
    model = far_apart(language_model("window", FIRST + 1 + NAMES + NOISE, setting.device, order=order, width=16,
                                     hidden=96, layers=1))
    fit(model, lambda step: recall_at(128, DISTANCES[step % len(DISTANCES)], NAMES, NOISE, setting.seed, step),
        setting.pick(300, 200), rate=1e-2)
    return {"recall": [accuracy(model, recall_at(300, k, NAMES, NOISE, setting.seed, -k)) for k in DISTANCES]}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    return [
        Chart("Quality against n", "n", "bits a word, held-out stories",
              [Line("n-gram", ORDERS, column(seeds, "n-gram", "bits")),
               Line("window", WINDOWS, column(seeds, "window", "bits"))], y_from=0),
        Chart("Sparsity", "n", "share of held-out n-grams never seen",
              [Line("n-gram", ORDERS, column(seeds, "n-gram", "unseen"))], y_from=0, y_to=1.02),
        Chart(f"A window of n = {ORDER} and a name k words ago", "words between the name and the question",
              "share recalled", [Line("window", DISTANCES, column(seeds, "reach", "recall"))], y_from=0, y_to=1.03,
              levels=[("chance", 1 / NAMES)])]


def table(seeds: Sequence[Seed]) -> Table:
    def mean(arm: str, key: str, at: int) -> str:
        return f"{sum(values[at] for values in column(seeds, arm, key)) / len(seeds):.2f}"

    rows = [[n, mean("n-gram", "bits", at), mean("window", "bits", WINDOWS.index(n)) if n in WINDOWS else "",
             mean("n-gram", "unseen", at)] for at, n in enumerate(ORDERS)]
    return Table(["n", "n-gram, bits a word", "window, bits a word", "n-grams never seen"], rows)


EXPERIMENT = Experiment(
    name="window", number=22, title="A window sees n - 1 words, an n-gram what it has counted",
    claim="More words help until they are too rare to have been counted; beyond n - 1 words a window knows nothing.",
    source="lecture 001, recap of language models", equation="P(w_t | w_1 .. w_{t-1}) = P(w_t | w_{t-n+1} .. w_{t-1})",
    refuted="no gain from n = 2 to n = 4, no growing share of unseen n-grams, or recall beyond the window",
    flips=(Flip("cause", "gives the window 15 words instead of 5"),),
    arms=(Arm("n-gram", counted), Arm("window", windowed), Arm("reach", reach)),
    rules=(Rule("from n = 2 to n = 4 the n-gram gains, in bits a word",
                lambda s: s["n-gram"]["bits"][1] - s["n-gram"]["bits"][3], above=0.2),
           Rule("from n = 2 to n = 7 the share of n-grams never seen grows by",
                lambda s: s["n-gram"]["unseen"][5] - s["n-gram"]["unseen"][1], above=0.2),
           Rule("within its reach the window recalls", lambda s: min(s["reach"]["recall"][:WITHIN]), above=0.9),
           Rule("beyond it at most, above chance", lambda s: max(s["reach"]["recall"][WITHIN:]) - 1 / NAMES,
                below=0.15)),
    charts=charts, table=table,
    notes=f"{STORIES} stories of ours to learn from. Of the {ORDER - 1} words that the window of n = {ORDER} sees one "
          f"is the question, so that a name is within reach if at most {WITHIN} words stand between.")
