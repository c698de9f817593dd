"""The tour and the recipes are whole: each page has what the first page promises, and each look and claim its place."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from docs.site.contents import CONTENTS
from docs.site.looks import LOOKS, MODELS
from docs.site.stage import DOCS
from docs.site.verdicts import RESULTS

TOUR = [DOCS / "tour" / f"{name}.md" for name in CONTENTS["tour/index.md"][0][1]]
RECIPES = [DOCS / "how-to" / f"{name}.md" for name in CONTENTS["how-to/index.md"][0][1]]
HEADINGS = ["The equation", "The code", "A look", "What was measured", "Two questions", "What people get wrong"]


def named(kind, page):
    return re.findall(rf"^:::\{{{kind}\}} (\S+)$", page.read_text("utf-8"), re.M)


@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.stem)
def test_a_page_of_the_tour_has_all_that_the_first_page_promises(page):
    text = page.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.M) == HEADINGS
    assert "$$" in text.partition("## The code")[0]
    assert named("excerpt", page) and named("look", page) and named("claim", page)
    questions = text.partition("## Two questions")[2].partition("## What people")[0]
    assert questions.count("<summary>") == questions.count("</details>") == 2
    assert len(re.findall(r"^- \*\*", text.partition("## What people get wrong")[2], re.M)) == 3


def test_each_page_leads_to_the_next():
    for page, after in pairwise(TOUR):
        title = after.read_text("utf-8").splitlines()[0].removeprefix("# ")
        assert page.read_text("utf-8").rstrip().endswith(f"Next: [{title}]({after.name})"), page.name


def test_the_first_page_names_all_others():
    text = (DOCS / "tour" / "index.md").read_text("utf-8")
    assert re.findall(r"\]\(([\w-]+\.md)\)", text) == [page.name for page in TOUR]
    assert text.startswith("# The tour\n\nTwenty-two pages") and len(TOUR) == 22


def test_every_look_is_shown_once_and_every_model_has_a_look():
    shown = [name for page in TOUR for name in named("look", page)]
    assert sorted(shown) == sorted(LOOKS)
    assert {look.model for look in LOOKS.values()} == set(MODELS)
    assert all(len(look.alt) > 40 for look in LOOKS.values())


def test_every_claim_of_the_lab_stands_on_the_tour():
    claims = {Path(file).stem for file in (RESULTS / "cpu").glob("*.json")}
    assert claims <= {name for page in TOUR for name in named("claim", page)}


def test_there_are_forty_recipes_and_each_is_a_question():
    questions = [title for page in RECIPES for title in re.findall(r"^## (.+)$", page.read_text("utf-8"), re.M)]
    assert len(questions) == len(set(questions)) == 40
    assert all(title.endswith("?") for title in questions), questions
