"""Searches that are drawn: models of every family with a handful of words, so that every target there is can be tried.

What a search finds is compared with all targets, whose probabilities `score` gives, a whole row at once; the search
asks `step`. One beam and greedy generation are compared with the best word, tried one by one.
"""

import itertools
import math
from dataclasses import dataclass

import torch

from regard.contract import Source
from regard.decoding.beam import BeamOptions, beam_search
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.families.translate import Vocabularies
from tests.laws.drawn_models import FAMILIES_BY_TASK, build, count, mix

PAD, BOS, EOS = 0, 1, 2
SAME = 1e-9                                                  # log p as near as this are a tie
WORD_FAMILIES = [name for name in FAMILIES_BY_TASK if name.startswith(("lm-", "translate-", "caption-"))]


@dataclass
class Drawn:
    """A model, the items of each source (or nothing), what is read first, and a limit for each source."""

    model: object
    sources: list
    prompt: tuple
    limits: list
    told: str

    @property
    def words(self):
        return range(EOS + 1, self.model.vocab)

    def source(self, numbers):
        if not self.sources:
            return None
        items = [self.sources[number] for number in numbers]
        if isinstance(items[0], torch.Tensor):
            return Source(torch.stack(items))
        lengths = torch.tensor([len(each) for each in items])
        padded = torch.zeros(len(items), int(lengths.max()), dtype=torch.long)
        for row, each in enumerate(items):
            padded[row, :len(each)] = torch.tensor(each)
        return Source(padded, lengths)


def draw_search(name, choose):
    task, family = name.partition("-")[0], FAMILIES_BY_TASK[name]
    torch.manual_seed(choose(range(1000)))
    vocab, rows = choose((5, 6, 4)), choose((1, 2, 3))
    sources, prompt = [], (BOS,)
    if task == "translate":
        read = choose((7, 4, 9))
        model, settings = build(family, Vocabularies(read, vocab), choose)
        sources = [[choose(range(read)) for _ in range(choose((1, 2, 3)))] for _ in range(rows)]
    elif task == "caption":
        model, settings = build(family, vocab, choose)
        sources = list(torch.randint(0, 256, (rows, 3, settings.image, settings.image), dtype=torch.uint8))
    else:
        model, settings = {"ngram": count, "mixture": mix}.get(family.name, lambda *given: build(family, *given))(
            vocab, choose)
        prompt = (BOS, *(choose(range(EOS + 1, vocab)) for _ in range(choose((0, 1, 3)))))
    limits = [choose((3, 1, 2, 4)) for _ in range(rows)]
    return Drawn(model, sources, prompt, limits, f"{name}, {vocab} tokens, sources {len(sources)}, {prompt}, {limits}, "
                                                 f"{settings}")


# --------------------------------------------------------------------------------------- by definition


@torch.no_grad()
def log_probs(drawn, number, targets):
    """log p of each of these targets (their tokens, the end included where it is meant)."""
    longest = max(map(len, targets))
    tokens = torch.zeros(len(targets), len(drawn.prompt) + longest, dtype=torch.long)
    for row, target in enumerate(targets):
        tokens[row, :len(drawn.prompt) + len(target)] = torch.tensor((*drawn.prompt, *target))
    lengths = torch.tensor([len(drawn.prompt) + len(target) - 1 for target in targets])
    state = drawn.model.start(len(targets), None, drawn.source([number])) if drawn.sources else None
    scores, _ = drawn.model.score(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), state, lengths)
    first = len(drawn.prompt) - 1
    return [float(scores[row, first:first + len(target)].sum()) for row, target in enumerate(targets)]


def everything(drawn, number, options, force):
    """(score, tokens) of every target that is possible, with its end within the limit, best first."""
    texts = [text for length in range(drawn.limits[number]) for text in itertools.product(drawn.words, repeat=length)
             if allowed(text, options.no_repeat) and text[:len(force)] == force]
    found = zip(texts, log_probs(drawn, number, [(*text, EOS) for text in texts]), strict=True)
    return sorted(((value / (len(text) + 1) ** options.length, text) for text, value in found
                   if value > -math.inf), reverse=True)


def allowed(text, no_repeat):
    grams = [text[at:at + no_repeat] for at in range(len(text) - no_repeat + 1)] if no_repeat else []
    return len(grams) == len(set(grams))


def greedy(drawn, number):
    """The best word at each place, tried one by one; None if two are as good."""
    text = []
    while len(text) < drawn.limits[number]:
        choices = (EOS, *drawn.words)
        values = log_probs(drawn, number, [(*text, each) for each in choices])
        best, next_best = sorted(values, reverse=True)[:2]
        if best - next_best < SAME:
            return None
        chosen = choices[values.index(best)]
        if chosen == EOS:
            break
        text.append(chosen)
    return tuple(text)


# ------------------------------------------------------------------------------------------- what is compared


def search(drawn, options, force=()):
    numbers = range(len(drawn.limits))
    return beam_search(drawn.model, drawn.source(numbers), limits=drawn.limits, begin=drawn.prompt, end=EOS,
                       options=options, banned=(PAD, BOS), force=force)


def wrong_search(drawn, choose):
    """What a search wide enough for everything finds, beside everything; what differs, or nothing."""
    words, most = len(drawn.words), max(drawn.limits)
    beams = sum(words**length for length in range(most)) + words ** (most - 1) * (words + 1)      # none is left out
    options = BeamOptions(width=beams, n_best=min(beams, choose((3, 1, 40))), length=choose((1.0, 0.0, 0.5, 2.0)),
                          no_repeat=choose((0, 0, 1, 2)))
    force = tuple(choose(drawn.words) for _ in range(choose((0, 0, 1)))) if min(drawn.limits) > 1 else ()
    for number, found in enumerate(search(drawn, options, force)):
        tried = everything(drawn, number, options, force)
        if len(found) != min(options.n_best, len(tried)):
            return f"source {number}: {len(found)} targets, not {min(options.n_best, len(tried))} with {options}"
        values = {text: value for value, text in tried}
        for at, each in enumerate(found):
            best, text = tried[at]
            own = values.get(each.tokens, math.inf)
            if abs(own - each.score) > SAME or abs(best - each.score) > SAME:
                return f"source {number}: place {at + 1} is {each}, not {text} with {best}; {options}, forced {force}"
    return ""


def wrong_greed(drawn):
    """One beam and greedy generation, beside the best word of each place."""
    texts = generated(drawn)
    for number, (best,) in enumerate(search(drawn, BeamOptions(width=1))):
        expected = greedy(drawn, number)
        if expected is None:
            continue
        if best.tokens != expected:
            return f"source {number}: one beam says {best.tokens}, the best words are {expected}"
        if texts[number] != expected:
            return f"source {number}: greedy says {texts[number]}, the best words are {expected}"
    return ""


def generated(drawn):
    rows = len(drawn.limits)
    texts = [[] for _ in range(rows)]
    for step in generate_tokens(drawn.model, [drawn.prompt] * rows, new_tokens=max(drawn.limits), end=EOS,
                                sampling=Sampling(temperature=0), banned=(PAD, BOS),
                                source=drawn.source(range(rows)), limits=drawn.limits):
        for text, token in zip(texts, step, strict=True):
            if token not in (None, EOS):
                text.append(token)
    return [tuple(text) for text in texts]
