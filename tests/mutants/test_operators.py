"""Every operator plants the faults that its first line says, on sources of a line or two, and nothing else."""

import ast

import pytest

from mutants.operators import OPERATORS, find_changes


def faults(body, operator=None):
    """The lines that the body of a function becomes, one for each fault."""
    source = "def f(x, y):\n    " + body
    found = [change for change in find_changes(source) if operator in (None, change.operator)]
    changed = [change.apply(source) for change in found]
    for each in changed:
        ast.parse(each)
    return [each.partition("\n    ")[2] for each in changed]


EXPECTED = {
    "off-by-one": {"return x[0]": ["return x[1]"], "return x[-1]": ["return x[-2]"], "return x[:, 1:y]": [
        "return x[:, 2:y]", "return x[:, 1:y + 1]"], "return x + 1": ["return x"], "return range(x, y)": [
        "return range(x, y - 1)"], "return x[y]": []},
    "sign": {"return x + y": ["return x - y"], "return x - y * 2": ["return x + (y * 2)"], "return -x": ["return x"],
             "x += y": ["x -= y"], "return x + 'a'": [], "return -1": []},
    "factor": {"return x * y": ["return x / y"], "return (x + y) / 2": ["return ((x + y) * 2)"],
               "return folder / y": []},
    "axis": {"return x.sum(-1)": ["return x.sum(-2)"], "return torch.cat(x, 1)": ["return torch.cat(x, 0)"],
             "return x.mean(dim=0)": ["return x.mean(dim=1)"], "return sum(x, 1)": []},
    "mask": {"return where(x, y, 0)": ["return where(x, 0, y)"], "return x & y": ["return x | y"],
             "return x.masked_fill(y, 0)": ["return x.masked_fill(~(y), 0)"], "return ~x": ["return x"],
             "return x.tril()": ["return x.triu()"], "return isinstance(x, Abc | Def)": []},
    "comparison": {"return x < y": ["return x <= y"], "return x is None": ["return x is not None"],
                   "return x in y": ["return x not in y"], "return x and y": ["return (x or y)"],
                   "return not x": ["return bool(x)"]},
    "dropped-call": {"x.append(y)": ["pass"], "return exp(x)": ["return (x)"], "return x.clone()": ["return x"],
                     "say('x')": [], "return print(x)": []},
    "swapped-argument": {"return g(x, y)": ["return g(y, x)"], "return g(x, y, k=1)": ["return g(y, x, k=1)"],
                         "return max(x, y)": [], "return g(x, 1)": [], "return g(x, x)": []},
}


def test_every_operator_is_tested():
    assert set(EXPECTED) == set(OPERATORS)


@pytest.mark.parametrize("operator, body", [(name, body) for name, each in EXPECTED.items() for body in each])
def test_an_operator_plants_what_it_says(operator, body):
    found, expected = faults(body, operator), EXPECTED[operator][body]
    assert [ast.dump(ast.parse(f"def f():\n {each}")) for each in found] == [
        ast.dump(ast.parse(f"def f():\n {each}")) for each in expected]


@pytest.mark.parametrize("body", [
    "raise ValueError(x + y)", "assert x < y", "'''x + 1'''", "return f'{x + 1}'", "say(x[0])",
    "if x.is_cuda:\n        return x[0]", "return x.bfloat16() if x.is_cuda and y else x", "y: x[0]"])
def test_messages_annotations_and_what_needs_a_gpu_are_left_alone(body):
    assert faults(body) == []


def test_what_is_in_no_function_is_left_alone():
    source = "A = 1 + 2\n\n\nclass B:\n    c: int = 3 - 1\n\n    def __repr__(self):\n        return 1 + 2\n"
    assert find_changes(source) == []


def test_a_change_knows_its_line_and_its_function_where_letters_are_of_many_bytes():
    source = "class A:\n    def é(self):\n        return 'ñ', self.x[0]      # ß\n"
    change, = find_changes(source)
    assert (change.line, change.scope, change.before, change.after) == (3, "A.é", "0", "1")
    assert change.apply(source) == source.replace("[0]", "[1]")
