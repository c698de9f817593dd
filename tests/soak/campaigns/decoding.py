"""Searches of models with a handful of words: beam search finds what trying everything finds, one beam is greedy."""

from random import Random

from tests.soak.campaign import Campaign, Failure


def prepare(folder):
    import torch

    import tests.decoding.drawn_searches  # noqa: F401

    torch.set_num_threads(1)


def run(seed, folder):
    from tests.decoding.drawn_searches import WORD_FAMILIES, draw_search, wrong_greed, wrong_search

    choose = Random(f"decoding {seed}").choice
    drawn = draw_search(WORD_FAMILIES[seed // 2 % len(WORD_FAMILIES)], choose)
    wrong = wrong_greed(drawn) if seed % 2 else wrong_search(drawn, choose)
    return Failure(f"{wrong}: {drawn.told}") if wrong else None


CAMPAIGN = Campaign(
    "decoding", "a model of a drawn family, of few words, is searched for targets of up to four tokens", ci=300,
    soak=10_000, run=run, prepare=prepare, also=("tests/decoding/drawn_searches.py", "tests/laws"),
    holds="a wide beam finds the best of all targets there are, one beam and greedy choose the best word each time")
