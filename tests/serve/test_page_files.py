"""The files of the page: names that can stand in one script, nothing but text added as text, all of it small."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from regard.look.render.saved_page import MODULES, STYLES, as_plain_script, page_file

PAGE = Path(__file__).parents[2] / "regard" / "look" / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
DECLARED = re.compile(r"^(?:export )?(?:async )?(const|let|var|function\*?|class) ", re.M)


def declared_names(text: str) -> list[str]:
    """Names declared at the beginning of a line: those of the module itself."""
    found = []
    for match in DECLARED.finditer(text):
        rest = text[match.end():]
        if match[1] not in ("const", "let", "var"):
            found.append(re.match(r"[\w$]+", rest)[0])
            continue
        for part in declarators(rest):
            name = part.partition("=")[0].strip()
            found += re.findall(r"[\w$]+", name) if name[:1] in "{[" else [name]
    return found


def declarators(rest: str) -> list[str]:
    """The parts of `a = 1, b = [2, 3];`, cut where they are not inside of anything."""
    depth, parts, quote = 0, [""], ""
    for char in rest:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and char == ";":
            break
        elif depth == 0 and char == ",":
            parts.append("")
            continue
        parts[-1] += char
    return parts


def test_the_names_of_a_module_are_found():
    text = "export const a = (x, y) => [x, y], b = {c: 1};\nlet d, e = 0;\nasync function f(g) {\n  const h = 1;\n}\n"
    text += "export class I extends J {\n}\nconst { k, l } = m;\n"
    assert declared_names(text) == list("abdefIkl")


def test_names_are_different_over_all_files_so_that_any_can_stand_in_one_script():
    where = defaultdict(list)
    for path in SCRIPTS:
        for name in declared_names(path.read_text()):
            where[name].append(path.name)
    shared = {name: files for name, files in where.items() if len(files) > 1 and name != "tab"}
    assert not shared, shared                       # every tab exports `tab`; a saved file has one of them


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_is_only_ever_added_as_text_and_nothing_comes_from_outside(path):
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r"Math\.random", text)     # no number on the page is made up


def test_every_file_that_the_page_names_is_there():
    html = page_file("index.html")
    for name in re.findall(r'(?:href|src)="([^"#]+)"', html):
        assert (PAGE / name).is_file(), name
    for path in SCRIPTS:
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            assert (PAGE / name).is_file(), (path.name, name)
    assert not re.search(r' style="| on\w+="|<script>|<style>', html)               # the policy would refuse them


def test_a_saved_file_has_every_module_that_its_modules_import_and_no_import_is_left():
    for name in MODULES:
        needed = re.findall(r'from "\./([^"]+)"', page_file(name))
        assert set(needed) <= set(MODULES), name
        plain = as_plain_script(name)
        assert not re.search(r"^\s*(import|export)\b", plain, re.M), name
        assert not re.search(r"^import .* as ", page_file(name), re.M), f"{name}: one script has one name"
    assert all((PAGE / name).is_file() for name in STYLES)
