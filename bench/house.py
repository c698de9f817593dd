"""Counts of the tree: what a reader has to open, and what the design forbids. `make house` prints them.

    files from a command to the softmax     the paths in PATHS; tests/test_house.py checks each hop
    the afternoon                           the files that are the core, listed in docs/design.md
    names of tasks and families             compared with outside their tables
    device checks                           in layers and models
    names used twice                        classes and files; a file that is named for its role (ROLES) does not count
    isinstance                              on classes of another package of Regard
    settings declared twice                 in families: one name, type and default in unrelated classes
    docstrings                              that begin with a word of OPENINGS
    names for anything                      of VAGUE, given to locals and parameters that live more than five lines
    lines                                   of Python in regard/

`--list` prints the place of every docstring and every vague name; `--list serve` those of one package.
`--tree` writes the tree of docs/design.md anew, from the docstrings of the parts.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REGARD = ROOT / "regard"
PATHS = {
    "train": ("cli/train", "training/run", "training/loop", "training/step", "models/neural", "layers/stack",
              "layers/self_attention", "layers/attend"),                       # a language model, the Transformer
    "translate": ("cli/translate", "tasks/translate/trained", "decoding/beam", "models/seq2seq", "models/neural",
                  "layers/attentive", "layers/cross_attention", "layers/attend"),      # rnn-attention
    "look": ("cli/show", "notebook", "look/look", "tasks/lm/look", "models/neural", "layers/stack",
             "layers/self_attention", "layers/attend"),                        # a language model, the Transformer
}
DEVICES = re.compile(r"is_cuda|\.is_cpu|device\.type|torch\.cuda|is_compiling|\bcan\(|why_not\(")
ROLES = {                                # a folder, and which files there are named for a role
    "cli": None,                         # all: for their command
    "serve/routes": None,                # all: for their route
    "lab/claims": None,                  # all: for their claim
    "tasks/*": ("task", "look", "score", "flags", "sample", "trained", "answer"),       # these: for a part of a task
    "kernels/cuda": "kernels",           # those with a file of that name in kernels: for their operation
    "kernels/cpu": "kernels",
}
DOCSTRINGS, NAMES = "docstrings that begin with What, Which, ...", "names for anything that live long"
OPENINGS = re.compile(r"(What|Which|Who|Whether|How|Of|The same|That|Where)\b")
VAGUE = {"told", "found", "kept", "taken", "said", "at", "how", "own", "way", "made"}
COMPARED = re.compile(r"\b(task|family)(\.name)? (==|!=|in|not in) \(?[\"']")         # with a name that is written out


def count_all() -> dict[str, object]:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(REGARD.rglob("*.py"))}
    return {
        "files from command to softmax": {name: len(path) for name, path in PATHS.items()},
        "the afternoon": count_afternoon(),
        "tests of a task's or family's name outside their table": list(find_compared()),
        "device checks in layers and models": list(find_devices()),
        "class names used twice": repeated((name, path) for path, tree in trees.items() for name in find_classes(tree)),
        "file names used twice": repeated((path.stem, path) for path in trees if not has_role(path)),
        "isinstance on classes of another package": list(find_isinstance(trees)),
        "settings declared in two places": find_repeated_settings(trees),
        DOCSTRINGS: by_package(find_openings(trees)),
        NAMES: by_package(find_vague(trees)),
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


def draw_tree(page: str) -> str:
    """The tree of a page: its parts in the order of its arrows, each with the first sentence of its docstring, without
    the words before a colon, which name the part again."""
    arrows = page.partition("```\nerrors <- ")[2].partition("```")[0]
    rows = ["regard/"]
    for part in re.findall(r"\w+", f"errors {arrows}"):
        folder = (REGARD / part).is_dir()
        file = REGARD / part / "__init__.py" if folder else REGARD / f"{part}.py"
        if file.is_file():
            sentence = " ".join((ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split()).split(". ")[0]
            rows.append(f"  {part + ('/' if folder else '.py'):<16} {sentence.rstrip('.').split(': ', 1)[-1]}")
    return "\n".join(rows) + "\n"


def with_tree(page: str) -> str:
    """The page with its tree drawn anew."""
    return re.sub(r"^```\nregard/\n.*?(?=^```$)", lambda _: "```\n" + draw_tree(page), page, flags=re.M | re.S)


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


def has_role(path: Path) -> bool:
    """True for a file that is named for its role, as ROLES has it, and for `__init__` and `__main__`."""
    folder = path.parent.relative_to(REGARD)
    if path.stem.startswith("__"):
        return True
    for pattern, names in ROLES.items():
        if folder.match(pattern) and len(folder.parts) == len(Path(pattern).parts):
            return names is None or (path.stem in names if isinstance(names, tuple) else
                                     (REGARD / names / path.name).is_file())
    return False


def repeated(places: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """Each name that has more than one place, with its places."""
    files = defaultdict(list)
    for name, path in places:
        files[name].append(str(path.relative_to(REGARD)))
    return {name: where for name, where in sorted(files.items()) if len(where) > 1}


def find_repeated_settings(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Each setting of a family that unrelated classes declare with one type and default, with those classes.

    A class that derives from another may change a default of it: that declares nothing.
    """
    classes = {node.name: node for path, tree in trees.items() if path.parent == REGARD / "families"
               for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Settings")}
    declared = defaultdict(list)
    for name, node in classes.items():
        inherited = {field for base in ancestors(name, classes) for field in fields_of(classes[base])}
        for field, (kind, default) in fields_of(node).items():
            if field not in inherited:
                declared[f"{field}: {kind} = {default}"].append(name)
    return {setting: names for setting, names in sorted(declared.items()) if len(names) > 1}


def ancestors(name: str, classes: dict[str, ast.ClassDef]) -> set[str]:
    bases = {base.id for base in classes[name].bases if isinstance(base, ast.Name) and base.id in classes}
    return bases.union(*(ancestors(base, classes) for base in bases))


def fields_of(node: ast.ClassDef) -> dict[str, tuple[str, str]]:
    """The fields of a dataclass that have a default: name -> type, default."""
    return {each.target.id: (ast.unparse(each.annotation), ast.unparse(each.value)) for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is not None}


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a file; walking it takes longer than looking at them."""
    return list(ast.walk(tree))


def by_package(places: Iterable[tuple[Path, int, str]]) -> dict[str, list[str]]:
    """Each package of regard/, or file beside them, with its places."""
    packages = defaultdict(list)
    for path, line, text in places:
        packages[path.relative_to(REGARD).parts[0]].append(f"{path.relative_to(ROOT)}:{line}: {text}")
    return dict(sorted(packages.items()))


def find_openings(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, int, str]]:
    for path, tree in trees.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if OPENINGS.match(text):
                    yield path, node.body[0].lineno, text.splitlines()[0]


def find_vague(trees: dict[Path, ast.Module], longer: int = 5) -> Iterator[tuple[Path, int, str]]:
    """Parameters and local variables of VAGUE, from where they are bound to their last use more than `longer` lines."""
    for path, tree in trees.items():
        seen = set()                                # a name of an inner function is met in the outer one too
        for function in nodes_of(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for name, (first, last) in lives_of(function).items():
                    if name in VAGUE and last - first > longer and (name, first) not in seen:
                        seen.add((name, first))
                        yield path, first, f"{name} in {function.name}, {last - first} lines"


def lives_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, tuple[int, int]]:
    """Each parameter and local variable: the line that binds it first, and the last line that has it."""
    options = function.args
    parameters = [*options.posonlyargs, *options.args, *options.kwonlyargs, options.vararg, options.kwarg]
    first = {each.arg: each.lineno for each in parameters if each is not None}
    used = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    for node in used:
        if isinstance(node.ctx, ast.Store):
            first[node.id] = min(first.get(node.id, node.lineno), node.lineno)
    last = {name: max([line, *(node.lineno for node in used if node.id == name)]) for name, line in first.items()}
    return {name: (line, last[name]) for name, line in first.items()}


def find_isinstance(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Calls of isinstance with a class that is imported from another package of Regard, contracts and errors aside."""
    for path, tree in trees.items():
        own = path.relative_to(REGARD).parts[0]
        origin: dict[str, str] = defaultdict(str)
        for node in nodes_of(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
                origin |= {alias.asname or alias.name: node.module.split(".")[1] for alias in node.names}
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                classes = [each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)]
                if foreign := [name for name in classes if origin[name] not in ("", own, "contract", "errors")]:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {', '.join(foreign)}"


def main() -> None:
    if "--tree" in sys.argv:
        design = ROOT / "docs" / "design.md"
        design.write_text(with_tree(design.read_text("utf-8")), "utf-8")
        return
    counts = count_all()
    if "--json" in sys.argv:
        print(json.dumps(counts, indent=1))
    elif "--list" in sys.argv:
        packages = sys.argv[sys.argv.index("--list") + 1:]
        for name in (DOCSTRINGS, NAMES):
            print(f"{name}:")
            for package, rows in counts[name].items():
                if not packages or package.removesuffix(".py") in packages:
                    print_rows(rows)
    else:
        for name, value in counts.items():
            print_count(name, value)


def print_count(name: str, value: Any) -> None:
    if isinstance(value, list):
        print(f"{name}: {len(value)}")
        print_rows(value)
    elif name.endswith(("twice", "places")):
        print(f"{name}: {len(value)}")
        print_rows(f"{each}: {', '.join(places)}" for each, places in value.items())
    elif isinstance(value, dict) and all(isinstance(places, list) for places in value.values()):
        print(f"{name}: {sum(map(len, value.values()))}")
        print_rows([" · ".join(f"{each} {len(places)}" for each, places in value.items())])
    else:
        print(f"{name}: {value}")


def print_rows(rows: Iterable[str]) -> None:
    print("".join(f"    {row}\n" for row in rows), end="")


if __name__ == "__main__":
    main()
