"""Which differences are beyond the noise: by hand, by definition in numpy, and by simulation."""

import itertools
import math

import numpy as np
import pytest

from regard.compare import differences
from regard.compare.differences import Results, all_differences, holm, paired_t, t_chance
from regard.metrics.intervals import over_seeds
from regard.metrics.resampling import bleu_of


def bits(totals):
    """Bits per byte of summed (nats, bytes)."""
    return totals[..., 0] / math.log(2) / totals[..., 1]


def results(family, nats):
    """A family from its nats (S, U); every unit has 100 bytes."""
    units = {seed: np.stack([own, np.full(len(own), 100.0)], 1) for seed, own in enumerate(np.asarray(nats, float))}
    return Results(family, {seed: float(bits(own.sum(0))) for seed, own in units.items()}, units)


# ----------------------------------------------------------------------------------------- by definition


def test_the_tail_of_t_is_the_integral_of_its_density():
    for freedom, t in itertools.product((1, 2, 3, 4, 7, 10, 29), (0.3, 1.0, 2.5, 6.0)):
        x = np.linspace(0, t, 200_001)
        top = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)
        density = top * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
        inside = ((density[1:] + density[:-1]) / 2 * np.diff(x)).sum()
        assert t_chance(t, freedom) == pytest.approx(1 - 2 * inside, abs=1e-9)


def test_seeds_are_paired():
    a, b = np.array([1.0, 1.5, 1.2]), np.array([1.1, 1.7, 1.3])
    apart = a - b
    t = abs(apart.mean()) / (apart.std(ddof=1) / math.sqrt(3))
    assert paired_t(apart) == pytest.approx(1 - t / math.sqrt(t**2 + 2))        # two degrees of freedom: 1 - sin(atan)
    assert paired_t([0.0, 0.0]) == 1 and paired_t([0.5, 0.5]) == 0
    found, = all_differences([Results("a", dict(enumerate(a))), Results("b", dict(enumerate(b)))], bits)
    assert found.difference == pytest.approx(-0.1) and found.over_sentences is None
    assert found.over_seeds == over_seeds(apart) and found.p == found.p_corrected == paired_t(apart)


def test_sentences_are_exchanged_as_all_coins_would():
    """Of 8 units all 256 ways for the coins to fall can be listed."""
    nats = np.random.default_rng(5).normal(100, 5, (2, 8))
    apart = nats[0] - nats[1]
    ways = np.array(list(itertools.product((-1, 1), repeat=8))) @ apart
    exact = (np.abs(ways) >= abs(apart.sum()) - 1e-9).mean()
    found, = all_differences([results("a", nats[:1]), results("b", nats[1:])], bits, trials=20_000)
    assert found.over_seeds is None and found.p_seeds is None                                 # one seed says nothing
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
    assert found.difference == pytest.approx(apart.sum() / 800 / math.log(2))


def test_the_interval_over_sentences_is_that_of_units_drawn_again():
    rng = np.random.default_rng(6)
    nats = rng.normal(100, 20, (1, 3, 200)) + rng.normal(0, 2, (2, 3, 200)) + np.array([0, 1.0])[:, None, None]
    found, = all_differences([results("a", nats[0]), results("b", nats[1])], bits)
    apart = (nats[0] - nats[1]).mean(0) / 100 / math.log(2)                    # mean over seeds, per sentence
    drawn = np.sort(apart[rng.integers(200, size=(4000, 200))].mean(1))
    low, high = drawn[100], drawn[-101]
    assert found.over_sentences.sentences == 200
    assert (found.over_sentences.low, found.over_sentences.high) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_bleu_is_judged_by_the_counts_of_its_sentences():
    rng = np.random.default_rng(7)
    ngrams = np.tile([10.0, 9, 8, 7], (50, 1))

    def translated(share):
        return np.hstack([np.full((50, 2), 10.0), rng.binomial(ngrams.astype(int), share), ngrams])

    units = {name: {seed: translated(share) for seed in range(2)} for name, share in (("good", 0.8), ("bad", 0.4))}
    found, = all_differences([Results(name, {s: float(bleu_of(u.sum(0))) for s, u in own.items()}, own)
                              for name, own in units.items()], bleu_of)
    expected = np.median([bleu_of(units["good"][s].sum(0)) - bleu_of(units["bad"][s].sum(0)) for s in range(2)])
    assert found.difference == pytest.approx(expected) and found.over_sentences.p == pytest.approx(1 / 10_001)


def test_p_is_the_larger_of_the_two():
    rng = np.random.default_rng(8)
    nats = rng.normal(100, 1, (2, 3, 60))
    nats[0] += np.array([-9.0, 0.0, 6.0])[:, None]              # all sentences agree with each seed; seeds do not
    nats[1] += 3.0
    found, = all_differences([results("a", nats[0]), results("b", nats[1])], bits)
    assert found.over_sentences.p < 0.001 < 0.2 < found.p_seeds
    assert found.p == found.p_seeds and not found.beyond


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.4]) == [0.8, None, 0.8] and holm([]) == [] and holm([None]) == [None]


def test_what_no_seed_changes_stands_against_every_seed():
    counted = Results("ngram", {None: 2.0}, {None: np.full((30, 2), [138.0, 100.0])})
    trained = results("rnn", np.random.default_rng(9).normal(120, 3, (3, 30)))
    found, = all_differences([trained, counted], bits)
    apart = [value - 2.0 for value in trained.values.values()]
    assert found.difference == pytest.approx(np.median(apart)) and found.over_seeds.seeds == 3
    assert found.p_seeds == pytest.approx(paired_t(apart)) and found.over_sentences.sentences == 30


def test_only_seeds_of_both_are_compared_and_what_is_not_finite_is_not_judged():
    a, b = Results("a", {0: 1.0, 1: 2.0, 2: 3.0}), Results("b", {1: 1.0, 2: 1.0, 5: 9.0})
    assert all_differences([a, b], bits)[0].difference == 1.5
    for other in (Results("c", {7: 1.0}), Results("c", {0: math.inf, 1: 1.0})):
        found = all_differences([a, other], bits)[0]
        assert found.p is None and not found.beyond and found.as_dict()["p_corrected"] is None


# --------------------------------------------------------------------------------------------- simulations


FAMILIES, UNITS = 5, 40


@pytest.fixture
def few_draws(monkeypatch):
    """Intervals over sentences are not asked about here."""
    monkeypatch.setattr(differences, "SAMPLES", 40)


def simulated(rng, seeds, *, apart=0.0, of_seeds=0.0, of_sentences=1.0, units=UNITS):
    """Families on the same sentences, of which some are hard for all, from the same seeds, of which some are bad for
    all. Chance: what a family makes of a sentence, and of a seed. Of the first family all is `apart` lower."""
    hard = rng.normal(200, 30, units) + rng.normal(0, 10, (seeds, 1))
    nats = hard + rng.normal(0, of_sentences, (FAMILIES, 1, units)) + rng.normal(0, of_seeds, (FAMILIES, seeds, 1))
    nats = nats + rng.normal(0, 0.1, nats.shape)
    nats[0] -= apart
    return [results(f"f{n}", own) for n, own in enumerate(nats)]


def wrong_claims(seeds, runs=300, **chance):
    """How often something is called beyond the noise where no family is better: the family-wise error."""
    rng = np.random.default_rng(seeds)
    return np.mean([any(each.beyond for each in all_differences(simulated(rng, seeds, **chance), bits, trials=600))
                    for _ in range(runs)])


ALLOWED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)                # three standard errors of a rate of 5%: 0.088


@pytest.mark.parametrize("seeds, chance", [(1, {}), (3, {}), (4, dict(of_seeds=1.0, of_sentences=0.0))])
def test_without_a_difference_at_most_one_table_in_twenty_claims_one(few_draws, seeds, chance):
    assert wrong_claims(seeds, **chance) <= ALLOWED


def test_without_holm_the_simulation_finds_too_many_claims(few_draws, monkeypatch):
    monkeypatch.setattr(differences, "holm", lambda chances: list(chances))
    assert wrong_claims(1) > ALLOWED


def test_a_correction_for_the_pairs_with_the_first_alone_is_too_little(few_draws):
    """The first is chosen by the same numbers: as many pairs as there are could have been asked about."""
    rng, claims = np.random.default_rng(2), 0
    for _ in range(300):
        found = sorted(simulated(rng, 1), key=lambda each: each.values[0])
        with_first = [each.p for each in all_differences(found, bits, trials=600) if each.a == found[0].family]
        claims += min(holm(with_first)) < 0.05
    assert claims / 300 > ALLOWED


def found_out(seeds=4, runs=40, **chance):
    """How often the first family, which is better, is told from the second."""
    rng = np.random.default_rng(3)
    return np.mean([all_differences(simulated(rng, seeds, **chance)[:2], bits, trials=600)[0].beyond
                    for _ in range(runs)])


REAL = dict(apart=3.0, of_seeds=0.3)            # a tenth of how sentences differ, and a third of how seeds do


def test_a_real_difference_is_found_among_hard_sentences_and_bad_seeds(few_draws):
    assert found_out(**REAL) > 0.9


def test_without_pairing_it_is_not_found(few_draws, monkeypatch):
    def unpaired_t(apart):
        rng = np.random.default_rng(0)
        return paired_t(apart + rng.normal(0, 10 / 100 / math.log(2) * math.sqrt(2), len(apart)))

    with monkeypatch.context() as patch:                         # seeds drawn apart for each family
        patch.setattr(differences, "paired_t", unpaired_t)
        assert found_out(**REAL) < 0.5
    honest = differences.Draws.make

    def shuffled(found, trials):                                 # sentence k of one beside sentence j of the other
        rng = np.random.default_rng(0)
        other = [Results(each.family, each.values, {seed: own[rng.permutation(len(own))] for seed, own in
                                                    each.units.items()}) for each in found]
        return honest(other, trials)

    monkeypatch.setattr(differences.Draws, "make", shuffled)
    assert found_out(**REAL) < 0.5
