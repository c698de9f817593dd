"""The worked examples of the lectures: every line, and the fractions themselves."""

import json
from dataclasses import replace
from fractions import Fraction as F

import pytest
import torch
from click.testing import CliRunner

from regard.cli.lab import command
from regard.lab import worked, worked_attention, worked_equations, worked_recurrent
from regard.lab.worked import ExampleLine, examples, line, written
from regard.layers.scores import Dot
from regard.look.presets import PRESETS

EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_line_of_an_example_comes_out(name: str) -> None:
    lines = EXAMPLES[name].run()
    assert lines
    assert [one.what for one in lines if not one.equal] == []


def ours(name: str, what: str) -> list[F]:
    found = next(one for one in EXAMPLES[name].run() if one.what == what)
    return [F(each).limit_denominator(10**6) for each in found.ours]


@pytest.mark.parametrize("name, what, fractions", [
    ("aaba", "weights with base 3", "1/6 1/6 1/2 1/6"),
    ("aaba", "output with base 3", "1/2 1/2"),
    ("aaba", "mean of all (DAN)", "3/4 1/4"),
    ("aaba-10", "output with base 3", "1/19684 19683/19684"),
    ("aaba-self", "outputs of all four, base 3", "9/10 1/10 9/10 1/10 1/2 1/2 9/10 1/10"),
    ("hidden-states", "weights: nothing above the diagonal", "1 0 0 7/10 3/10 0 3/10 1/2 1/5"),
    ("table", "the table", "1 0 0 3/10 7/10 0 1/10 1/2 2/5"),
    ("rnn-step", "h_2 with ReLU", "0 27/8"),
    ("qkv", "q, k, v = ReLU(W c)", "3/2 1 0 0 0 0"),
    ("adds-words", "[1 2], [0 5], [3 1] added up", "1 2 1 7 4 8"),
    ("adds-some", "A A B A B: the Bs so far", "0 0 1 1 2"),
    ("location", "with base 3", "378/37 168/37"),
    ("expanded", "and that is what attention gives", "34/13 -24/13 262/91 -240/91 2 0"),
])
def test_our_layers_give_the_fraction(name: str, what: str, fractions: str) -> None:
    assert ours(name, what) == [F(each) for each in fractions.split()]


def test_a_line_in_fractions_is_equal_exactly_or_not_at_all() -> None:
    assert ExampleLine("", "", (F(1, 3),), (F(1, 3),)).equal
    assert not ExampleLine("", "", (F(1, 3),), (F(333333333333333, 10**15),)).equal


def test_a_line_in_floats_may_differ_by_rounding_and_no_more() -> None:
    assert line("", "", torch.tensor([1 / 3], dtype=torch.float64), [F(1, 3)]).equal
    assert not line("", "", [1 / 3 + 1e-9], [F(1, 3)]).equal
    assert not line("", "", [1.0, 2.0], [1]).equal


def test_numbers_are_written_as_fractions_where_they_are() -> None:
    assert written((1 / 6, 0.5, 0.7310585786300049, F(2, 7))) == "1/6 1/2 0.731059 2/7"


def test_a_softmax_that_forgets_the_mask_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worked_attention, "CAUSAL", None)
    assert not all(one.equal for one in worked_attention.hidden_states())


def test_scores_that_are_scaled_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worked_attention, "PLAIN", Dot(1, 2, scaled=True))
    assert not all(one.equal for one in worked_attention.aaba())


def test_a_loss_that_counts_pads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(model, batch):                                  # type: ignore[no-untyped-def]
        return -model.score(batch.tokens, batch.targets)[0].mean()

    monkeypatch.setattr(worked_recurrent, "loss_of", careless)
    assert [one.what for one in worked_recurrent.the_loss() if not one.equal] == ["with pads: (3 ln 3 + 3 ln 2) / 13"]


def test_a_proof_with_a_matrix_that_is_no_permutation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worked_equations, "P", worked_equations.whole([[1, 1, 0], [1, 0, 0], [0, 1, 0]]))
    assert not all(one.equal for one in worked_equations.equivariance())


def test_location_attention_is_worked_out_with_the_numbers_of_its_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(PRESETS["location"], keys=((1, 0, 0), (0, 1, -1), (1, -1, 1)))
    monkeypatch.setitem(PRESETS, "location", other)
    assert [one.what for one in worked_equations.location() if one.equal] == ["A(q, K, V) is location attention",
                                                                              "in numbers"]


def test_a_matrix_keeps_its_rows_and_a_vector_has_none() -> None:
    assert line("", "", [1, 2, 3, 4], [[1, 2], [3, 4]]).row == 2
    assert line("", "", [[1, 2]], [1, 2]).row == line("", "", 1, 1).row == 0
    assert line("", "", [], torch.zeros(1, 5, 3)).row == 3
    table = EXAMPLES["sinusoids"].run()[0].as_dict()
    assert table["row"] == 6 and len(table["ours"].split()) == 30


def test_every_row_of_attention_on_the_page_belongs_to_an_example_and_says_the_same() -> None:
    named = [preset for example in EXAMPLES.values() for preset in example.presets]
    assert set(named) == set(PRESETS)
    alpha = PRESETS["aaba"].sheet(column=2, base="3").quantities["alpha"]
    assert alpha.exact == ("1/6", "1/6", "1/2", "1/6")


def test_every_example_has_a_name_of_its_own_on_the_page() -> None:
    told = worked.as_dicts()
    assert [each["preset"] for each in told] == [f"worked-{name}" for name in EXAMPLES]
    assert not {each["preset"] for each in told} & set(PRESETS)
    assert "worked-location, location" in worked.explained()


def test_the_command_prints_them_and_says_how_many_came_out() -> None:
    printed = CliRunner().invoke(command, ["run", "worked"])
    assert printed.exit_code == 0
    assert "1/6 1/6 1/2 1/6  =  1/6 1/6 1/2 1/6" in printed.output
    told = json.loads(CliRunner().invoke(command, ["run", "worked", "--json"]).output)
    right, every = worked.counted(told)
    assert right == every > 50
    assert f"{right} of {every} lines come out" in printed.output


def test_the_command_fails_when_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = worked.Example("wrong", "Wrong", "nowhere", lambda: [line("1 = 2", "nobody", 1, 2)])
    monkeypatch.setattr(worked, "examples", lambda: {"wrong": wrong})
    result = CliRunner().invoke(command, ["run", "worked"])
    assert "NOT EQUAL" in result.output
    assert "1 of 1 lines of the worked examples do not come out" in str(result.exception)


def test_list_and_explain_know_them_and_flip_refuses() -> None:
    assert "worked" in CliRunner().invoke(command, ["explain", "worked"]).output
    assert json.loads(CliRunner().invoke(command, ["list", "--json"]).output)[0]["name"] == "worked"
    assert "no cause to take away" in str(CliRunner().invoke(command, ["flip", "worked"]).exception)
