"""The campaign of searches finds what is planted."""

from random import Random

from regard.contract import State
from regard.decoding import beam
from tests.decoding.drawn_searches import draw_search, wrong_greed, wrong_search


def wrong_ones(name, cases=12):
    found = []
    for seed in range(cases):
        choose = Random(f"{name} {seed}").choice
        drawn = draw_search(name, choose)
        found.append(wrong_greed(drawn) if seed % 2 else wrong_search(drawn, choose))
    return [each for each in found if each]


def test_beams_that_keep_the_state_of_others_are_found(monkeypatch):
    monkeypatch.setattr(State, "reorder", lambda state, rows, sources=None: state.select(rows * 0, sources))
    assert wrong_ones("lm-gru")


def test_a_search_that_stops_at_its_first_end_is_found(monkeypatch):
    honest = beam.BeamState.who_stays

    def stop(self, totals):
        stay, short = honest(self, totals)
        return stay[self.ended[stay] == 0], short

    monkeypatch.setattr(beam.BeamState, "who_stays", stop)
    assert wrong_ones("lm-ngram")


def test_a_penalty_of_the_wrong_length_is_found(monkeypatch):
    monkeypatch.setattr(beam.BeamOptions, "score", lambda self, log_prob, tokens, covered=0.0: log_prob / tokens)
    assert wrong_ones("lm-window", 30)
