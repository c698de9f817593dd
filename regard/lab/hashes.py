"""Two hashes of an experiment's code: of its rules, and of what is measured. Comments, docstrings and layout are in
neither.

`hash_rules` changes when a number, a bound or a side does: it covers the code of `rules=(...)`, and the functions and
constants of the file that it uses. How a rule is worded, its unit, cause and condition change no verdict.

`hash_measuring` changes when an arm might give other numbers: it covers the whole file but for what an Experiment says
about itself, and for where in Regard an imported name stands. So rules can be dated, worded and judged anew, and
modules moved, without measuring anything again.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TypeGuard

from regard.lab.experiment import Experiment

CLAIMS = "regard.lab.claims"
WORDS = ("says", "unit", "cause", "condition")             # arguments of a Rule that change no verdict
PLACE = [field.name for field in fields(Experiment)].index("rules")
MEASURES = ("name", "arms", "timing")                      # arguments of an Experiment that change what is measured


def hash_rules(experiment: Experiment) -> str:
    """Twelve letters of SHA-256; empty where the rules are not written in a file of their own."""
    for file in experiment.files:
        if found := hash_rules_in(Path(file).read_text("utf-8")):
            return found
    return ""


@cache
def hash_measuring(source: str) -> str:
    """The SHA-256 of a file's code that measures. It is asked for again after every arm."""
    module = ast.parse(source)
    names = sorted(f"{each.name} as {each.asname or each.name}" for node in ast.walk(module) if _is_ours(node)
                   for each in node.names)
    return hashlib.sha256(f"{names} {_written(_Measuring().visit(module))}".encode()).hexdigest()


def _is_ours(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    """True for a node that imports names from a module of Regard."""
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard")


@cache
def imported_claims(source: str) -> tuple[str, ...]:
    """The modules of other claims that a claim's file imports: what these measure, it measures, too."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    named = [(node.module or "", node.names) for node in imports]
    return (*(module for module, _ in named if module.startswith(f"{CLAIMS}.")),
            *(f"{CLAIMS}.{each.name}" for module, names in named if module == CLAIMS for each in names))


def hash_rules_in(source: str) -> str:
    """The hash of the rules in the text of a file; empty where it has none."""
    module = ast.parse(source)
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    rules = next((found for node in calls if (found := _rules_of(node))), None)
    if rules is None:
        return ""
    seen = hashlib.sha256()
    for part in (rules, *_used_by(rules, module)):
        seen.update(_written(_Wordless().visit(part)).encode())
    return seen.hexdigest()[:12]


def _written(node: object) -> str:
    """A tree as text, the same with every Python: empty fields, of which newer ones have more, are left out."""
    if isinstance(node, list):
        return f"[{', '.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    kept = {name: value for name, value in ast.iter_fields(node) if value not in (None, []) and name != "kind"}
    return f"{type(node).__name__}({', '.join(f'{name}={_written(value)}' for name, value in kept.items())})"


def _rules_of(node: ast.Call) -> ast.expr | None:
    """The rules that a call of Experiment gives, by name or by place."""
    if _named(node.func) != "Experiment":
        return None
    by_name = (keyword.value for keyword in node.keywords if keyword.arg == "rules")
    return next(by_name, node.args[PLACE] if len(node.args) > PLACE else None)


def _named(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _used_by(rules: ast.expr, module: ast.Module) -> list[ast.stmt]:
    """The functions and constants of the module that the rules use, and those that these use, in their order."""
    defined = {name: statement for statement in module.body for name in _defines(statement)}
    used: set[str] = set()
    waiting: list[ast.AST] = [rules]
    while waiting:
        names = {node.id for node in ast.walk(waiting.pop()) if isinstance(node, ast.Name)}
        new = (names & defined.keys()) - used
        used |= new
        waiting += [defined[name] for name in new]
    return [statement for statement in module.body if used.intersection(_defines(statement))]


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else \
        [statement.target] if isinstance(statement, ast.AnnAssign) else ()
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


class _WithoutDocstrings(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> ast.AST:
        node = super().visit(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node


class _Wordless(_WithoutDocstrings):
    """Rules without their words."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _named(node.func) == "Rule":
            node.args = node.args[1:]
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in WORDS]
        return node


class _Measuring(_WithoutDocstrings):
    """An experiment without what it says about itself, without its rules, and without the paths of our modules."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if _is_ours(node) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _named(node.func) == "Experiment":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg in MEASURES]
        return node
