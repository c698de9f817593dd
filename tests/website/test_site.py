"""The site, without building it: its pages are in its contents, what they name is there, and its links lead somewhere.

`make docs` builds it, where every warning is an error. What is planted here is wrong, and is seen.
"""

import re
from pathlib import Path

import pytest

from docs.site import excerpts, links, looks, reference, stage, timed, verdicts
from docs.site.contents import CONTENTS

ROOT = Path(__file__).parents[2]
PAGES = stage.pages()
WORD = re.compile(r"^:::\{(\w+)\} (\S.*)\n((?::\w+: .*\n)*)", re.M)
MISTAKES = (excerpts.NoSuchCode, looks.NoSuchLook, verdicts.NoSuchClaim, reference.NoSuchPart)


def words(text):
    """The words of our Markdown for the site: what, its name, its options."""
    for kind, name, options in WORD.findall(text):
        yield kind, name.strip(), dict(re.findall(r"^:(\w+): (.*)$", options, re.M))


def look_up(kind, name, options):
    """Find what a page asks for, as the build does."""
    if kind == "excerpt":
        return excerpts.excerpt(name, options.get("from", ""), options.get("to", ""))
    if kind == "look":
        return looks.look_named(name)
    if kind == "claim":
        return verdicts.chart_of(name, int(options.get("chart", 1)))
    assert kind == "generated", kind
    return reference.PARTS[name]


@pytest.mark.parametrize("place", PAGES)
def test_what_a_page_includes_is_there(place):
    for word in words(PAGES[place].read_text("utf-8")):
        assert look_up(*word)


@pytest.mark.parametrize("word", [
    ("excerpt", "regard.layers.attend:atend", {}), ("excerpt", "regard.layers.atend:attend", {}),
    ("excerpt", "regard.layers.attend:attend", {"from": "no such line"}),
    ("excerpt", "regard.training.loop", {}), ("look", "no-such-look", {}), ("claim", "no-such-claim", {}),
    ("claim", "heads", {"chart": "99"})])
def test_a_wrong_name_is_seen(word):
    with pytest.raises(MISTAKES):
        look_up(*word)


def test_an_excerpt_is_the_code_of_that_name():
    taken = excerpts.excerpt("regard.layers.norms:make_norm")
    lines = taken.file.read_text("utf-8").splitlines()
    assert lines[taken.first - 1].startswith("def make_norm(")
    assert taken.code.splitlines()[0] == lines[taken.first - 1] and '"""' not in taken.code
    part = excerpts.excerpt("regard.layers.norms:make_norm", start="def make_norm", end="def make_norm")
    assert part.code == lines[taken.first - 1]


def test_every_page_stands_in_the_contents_once():
    listed = [name for tables in CONTENTS.values() for _, names in tables for name in names]
    full = [str(Path(parent).parent / name) if parent != "index.md" else name
            for parent, tables in CONTENTS.items() for _, names in tables for name in names]
    assert len(listed) == len(full) == len(set(full))
    assert {f"{name}.md" for name in full} | {"index.md"} == set(PAGES)


def test_every_link_of_the_pages_leads_to_a_page_or_a_file(tmp_path):
    stage.stage(tmp_path)
    for file in tmp_path.rglob("*.md"):
        stage.relink(file.read_text("utf-8"), lambda target, at=file: leads(target, at))


def leads(target, file):
    if not re.match(r"[a-z]+:|#", target):
        assert (file.parent / target.partition("#")[0]).exists(), f"{file.name} points at {target}"
    return target


def test_links_in_code_stay_as_they_are_and_a_dead_one_is_seen(tmp_path):
    text = "[a](b.md) and `[c](d.md)`\n\n```\n[e](f.md)\n```\n\n[`g`](h.md) ![i](j.png)\n"
    found = []
    assert stage.relink(text, lambda target: found.append(target) or "x") == \
        "[a](x) and `[c](d.md)`\n\n```\n[e](f.md)\n```\n\n[`g`](x) ![i](x)\n"
    assert found == ["b.md", "h.md", "j.png"]
    with pytest.raises(stage.DeadLink, match="nowhere"):
        stage.lead("nowhere.md", "words.md", ROOT / "docs" / "words.md", tmp_path, set())


def test_dead_links_of_a_finished_site_are_seen(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.html").write_text('<p id="here"><a href="sub/b.html#there">b</a><a href="#here">a</a>'
                                     '<a href="https://example.org/">c</a><img src="p.png" alt="a picture">')
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "sub" / "b.html").write_text('<p id="there"><a href="../a.html">a</a>')
    assert links.dead_links(tmp_path) == ([], 5)
    (tmp_path / "sub" / "b.html").write_text(
        '<a href="../a.html#nowhere">x</a><a href="c.html">x</a><img src="../p.png"><a href="../../a.html">x</a>'
        '<script src="https://example.org/a.js"></script><a href="http:example">x</a>')
    wrong, _ = links.dead_links(tmp_path)
    told = " ".join(wrong)
    assert len(wrong) == 7 and all(each in told for each in (
        "there has no such place", "#nowhere has no such place", "c.html is not there", "without a text alternative",
        "../../a.html is not there", "loaded from another host", "http:example is no address"))


@pytest.mark.parametrize("part", reference.PARTS)
def test_the_reference_is_made_from_the_code(part):
    text = reference.part(part)
    for name in {"commands": ("## regard show", "### regard train lm", "`-o, --out FILE`"),
                 "settings": ("`learning_rate` | `0.003`", "`batch` | `32` | rows in a step", "smoothing"),
                 "names": ("## regard.watch", "## regard.SequenceLayer"),
                 "peers": ("**Beside JoeyNMT**", "times the speed of ctranslate2-int8: ", "theirs: nanoGPT "),
                 "formats": ("`.parquet`", "`.tmx`", "--to gguf", "`.npz`")}[part]:
        assert name in text


def test_every_setting_in_the_reference_says_what_it_is():
    text = reference.part("settings")
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", text, re.M)
    silent = sorted({name for name, about in rows if not about.strip()})
    assert len(rows) > 200 and len(silent) < 60


def test_the_commands_that_are_timed_are_those_of_the_page():
    page = ("<!-- test: run -->\n```sh\nregard info      # says it\nregard data list\n```\n\n"
            "```sh\nregard serve runs/a\n```\n")
    assert list(timed.commands_of(page)) == ["regard info", "regard data list"]
    with pytest.raises(SystemExit, match="ended with 3"):
        timed.run("exit 3", ROOT, ROOT)
