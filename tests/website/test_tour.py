"""The tour and the recipes are whole: each page has what the first page promises, and each look and claim its place."""

import math
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from docs.site.contents import CONTENTS
from docs.site.looks import LOOKS, MODELS
from docs.site.stage import DOCS
from docs.site.verdicts import RESULTS
from regard.layers.attend import scores_of
from regard.layers.average import RunningMean
from regard.layers.positions import alibi_slopes
from regard.layers.scores import make_score

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


def test_the_numbers_that_the_pages_work_out_are_right():
    def says(page, *numbers):
        text = (DOCS / "tour" / f"{page}.md").read_text("utf-8")
        assert all(number in text for number in numbers), (page, numbers)

    says("linear-recurrence", f"a = 1.01 is {1.01**1000:,.0f} after a thousand words")
    says("learning", f"log 10,000 = {math.log(10_000):.2f}")
    says("additive", f"256³ numbers: {256**3 / 1e6:.1f} million, or {256**3 * 4 / 1e6:.0f} MB", f"{256**2:,}")
    block = 12 * 768**2
    says("block", f"{block / 1e6:.1f} million; twelve blocks are {12 * block / 1e6:.0f} million")
    cache = 2 * 12 * 768 * 4096 * 2
    says("cost", f"= {cache / 1e6:.0f} MB", f"{8 * cache / 1e9:.1f} GB")
    width = 768                                          # 12 T D^2 = 2 T^2 D
    says("cost", f"T = 6 D, which is {12 * width // 2:,} words for D = {width}")
    slopes = [Fraction(float(slope)) for slope in alibi_slopes(2)]
    says("positions", f"the slopes are {slopes[0]} and {slopes[1]}")


def test_the_example_by_hand_is_what_our_attention_gives():
    a, b = [1.0, 0.0], [0.0, 1.0]
    keys = torch.tensor([[[a, a, b, a]]])
    scores = scores_of(torch.tensor([[[b]]]), keys, score=make_score("dot", 1, 2))
    weights = (scores * math.log(3)).softmax(-1)                       # 3 for e, as in the lecture
    torch.testing.assert_close(scores.flatten(), torch.tensor([0.0, 0.0, 1.0, 0.0]))
    torch.testing.assert_close(weights.flatten() * 6, torch.tensor([1.0, 1.0, 3.0, 1.0]))
    torch.testing.assert_close((weights @ keys).flatten(), torch.tensor([0.5, 0.5]))
    table = scores_of(keys, keys, score=make_score("dot", 1, 2))[0, 0]
    assert table.int().tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]


def test_every_word_of_a_mean_has_the_same_influence():
    x = torch.randn(1, 5, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(RunningMean(4)(x)[0][0, -1] @ torch.randn(4), x)
    torch.testing.assert_close(gradient[0], gradient[0, :1].expand(5, 4))
    assert "All squares of a row are equally dark" in (DOCS / "tour" / "averaging.md").read_text("utf-8")


def test_the_lecture_s_score_is_bilinear_with_the_transposed_product():
    e, w_k, w_q, query = (torch.randn(*shape, dtype=torch.float64) for shape in ((4, 3), (3, 3), (3, 3), (3,)))
    torch.testing.assert_close((e @ w_k) @ (w_q @ query), query @ (w_k @ w_q).T @ e.T)
