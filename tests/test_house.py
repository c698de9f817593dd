"""The tree keeps the shape that docs/design.md tells of: what `make house` counts stays within its bounds."""

import ast
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

import house

DESIGN = (house.ROOT / "docs" / "design.md").read_text("utf-8")
HOPS = sorted({hop for path in house.PATHS.values() for hop in pairwise(path)})

# Hops by attribute: the file that calls does not know the next one. Each with the call, the class or function that it
# reaches, and the file that puts the two together.
BY_ATTRIBUTE = {
    ("cli/translate", "tasks/translate/trained"): ("model.stream(", "TrainedTranslator", "tasks/translate/task"),
    ("look/look", "tasks/lm/look"): ("task.look(", "build", "tasks/lm/task"),
    ("tasks/lm/look", "models/neural"): ("model.encode(", "NeuralLM", "families/transformer"),
    ("training/step", "models/neural"): ("model.loss", "NeuralLM", "families/transformer"),
    ("decoding/beam", "models/seq2seq"): ("self.model.step(", "Seq2Seq", "families/translate"),
    ("models/neural", "layers/stack"): ("self.stack(", "Stack", "families/transformer"),
    ("models/neural", "layers/attentive"): ("self.stack(", "AttentiveRecurrence", "families/translate"),
    ("layers/stack", "layers/self_attention"): ("self.mixer(", "SelfAttention", "families/transformer"),
}


def source_of(file: str) -> str:
    return (house.REGARD / f"{file}.py").read_text("utf-8")


def imported_names(source: str, module: str) -> set[str]:
    """The names that a file takes from a module, at its top or inside a function."""
    return {alias.asname or alias.name for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom) and node.module == module for alias in node.names}


def used_names(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def defined_names(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def reaches(source: str, following: str) -> bool:
    """Whether a file imports something that the next file defines, and uses it."""
    names = imported_names(source, "regard." + following.replace("/", "."))
    return bool(names & used_names(source) & defined_names(source_of(following)))


# ---------------------------------------------------------------------------------------- the afternoon


def test_the_afternoon_is_short_and_every_file_of_it_exists():
    files = house.find_afternoon()
    assert not [path for path in files if not path.is_file()]
    assert len(set(files)) == len(files)
    counted = house.count_afternoon()
    assert 1 <= counted["files"] <= 30 and counted["lines"] <= 4000, counted


def test_the_afternoon_holds_the_path_from_the_command_to_the_softmax():
    assert {house.REGARD / f"{file}.py" for file in house.PATHS["train"]} <= set(house.find_afternoon())


def test_the_page_of_the_design_is_short():
    assert len(DESIGN) <= 18_000


def test_the_tree_on_the_page_is_drawn_from_the_docstrings_and_has_every_part():
    assert house.with_tree(DESIGN) == DESIGN, "run python bench/house.py --tree"
    rows = house.draw_tree(DESIGN).splitlines()[1:]
    parts = {path.name for path in house.REGARD.iterdir() if (path / "__init__.py").is_file() or path.suffix == ".py"}
    assert {row.split()[0].rstrip("/") for row in rows} == parts - {"__init__.py", "__main__.py"}
    assert all(len(row.split()) > 2 for row in rows), "a part without a docstring"


def test_a_tree_that_was_typed_by_hand_is_seen():
    typed = DESIGN.replace("  errors.py ", "  errors.py and others ")
    assert typed != DESIGN and house.with_tree(typed) == DESIGN
    rows = house.draw_tree("```\nerrors <- models, nothing\n```").splitlines()
    assert [row.split()[0] for row in rows] == ["regard/", "errors.py", "models/"]


# --------------------------------------------------------------------------------------------- the paths


def test_a_command_reaches_the_softmax_in_few_files():
    assert {name: len(path) for name, path in house.PATHS.items()} == {"train": 8, "translate": 8, "look": 8}
    assert all(path[-1] == "layers/attend" for path in house.PATHS.values())
    assert " → ".join(f"`{file}`" for file in house.PATHS["train"]) in DESIGN


@pytest.mark.parametrize("file", sorted({file for path in house.PATHS.values() for file in path}))
def test_every_file_of_a_path_exists(file):
    assert (house.REGARD / f"{file}.py").is_file()


@pytest.mark.parametrize(("file", "following"), [hop for hop in HOPS if hop not in BY_ATTRIBUTE])
def test_a_hop_by_import_is_real(file, following):
    assert reaches(source_of(file), following)


@pytest.mark.parametrize(("file", "following"), sorted(BY_ATTRIBUTE))
def test_a_hop_by_attribute_is_real(file, following):
    call, name, builder = BY_ATTRIBUTE[file, following]
    assert (file, following) in HOPS
    assert call in source_of(file)
    assert name in defined_names(source_of(following))
    assert name in imported_names(source_of(builder), "regard." + following.replace("/", "."))
    assert name in used_names(source_of(builder))


def test_a_hop_that_is_none_is_seen():
    assert not reaches("from regard.layers.attend import attend", "layers/attend")             # imported, never used
    assert not reaches("from regard.layers.stack import Stack\nStack([])", "layers/attend")
    assert reaches("def f():\n    from regard.layers.attend import attend\n    attend()", "layers/attend")


# ------------------------------------------------------------------------------------ what is forbidden


def test_no_file_outside_their_tables_compares_with_the_name_of_a_task_or_a_family():
    assert list(house.find_compared()) == []


def test_no_layer_or_model_checks_a_device():
    assert list(house.find_devices()) == []


def test_what_was_brought_to_nothing_stays_so():
    counted = house.count_all()
    for name in ("class names used twice", "file names used twice", "settings declared in two places",
                 house.DOCSTRINGS):
        assert not counted[name], (name, counted[name])
    assert len(counted["isinstance on classes of another package"]) <= 10


@pytest.mark.parametrize("line", ['if task == "lm":', "if family.name != 'rnn':", "if run.task in ('lm', 'masked'):"])
def test_a_comparison_with_a_name_is_seen(line):
    assert house.COMPARED.search(line)


@pytest.mark.parametrize("line", ["if x.is_cuda:", 'if x.device.type == "cpu":', "if products.can(x, w):"])
def test_a_device_check_is_seen(line):
    assert house.DEVICES.search(line)


# ------------------------------------------------------------------------------------- names and words


@pytest.mark.parametrize(("file", "role"), [
    ("cli/translate.py", True), ("tasks/lm/score.py", True), ("tasks/score.py", False), ("tasks/lm/batches.py", False),
    ("kernels/cuda/add_norm.py", True), ("kernels/cuda/cublas.py", False), ("kernels/add_norm.py", False),
    ("serve/__init__.py", True)])
def test_a_file_has_a_role_where_the_table_says_so(file, role):
    assert (house.REGARD / file).is_file()
    assert house.has_role(house.REGARD / file) is role


def test_a_name_with_two_places_is_listed_with_both():
    places = [("Plan", house.REGARD / "a.py"), ("Run", house.REGARD / "a.py"), ("Plan", house.REGARD / "b.py")]
    assert house.repeated(places) == {"Plan": ["a.py", "b.py"]}


def parsed(source: str) -> dict[Path, ast.Module]:
    return {house.REGARD / "families" / "planted.py": ast.parse(source)}


def test_a_setting_of_two_unrelated_classes_is_seen_and_a_changed_default_is_not():
    source = """
class StackSettings:
    layers: int = 4
    width: int = 64
class DeepSettings(StackSettings):
    layers: int = 8
class DeeperSettings(StackSettings):
    layers: int = 8
class OtherSettings:
    layers: int = 8
    width: int = 64
"""
    assert house.find_repeated_settings(parsed(source)) == {"width: int = 64": ["StackSettings", "OtherSettings"]}


@pytest.mark.parametrize(("text", "listed"), [
    ("What it is.", 1), ("The same, later.", 1), ("Whatever it is.", 0), ("Tell how.", 0)])
def test_a_docstring_that_begins_with_a_question_word_is_seen(text, listed):
    assert len(list(house.find_openings(parsed(f'def f():\n    """{text}"""')))) == listed


def test_a_vague_name_is_seen_where_it_lives_long():
    body = "    x = 1\n" * 6
    assert len(list(house.find_vague(parsed(f"def f(at):\n{body}    return at")))) == 1
    assert len(list(house.find_vague(parsed(f"def f():\n    found = 1\n{body}    def g(): return found")))) == 1
    assert not list(house.find_vague(parsed(f"def f(at):\n    return at\n{body}")))
    assert not list(house.find_vague(parsed(f"def f(positions):\n{body}    return positions")))
