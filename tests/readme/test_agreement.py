"""The names on the pages exist in the code: settings, options, classes, files, modules, commands, dependencies.

Each `missing_*` gives the names of a text that do not exist, and is shown a planted one.
"""

import ast
import builtins
import dataclasses
import re
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parent.parent.parent
# The changelog and the lists of mutants tell of earlier code.
PAGES = [path for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
         if path.name not in ("CHANGELOG.md", "mutants.md")]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]

SETTING = re.compile(r"--set ([a-z]+\.[a-z]\w*)=|`((?:training|data|model|tokenizer)\.[a-z_]+)(?:=[^`(]*)?`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
CLASS = re.compile(r"`(?:[a-z_]+\.)*([A-Z][a-z]+(?:[A-Z]+[a-z]*)*)(?:\([^`]*\))?`")
FILE = re.compile(r"`((?:[a-z_]+/)+\w+\.(?:py|md|json|toml|js))`")
MODULE = re.compile(r"`(regard(?:\.\w+)+)(?:\(\))?`")
IMPORT = re.compile(r"^from (regard(?:\.\w+)*) import (\w+(?:, \w+)*)$", re.M)
NO_SETTINGS = {"a.b", "training.learning_rat", "model.position", "model.safetensors"}  # a form, two typos, a file
HEADERS = {"Host", "Origin"}                 # of HTTP
OF_TRANSFORMERS = {"AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoTokenizer"}
OF_OTHER_TOOLS = {                           # options in commands that are not ours, or of bench/ and make
    "--break-system-packages", "--json", "--lf", "--count", "--seed", "--workers", "--tree", "--list", "--model",
    "--tasks", "--standalone", "--nproc-per-node", "--nnodes", "--max-restarts", "--rdzv-backend", "--rdzv-endpoint",
    "--rdzv-id", "--ntasks-per-node", "--gpus-per-node", "--cpus-per-task", "--nodes", "--dtype",
    "--served-model-name", "--max-model-len", "--tensor-parallel-size"}


@cache
def known_settings() -> frozenset[str]:
    from regard.families import FAMILIES
    from regard.tasks import TASKS
    from regard.training.settings import TrainingSettings

    tables = [("training", TrainingSettings), *(("model", family.settings) for family in FAMILIES.values())]
    for task in TASKS.values():
        tables += [("data", task.data), ("tokenizer", task.tokenizer)]
        tables += [("model", family.settings) for family in task.families.values()]
        tables += [("ngram", task.mixing.settings)] if task.mixing else []
    return frozenset(f"{table}.{field.name}" for table, kind in tables for field in dataclasses.fields(kind))


@cache
def known_options() -> frozenset[str]:
    from regard.cli import Commands

    def options_of(command: click.Command) -> set[str]:
        own = {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
        below = [command.get_command(click.Context(command), name)
                 for name in command.list_commands(click.Context(command))] if isinstance(command, click.Group) else []
        return own.union(*map(options_of, below)) | {"--help", "--version"}

    bench = " ".join(path.read_text("utf-8") for path in (ROOT / "bench").glob("*.py"))
    return frozenset(options_of(Commands("regard")) | set(re.findall(r"\"(--[a-z-]+)\"", bench)) | OF_OTHER_TOOLS)


@cache
def known_classes() -> frozenset[str]:
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "regard").rglob("*.py")]
    named = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    aliases = {target.id for tree in trees for node in tree.body if isinstance(node, ast.Assign)
               for target in node.targets if isinstance(target, ast.Name)}
    from regard.interop.architectures import ARCHITECTURES

    exported = {row.name for rows in ARCHITECTURES.values() for row in rows}
    return frozenset(named | aliases | set(dir(builtins)) | HEADERS | OF_TRANSFORMERS | exported)


@cache
def known_methods() -> frozenset[str]:
    """`model.NAME` for each method there is: a model in Python, and not its table of settings."""
    trees = [ast.parse(path.read_text("utf-8")) for folder in ("tasks", "models", "contract.py")
             for path in ([ROOT / "regard" / folder] if folder.endswith(".py") else
                          (ROOT / "regard" / folder).rglob("*.py"))]
    return frozenset(f"model.{node.name}" for tree in trees for owner in ast.walk(tree)
                     if isinstance(owner, ast.ClassDef) for node in owner.body if isinstance(node, ast.FunctionDef))


def missing_settings(text: str) -> set[str]:
    return {one or other for one, other in SETTING.findall(text)} - known_settings() - known_methods() - NO_SETTINGS


def missing_options(text: str) -> set[str]:
    return set(OPTION.findall(text)) - known_options()


def missing_classes(text: str) -> set[str]:
    return set(CLASS.findall(text)) - known_classes()


def missing_files(text: str) -> set[str]:
    return {name for name in FILE.findall(text)
            if not any((folder / name).is_file() for folder in (ROOT, ROOT / "regard", ROOT / "docs"))}


def missing_modules(text: str) -> set[str]:
    imported = {f"{module}.{name}" for module, names in IMPORT.findall(text) for name in names.split(", ")}
    return {name for name in imported.union(MODULE.findall(text)) if not exists(name)}


def exists(name: str) -> bool:
    """Whether a dotted name is a module of Regard, or a name in one."""
    import regard

    module, _, last = name.rpartition(".")
    if module == "regard" and (last in dir(regard) or hasattr(regard, last)):
        return True
    try:
        if find_spec(name):
            return True
    except ModuleNotFoundError:
        pass
    file = ROOT / (module.replace(".", "/") + ".py")
    file = file if file.is_file() else ROOT / module.replace(".", "/") / "__init__.py"
    return file.is_file() and re.search(rf"^(?:def|class) {last}\b|^{last}\b.*=|import .*\b{last}\b",
                                        file.read_text("utf-8"), re.M) is not None


CHECKS = {"settings": missing_settings, "options": missing_options, "classes": missing_classes,
          "files": missing_files, "modules": missing_modules}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_what_a_page_names_exists(page, check):
    assert check(page.read_text("utf-8")) == set()


@pytest.mark.parametrize(("check", "text", "missing"), [
    ("settings", "`training.optimiser`, `training.seed`, --set model.widht=3", {"training.optimiser", "model.widht"}),
    ("options", "regard train lm --minuts 2 --steps 3", {"--minuts"}),
    ("classes", "a `SequenceLayr` beside a `SequenceLayer` and `contract.Stat`", {"SequenceLayr", "Stat"}),
    ("files", "`layers/atend.py`, `layers/attend.py` and `bench/hous.py`", {"layers/atend.py", "bench/hous.py"}),
    ("modules", "`regard.look.rendr`, `regard.load`, `regard.metrics.intervals`", {"regard.look.rendr"}),
    ("modules", "from regard.contract import State, Stat\n", {"regard.contract.Stat"}),
])
def test_a_name_that_does_not_exist_is_seen(check, text, missing):
    assert CHECKS[check](text) == missing


def test_the_table_of_the_transformer_lists_its_settings():
    from regard.families.transformer import TransformerSettings

    table = (ROOT / "docs" / "families.md").read_text("utf-8").partition("## Transformers")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`.+?`) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)}
    known = {field.name for field in dataclasses.fields(TransformerSettings)}
    assert listed <= known and known - listed <= {"layers", "width", "heads", "context"}          # those with a flag


# ------------------------------------------------------------------------------- commands, dependencies


def commands_in(page: str) -> tuple[set[str], set[str]]:
    """The commands of the reference, and the tasks that `regard train` has there."""
    section = page.partition("## Commands")[2]
    return set(re.findall(r"^regard (\w+)", section, re.M)), set(re.findall(r"^regard train (\w+)", section, re.M))


def dependencies_in(page: str) -> tuple[set[str], set[str]]:
    """The packages and the extras that the reference says are needed."""
    section = " ".join(page.partition("## Requirements")[2].split())
    listed = section.partition("not tested), ")[2].partition(". ")[0]
    names = {re.match(r"[\w-]+", each)[0] for each in re.split(r", and |, | and ", listed)}
    return names, set(re.findall(r"regard\[(\w+)\]", section))


REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")


def test_the_reference_lists_every_command_and_no_other():
    from regard.cli import COMMANDS
    from regard.tasks import CARDS

    assert commands_in(REFERENCE) == (set(COMMANDS), set(CARDS))


def test_the_reference_lists_the_dependencies_of_the_package_and_no_other():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}
    assert dependencies_in(REFERENCE) == (wanted, set(project["optional-dependencies"]) - {"dev"})


def test_a_command_or_a_dependency_too_few_or_too_many_is_seen():
    lines = REFERENCE.splitlines(keepends=True)
    fewer = "".join(line for line in lines if not line.startswith("regard check"))
    assert commands_in(REFERENCE)[0] - commands_in(fewer)[0] == {"check"}
    other = REFERENCE.replace("regard train lm ", "regard train ml ")
    assert commands_in(other)[1] - commands_in(REFERENCE)[1] == {"ml"}
    assert dependencies_in(REFERENCE)[0] - dependencies_in(REFERENCE.replace("polib, ", ""))[0] == {"polib"}
    more = REFERENCE.replace("click, ", "click, scipy, ")
    assert dependencies_in(more)[0] - dependencies_in(REFERENCE)[0] == {"scipy"}
