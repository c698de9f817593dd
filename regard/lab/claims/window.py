"""A window model only sees n - 1 words; an n-gram only what it has counted.

    P(w_t | w_1 .. w_{t-1}) = P(w_t | w_{t-n+1} .. w_{t-1})
    add-k           P(w | c) = (count(c w) + k) / (count(c) + k V)
    Kneser-Ney      P(w | c) = discounted count(c w) / count(c) + weight(c) P(w | c without its first word)

A longer context says more about the next word, and fewer of the held-out ones were ever counted. Two estimates from the
same counts show both: add-k counts and normalises, and has nothing to say where a context is new; interpolated
Kneser-Ney falls back to the shorter context there. A window has a weight matrix for each place instead of counts.

On the embedded stories, by word: bits a word of held-out stories against n, and the share of held-out n-grams that were
never counted. And where a text needs what stands farther back than n - 1 words, no window helps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from regard.corpora import stories
from regard.lab.exercises import FIRST, generator, recall_at
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tiny import Exercise, accuracy, far_apart, fit, language_model, loss_on
from regard.models.ngram import NGram

ORDERS = (1, 2, 3, 4, 5, 7)
WINDOWS = (2, 4, 7)
STORIES, HELD_OUT = 1000, 100
MORE = 10                                  # times as many stories to count, flipped
K = 0.01                                   # of add-k: small beside a count of one
NAMES, NOISE = 6, 8
DISTANCES = (1, 2, 3, 4, 5, 6, 8, 10)
ORDER, WIDER = 6, 16                       # of the window that is asked for a name; flipped, the wider one is
WITHIN = ORDER - 3                         # of n - 1 words one is the question and one the name


@cache
def texts(seed: int, count: int = STORIES) -> tuple[list[list[int]], list[list[int]], int]:
    """Stories as word ids, those to learn from and those held out, and how many words there are."""
    every = list(stories.generate(HELD_OUT + count, seed=seed + 1))
    lines = [story.replace(".", " .").replace(",", " ,").split() for story in every]
    words = {word: FIRST + place for place, word in enumerate(sorted({word for line in lines for word in line}))}
    ids = [[words[word] for word in line] for line in lines]
    return ids[HELD_OUT:], ids[:HELD_OUT], FIRST + len(words)


def counted(setting: Setting) -> Values:
    """Bits a word by Kneser-Ney and by add-k, and the share of held-out n-grams that were never counted."""
    learned, held_out, vocab = texts(setting.seed, MORE * STORIES if setting.flipped == "text" else STORIES)
    if setting.flipped == "order":
        learned, held_out = shuffled(learned, setting.seed), shuffled(held_out, setting.seed + 1)
    if setting.flipped == "novelty":
        learned = learned + held_out
    plainly = {} if setting.flipped == "rarity" else dict(smoothing="add-k", k=K)
    stream, ends = joined(learned)
    models = ([NGram.fit(stream, ends, vocab=vocab, order=n, **own) for n in ORDERS]         # type: ignore[arg-type]
              for own in ({}, plainly))
    bits, plain = ([bits_of(model, held_out) for model in each] for each in models)
    return {"bits": bits, "plain": plain, "unseen": [unseen(learned, held_out, n) for n in ORDERS]}


def shuffled(lines: list[list[int]], seed: int) -> list[list[int]]:
    """The words of each line in any order: none says anything about the next."""
    chance = random.Random(seed)
    return [chance.sample(line, len(line)) for line in lines]


def unseen(learned: list[list[int]], held_out: list[list[int]], n: int) -> float:
    """The share of the n-grams of held-out lines that stand in no line learned from."""
    known = {tuple(line[at:at + n]) for line in learned for at in range(len(line) - n + 1)}
    asked = [tuple(line[at:at + n]) for line in held_out for at in range(len(line) - n + 1)]
    return sum(each not in known for each in asked) / len(asked)


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


def drawn(lines: list[list[int]], rows: int, seed: int, step: int) -> Exercise:
    picked = torch.randint(len(lines), (rows,), generator=generator(seed, step)).tolist()
    return padded([lines[at] for at in picked])


def padded(lines: list[list[int]]) -> Exercise:
    longest = max(map(len, lines)) + 1
    tokens = torch.tensor([[1, *line] + [0] * (longest - len(line) - 1) for line in lines])
    targets = torch.tensor([[*line, 2] + [0] * (longest - len(line) - 1) for line in lines])
    lengths = torch.tensor([len(line) + 1 for line in lines])
    return Exercise(tokens, targets, torch.arange(longest) < lengths[:, None], lengths=lengths)


def reach(setting: Setting) -> Values:
    """A name k words ago, asked of a window: what stands farther back cannot be known."""
    order = WIDER if setting.flipped == "width" else ORDER
    model = far_apart(language_model("window", FIRST + 1 + NAMES + NOISE, setting.device, order=order, width=16,
                                     hidden=96, layers=1))
    fit(model, lambda step: recall_at(128, DISTANCES[step % len(DISTANCES)], NAMES, NOISE, setting.seed, step),
        setting.pick(300, 200), rate=1e-2)
    return {"recall": [accuracy(model, recall_at(300, k, NAMES, NOISE, setting.seed, -k)) for k in DISTANCES]}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    return [
        Chart("Quality against n", "n", "bits a word, held-out stories",
              [Line("n-gram, Kneser-Ney", ORDERS, column(seeds, "n-gram", "bits")),
               Line(f"n-gram, add-{K}", ORDERS, column(seeds, "n-gram", "plain")),
               Line("window", WINDOWS, column(seeds, "window", "bits"))], y_from=0),
        Chart("Sparsity", "n", "share of held-out n-grams never seen",
              [Line("n-gram", ORDERS, column(seeds, "n-gram", "unseen"))], y_from=0, y_to=1.02),
        Chart(f"A window of n = {ORDER} and a name k words ago", "words between the name and the question",
              "share recalled", [Line("window", DISTANCES, column(seeds, "reach", "recall"))], y_from=0, y_to=1.03,
              levels=[("chance", 1 / NAMES)])]


def table(seeds: Sequence[Seed]) -> Table:
    def mean(arm: str, key: str, at: int) -> str:
        return f"{sum(values[at] for values in column(seeds, arm, key)) / len(seeds):.2f}"

    rows = [[n, mean("n-gram", "bits", at), mean("n-gram", "plain", at),
             mean("window", "bits", WINDOWS.index(n)) if n in WINDOWS else "", mean("n-gram", "unseen", at)]
            for at, n in enumerate(ORDERS)]
    return Table(["n", "n-gram, Kneser-Ney, bits a word", f"n-gram, add-{K}, bits a word", "window, bits a word",
                  "n-grams never seen"], rows)


def rises(seed: Seed, key: str, first: int, last: int) -> float:
    """By how much a number of the n-gram is larger for the last n than for the first."""
    return float(seed["n-gram"][key][ORDERS.index(last)] - seed["n-gram"][key][ORDERS.index(first)])


EXPERIMENT = Experiment(
    name="window", number=22, title="A window sees n - 1 words, an n-gram what it has counted",
    claim="More words help an n-gram until they are too rare to have been counted; beyond n - 1 words a window knows "
          "nothing.",
    source="lecture 001, recap of language models", equation="P(w_t | w_1 .. w_{t-1}) = P(w_t | w_{t-n+1} .. w_{t-1})",
    refuted="no gain from n = 2 to n = 4, no growing share of unseen n-grams, add-k losing nothing from n = 3 to n = 4 "
            "or from n = 4 to n = 7, or recall beyond the window",
    flips=(Flip("order", "shuffles the words of each story, so that none says anything about the next", ("n-gram",)),
           Flip("novelty", "counts the held-out stories, too: none of their n-grams is new", ("n-gram",)),
           Flip("text", f"counts {MORE} times as many stories", ("n-gram",)),
           Flip("rarity", "estimates by Kneser-Ney in the place of add-k: a rare context falls back to a shorter one",
                ("n-gram",)),
           Flip("width", f"gives the window {WIDER - 1} words instead of {ORDER - 1}", ("reach",))),
    arms=(Arm("n-gram", counted), Arm("window", windowed), Arm("reach", reach)),
    rules=(Rule("from n = 2 to n = 4 the n-gram (Kneser-Ney) saves, in bits a word", lambda s: -rises(s, "bits", 2, 4),
                above=0.2, cause="order"),
           Rule("from n = 2 to n = 7 the share of held-out n-grams that were never counted grows by",
                lambda s: rises(s, "unseen", 2, 7), above=0.2, cause="novelty"),
           Rule(f"from n = 3 to n = 4 the n-gram by add-{K} loses, in bits a word", lambda s: rises(s, "plain", 3, 4),
                above=0.1, cause="text"),
           Rule(f"from n = 4 to n = 7 the n-gram by add-{K} loses, in bits a word", lambda s: rises(s, "plain", 4, 7),
                above=0.5, cause="rarity"),
           Rule(f"with at most {WITHIN} words between the window of n = {ORDER} recalls, at the worst distance",
                lambda s: min(s["reach"]["recall"][:WITHIN]), above=0.9, condition="else it was not trained"),
           Rule(f"with more than {WITHIN} words between it recalls at the best distance, above chance",
                lambda s: max(s["reach"]["recall"][WITHIN:]) - 1 / NAMES, below=0.15, cause="width")),
    charts=charts, table=table,
    fixed=Fixed("2026-11-17", "25e73356fca3",
                after="the rules of add-k were added after a look at bits by n, as \"too rare to "
                "have been counted\" had not been judged: by Kneser-Ney bits fall up to n = 7"),
    notes=f"{STORIES} stories of ours to learn from. Interpolated Kneser-Ney hardly loses by a larger n, as it falls "
          "back to the shorter context: what is too rare costs an estimate that cannot fall back. With ten times the "
          f"text the best n of add-{K} is one larger. Of the {ORDER - 1} words that the window of n = {ORDER} sees one "
          f"is the question, so that a name is within reach if at most {WITHIN} words stand between.")
