"""The hash of rules changes with a number, a bound or a side; that of what is measured with what arms may give."""

import pytest

from regard.lab.find import experiments
from regard.lab.hashes import hash_measuring, hash_rules, hash_rules_in, imported_claims

FILE = '''"""About."""
from regard.lab.experiment import Arm, Experiment, Flip, Rule

BOUND = 0.3
OTHER = 1


def twice(seed):
    """Doubled."""
    return 2 * seed["a"]["x"]


def run(setting):
    return {"x": OTHER}


EXPERIMENT = Experiment(
    name="one", claim="It is more.", flips=(Flip("it", "takes it away"),), arms=(Arm("a", run),),
    rules=(Rule("twice x is", twice, above=BOUND, unit=" nats", cause="it"),
           Rule("x is", lambda s: s["a"]["x"], below=3, exact=True, condition="else")), charts=list)
'''


@pytest.mark.parametrize("old, new", [
    ("0.3", "0.4"), ("BOUND = 0.3", "BOUND: float = 0.4"),
    ("return 2 *", "return 3 *"), ("above=BOUND", "below=BOUND"), ("below=3", "below=2"),
    ("exact=True", "exact=False"), ('lambda s: s["a"]["x"]', 'lambda s: s["a"]["y"]')])
def test_another_number_bound_or_side_is_another_rule(old, new):
    assert old in FILE and hash_rules_in(FILE.replace(old, new)) != hash_rules_in(FILE)


@pytest.mark.parametrize("old, new", [
    ("twice x is", "two times x is"), (" nats", " bits"), ('cause="it"', 'cause="that"'), ('"else"', '"or else"'),
    ("Doubled.", "Two times."), ("About.", "Of this."), ("It is more.", "It is."), ("OTHER = 1", "OTHER = 2   # why"),
    ("below=3, ", "below=3,\n                ")])
def test_words_comments_and_what_the_rules_do_not_use_leave_it(old, new):
    assert old in FILE and hash_rules_in(FILE.replace(old, new)) == hash_rules_in(FILE)


def test_rules_are_found_by_place_too_and_none_where_there_are_none():
    placed = "EXPERIMENT = Experiment(1, 2, 3, 4, 5, 6, 7, 8, 9, (Rule('x', len, above={}),), list)"
    assert hash_rules_in(placed.format(1)) != hash_rules_in(placed.format(2)) != ""
    assert hash_rules_in("x = 1") == ""


@pytest.mark.parametrize("old, new, same", [
    ("OTHER = 1", "OTHER = 2", False), ('Arm("a", run)', 'Arm("a", run, once=True)', False),
    ('{"x": OTHER}', '{"x": 3}', False), ("above=BOUND", "above=9", True), ("It is more.", "It is.", True),
    ("takes it away", "takes that away", True), ("About.", "Of this.", True),
    ("BOUND = 0.3\n", "BOUND = 0.3  # why\n", True), ("regard.lab.experiment import", "regard.lab.trials import", True),
    ("Arm, Experiment, Flip", "Arm, Experiment, Flop as Flip", False)])
def test_what_is_measured_has_a_hash_of_its_own(old, new, same):
    assert old in FILE and (hash_measuring(FILE.replace(old, new)) == hash_measuring(FILE)) is same


def test_claims_that_a_claim_imports_are_found():
    source = "from regard.lab.claims import a, b\nfrom regard.lab.claims.c import d\nfrom regard.lab import claims\n"
    assert imported_claims(source) == ("regard.lab.claims.c", "regard.lab.claims.a", "regard.lab.claims.b")


@pytest.mark.parametrize("one", experiments().values(), ids=lambda one: one.name)
def test_every_claim_carries_the_date_and_the_hash_of_its_rules(one):
    """Rules are fixed before their numbers: whoever changes one changes the date, and says so if numbers were seen."""
    assert one.fixed is not None and one.fixed.hash == hash_rules(one), \
        f"{one.name}: its rules have the hash {hash_rules(one)}: were they changed? Then give that and the day in Fixed"
