"""Counts of the tree: what a reader has to open, and what the design forbids. `make house` prints them.

    files from a command to the softmax     the paths in PATHS; tests/test_house.py checks each hop
    the afternoon                           the files that are the core, listed in docs/design.md
    names of tasks and families             compared with outside their tables
    device checks                           in layers and models
    names used twice                        classes and files
    isinstance                              on classes of another package of Regard
    lines                                   of Python in regard/
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REGARD = ROOT / "regard"
PATHS = {
    "train": ("cli/train", "training/run", "training/loop", "training/step", "models/neural", "layers/stack",
              "layers/self_attention", "layers/attend"),                       # a language model, the Transformer
    "translate": ("cli/translate", "tasks/translate/trained", "decoding/translate", "decoding/beam", "models/seq2seq",
                  "models/neural", "layers/attentive", "layers/cross_attention", "layers/attend"),    # rnn-attention
    "look": ("cli/show", "notebook", "look/look", "tasks/lm/look", "models/neural", "layers/stack",
             "layers/self_attention", "layers/attend"),                        # a language model, the Transformer
}
DEVICES = re.compile(r"is_cuda|\.is_cpu|device\.type|torch\.cuda|is_compiling|\bcan\(|why_not\(")
COMPARED = re.compile(r"\b(task|family)(\.name)? (==|!=|in|not in) \(?[\"']")         # with a name that is written out


def count_all() -> dict[str, object]:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(REGARD.rglob("*.py"))}
    return {
        "files from command to softmax": {name: len(path) for name, path in PATHS.items()},
        "the afternoon": count_afternoon(),
        "tests of a task's or family's name outside their table": list(find_compared()),
        "device checks in layers and models": list(find_devices()),
        "class names used twice": repeated(name for tree in trees.values() for name in find_classes(tree)),
        "file names used twice": repeated(path.stem for path in trees if path.stem != "__init__"),
        "isinstance on classes of another package": list(find_isinstance(trees)),
        "files": len(trees),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in trees),
    }


def count_afternoon() -> dict[str, int]:
    """Files and lines of the list in docs/design.md."""
    files = find_afternoon()
    return {"files": len(files), "lines": sum(len(path.read_text("utf-8").splitlines()) for path in files)}


def find_afternoon() -> list[Path]:
    """The files that the section of docs/design.md lists, whether they exist or not."""
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    section = page.partition("\n## The afternoon\n")[2].partition("\n## ")[0]
    return [REGARD / name for name in re.findall(r"`([\w/]+\.py)`", section)]


def find_compared() -> Iterator[str]:
    for path, line in lines_of(REGARD, ("tasks", "families", "lab")):         # a claim's tasks are other ones
        if COMPARED.search(line):
            yield f"{path}: {line.strip()}"


def find_devices() -> Iterator[str]:
    for folder in ("layers", "models"):
        for path, line in lines_of(REGARD / folder):
            if DEVICES.search(line.partition("#")[0]):
                yield f"{path}: {line.strip()}"


def lines_of(folder: Path, without: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(REGARD).parts[0] not in without:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                yield f"{path.relative_to(ROOT)}:{number}", line


def find_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def repeated(names: Iterator[str]) -> dict[str, int]:
    return {name: times for name, times in sorted(Counter(names).items()) if times > 1}


def find_isinstance(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Calls of isinstance with a class that is imported from another package of Regard, contracts and errors aside."""
    for path, tree in trees.items():
        own = path.relative_to(REGARD).parts[0]
        origin: dict[str, str] = defaultdict(str)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
                origin |= {alias.asname or alias.name: node.module.split(".")[1] for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                classes = [each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)]
                if foreign := [name for name in classes if origin[name] not in ("", own, "contract", "errors")]:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {', '.join(foreign)}"


def main() -> None:
    found = count_all()
    if "--json" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        if isinstance(value, list) or (isinstance(value, dict) and name.endswith("twice")):
            print(f"{name}: {len(value)}")
            rows = value if isinstance(value, list) else [f"{each} x {times}" for each, times in value.items()]
            print("".join(f"    {row}\n" for row in rows), end="")
        else:
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
