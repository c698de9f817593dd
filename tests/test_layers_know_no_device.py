"""Layers and models read like equations: which device, compiler or kernel runs is for `regard/kernels/` to decide."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "regard"
FILES = sorted(path for part in ("layers", "models") for path in (ROOT / part).rglob("*.py"))

# Attributes and functions that tell one device, back-end or way of running from another.
NAMES = {
    "is_cuda", "is_cpu", "is_mps", "is_compiling", "is_dynamo_compiling", "is_scripting", "is_available", "is_built",
    "is_autocast_enabled", "get_autocast_dtype", "current_device", "get_device", "get_device_properties",
    "can", "why_not", "reason", "reason_on", "packable", "better", "preferred", "takes_few_rows"}
MODULES = {"torch.cuda", "torch.backends", "torch.compiler", "torch.xpu", "torch.mps"}
BACKENDS = ("regard.kernels.cuda", "regard.kernels.cpu")


def forbidden(source: str) -> list[str]:
    """Every place that asks where or how the code runs, as it is written there."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            of_device = node.attr == "type" and ast.unparse(node.value).endswith("device")
            if node.attr in NAMES or of_device or ast.unparse(node) in MODULES:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            names = [module or "", *(f"{module}.{each.name}" if module else each.name for each in node.names)]
            wrong = [name for name in names if name in MODULES or name.startswith(BACKENDS)
                     or name.rpartition(".")[2] in NAMES]
            found += wrong
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_layer_or_model_asks_where_it_runs(path):
    assert not forbidden(path.read_text("utf-8"))


@pytest.mark.parametrize("planted", [
    "if x.is_cuda:\n    pass",
    "fast = x.device.type == 'cpu'",
    "def f(device):\n    return device.type",
    "n = torch.cuda.device_count()",
    "if torch.compiler.is_compiling():\n    pass",
    "if add_norm.can(x, norm):\n    pass",
    "from regard.kernels.add_norm import can",
    "if can(x):\n    pass",
    "told = norm.why_not(True, False)",
    "dtype = torch.get_autocast_dtype('cpu')",
    "from regard.kernels.cpu import native",
    "import regard.kernels.cuda.products as products",
    "from torch import cuda",
    "from torch.compiler import is_compiling as compiling",
    "there = torch.backends.mkl.is_available()",
])
def test_a_planted_check_is_seen(planted):
    assert forbidden(planted)


@pytest.mark.parametrize("fine", [
    "at = torch.arange(3, device=x.device)", "if torch.is_grad_enabled():\n    pass",
    "from regard.kernels.linear import linear", "def scan(x):\n    return type(x)"])
def test_what_layers_do_is_no_check(fine):
    assert not forbidden(fine)


def classes(name: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((ROOT / "layers" / name).read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def methods(node: ast.ClassDef) -> dict[str, int]:
    """The lines of each method."""
    return {each.name: each.end_lineno - each.lineno + 1 for each in node.body if isinstance(each, ast.FunctionDef)}


def test_the_layers_of_a_transformer_stay_short():
    attention = classes("self_attention.py")["SelfAttention"]
    assert attention.end_lineno - attention.lineno < 130
    assert methods(classes("feedforward.py")["FeedForward"])["forward"] <= 6
    assert set(methods(classes("stack.py")["Block"])) == {"__init__", "start", "forward"}
