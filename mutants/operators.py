"""The kinds of fault. An operator takes a node of the syntax tree and gives (node, new text) for each fault it knows.

Only code inside functions is changed: constants and defaults of a module are settings. Never changed are annotations,
messages (`raise`, f-strings, `say`), `assert`, `__repr__`, and what only runs with a GPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Text = Callable[[ast.AST], str]                      # the source of a node
Scope = tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ...]
Fault = tuple[ast.AST, str]                          # a node, and what stands in its place

COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
            ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
COUNTERS = {"range", "arange"}
ALONG_AXIS = {"sum", "mean", "softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "amax", "amin", "argmax",
              "argmin", "argsort", "sort", "topk", "gather", "cat", "stack", "concatenate", "unsqueeze", "squeeze",
              "flip", "split", "chunk", "unbind", "select", "narrow", "index_select", "size", "unflatten", "any", "all",
              "var", "std", "norm", "max", "min", "repeat_interleave", "roll", "diff", "movedim", "scatter", "swapaxes"}
UNARY = {"clone", "exp", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "abs", "cumsum", "neg", "softplus", "silu",
         "sorted", "reversed", "round", "strip", "lower", "copy"}
SYMMETRIC = {"max", "min", "maximum", "minimum", "equal", "allclose", "array_equal", "logaddexp", "isinstance",
             "issubclass", "hasattr", "getattr", "setattr", "zip", "cast", "is_", "print", "gcd", "promote_types"}
SPOKEN = {"print", "say", "tell", "warn", "echo", "info", "debug", "warning", "note", "__init__", "line"}
PATH = re.compile(r"path|folder|home|cache|root|parent|\bpart$", re.IGNORECASE)        # folder / name is no quotient
NOT_HERE = re.compile(r"cuda|gpu|triton|is_compiling|\bmps\b|platform|win32|bfloat16|ahead", re.IGNORECASE)


@dataclass(frozen=True)
class Change:
    """One fault in one file: the bytes from `start` to `end` become `after`."""

    operator: str
    line: int
    last: int                    # line of the changed text
    scope: str                   # the function it is in, with its class
    around: tuple[int, int]      # the first and the last line of that
    before: str
    after: str
    start: int
    end: int

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[:self.start] + self.after.encode() + data[self.end:]).decode()


# --------------------------------------------------------------------------------------------- the operators


def off_by_one(node: ast.AST, text: Text) -> Iterator[Fault]:
    """An index, a bound of a slice, or the end of a range is one further or one less; `x + 1` is `x`."""
    if isinstance(node, ast.Subscript):
        each = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in each:
            if isinstance(part, ast.Slice):
                yield from _bounds(part, text)
            elif _integer(part) is not None:
                yield part, str(_further(_integer(part)))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _integer(node.right) == 1:
        yield node, _wrapped(node.left, text)
    elif isinstance(node, ast.Call) and _name(node) in COUNTERS and node.args and not _starred(node):
        last = node.args[min(len(node.args), 2) - 1]
        yield last, f"{_wrapped(last, text)} - 1"


def sign(node: ast.AST, text: Text) -> Iterator[Fault]:
    """A sum is a difference, a difference a sum, and a minus sign is left out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_number(node):
        other = "-" if isinstance(node.op, ast.Add) else "+"
        yield node, f"{_wrapped(node.left, text)} {other} {_wrapped(node.right, text)}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node, _wrapped(node.operand, text)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and _is_number(node):
        other = "-=" if isinstance(node.op, ast.Add) else "+="
        yield node, f"{text(node.target)} {other} {text(node.value)}"


def factor(node: ast.AST, text: Text) -> Iterator[Fault]:
    """A product is a quotient, and a quotient a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv) and _is_number(node):
        if isinstance(node.op, ast.Div) and PATH.search(text(node.left)):
            return
        other = "/" if isinstance(node.op, ast.Mult) else "*"
        yield node, f"{_wrapped(node.left, text)} {other} {_wrapped(node.right, text)}"


def axis(node: ast.AST, text: Text) -> Iterator[Fault]:
    """A reduction, a join or a shift goes along the neighbouring axis."""
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg in ("dim", "axis") and _integer(keyword.value) is not None:
            yield keyword.value, str(_neighbour(_integer(keyword.value)))
    if _name(node) in ALONG_AXIS and isinstance(node.func, ast.Attribute):
        of_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "np", "F")
        place = 1 if of_module else 0
        if len(node.args) > place and _integer(node.args[place]) is not None:
            yield node.args[place], str(_neighbour(_integer(node.args[place])))


def mask(node: ast.AST, text: Text) -> Iterator[Fault]:
    """A mask is turned round, or an `and` of two masks is an `or`."""
    if isinstance(node, ast.Call) and _name(node) == "where" and len(node.args) == 3:
        condition, yes, no = map(text, node.args)
        yield node, f"{text(node.func)}({condition}, {no}, {yes})"
    elif isinstance(node, ast.Call) and _name(node) in ("masked_fill", "masked_fill_") and len(node.args) == 2:
        yield node.args[0], f"~({text(node.args[0])})"
    elif isinstance(node, ast.Call) and _name(node) in ("tril", "triu") and isinstance(node.func, ast.Attribute):
        other = "triu" if _name(node) == "tril" else "tril"
        yield node.func, f"{text(node.func.value)}.{other}"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        if _is_type(node.left) or _is_type(node.right):
            return
        other = "|" if isinstance(node.op, ast.BitAnd) else "&"
        yield node, f"{_wrapped(node.left, text)} {other} {_wrapped(node.right, text)}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield node, _wrapped(node.operand, text)


def comparison(node: ast.AST, text: Text) -> Iterator[Fault]:
    """`<` is `<=`, `==` is `!=`, `and` is `or`, and a `not` is left out."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _wrapped(node.left, text), _wrapped(node.comparators[0], text)
        yield node, f"{left} {COMPARED[type(node.ops[0])]} {right}"
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        other = "or" if isinstance(node.op, ast.And) else "and"
        yield node, f"({_wrapped(node.values[0], text)} {other} {_wrapped(node.values[1], text)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"bool({text(node.operand)})"


def dropped_call(node: ast.AST, text: Text) -> Iterator[Fault]:
    """A statement that only calls something is gone; `exp(x)`, `x.clone()` and their like are x."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value) not in SPOKEN:
        yield node, "pass"
    elif isinstance(node, ast.Call) and _name(node) in UNARY and not node.keywords:
        if not node.args and isinstance(node.func, ast.Attribute):
            yield node, _wrapped(node.func.value, text)
        elif len(node.args) == 1 and isinstance(node.func, ast.Name | ast.Attribute) and _name(node) != "cumsum":
            yield node, f"({text(node.args[0])})"


def swapped_argument(node: ast.AST, text: Text) -> Iterator[Fault]:
    """The first two arguments of a call change places."""
    if isinstance(node, ast.Call) and len(node.args) >= 2 and not _starred(node) and _name(node) not in SYMMETRIC:
        first, second = node.args[:2]
        plain = (ast.Name, ast.Attribute, ast.Subscript)
        if isinstance(first, plain) and isinstance(second, plain) and text(first) != text(second):
            rest = [text(each) for each in (*node.args[2:], *node.keywords)]
            yield node, f"{text(node.func)}({', '.join([text(second), text(first), *rest])})"


OPERATORS = {each.__name__.replace("_", "-"): each for each in
             (off_by_one, sign, factor, axis, mask, comparison, dropped_call, swapped_argument)}


# --------------------------------------------------------------------------------------------- a file's changes


def find_changes(source: str) -> list[Change]:
    """Every fault that the operators know in a source, in its order."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    data = source.encode()

    def span(node: ast.AST) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        start, end = span(node)
        return data[start:end].decode()

    found = []
    for node, scope in _visit(ast.parse(source), (), False, text):
        around = scope[-1].lineno, scope[-1].end_lineno
        name_of = ".".join(each.name for each in scope)
        for name, operator in OPERATORS.items():
            for place, after in operator(node, text):
                lines = place.lineno, place.end_lineno
                found.append(Change(name, *lines, name_of, around, text(place), after, *span(place)))
    return found


def _visit(node: ast.AST, scope: Scope, inside: bool, text: Text) -> Iterator[tuple[ast.AST, Scope]]:
    """The nodes that may be changed, with the classes and functions that they are in."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if node.name in ("__repr__", "__str__") or NOT_HERE.search(node.name):
            return
        inside = inside or not isinstance(node, ast.ClassDef)
        for child in node.body:
            yield from _visit(child, (*scope, node), inside, text)
        return
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Lambda):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value) in SPOKEN:
        return
    if isinstance(node, ast.BoolOp | ast.IfExp) and NOT_HERE.search(text(node)):
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value is not None else []
    elif isinstance(node, ast.If | ast.While) and NOT_HERE.search(text(node.test)):
        children = list(node.orelse)
    if inside and hasattr(node, "lineno"):
        yield node, scope
    for child in children:
        yield from _visit(child, scope, inside, text)


# --------------------------------------------------------------------------------------------- of a node


def _bounds(part: ast.Slice, text: Text) -> Iterator[Fault]:
    for bound in (part.lower, part.upper):
        if bound is None:
            continue
        number = _integer(bound)
        yield bound, str(_further(number)) if number is not None else f"{_wrapped(bound, text)} + 1"


def _integer(node: ast.AST) -> int | None:
    """The whole number that stands there, with its sign; None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        positive = _integer(node.operand)
        return None if positive is None else -positive
    is_integer = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if is_integer else None


def _further(number: int) -> int:
    return number + 1 if number >= 0 else number - 1


def _neighbour(number: int) -> int:
    return {0: 1, -1: -2}.get(number, number - 1 if number > 0 else number + 1)


def _name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _starred(node: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in node.args)


def _wrapped(node: ast.AST, text: Text) -> str:
    simple = isinstance(node, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.Call)
    return text(node) if simple else f"({text(node)})"


def _is_type(node: ast.AST) -> bool:
    """Whether a name is a class's: `A | B` is then no mask."""
    return isinstance(node, ast.Name) and node.id[:1].isupper() and not node.id.isupper()


def _is_number(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether neither side is a text or a list that can be seen."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    listed = ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr
    return not any(isinstance(each, listed) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
                   for each in sides)
