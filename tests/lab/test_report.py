"""The report: what was run, where, when and how; machines side by side; flips told plainly; nothing from elsewhere."""

import re

from regard.lab.claims_page import make_page

RULE = {"says": "x is more, by", "values": [1, 2], "median": 1.5, "low": 1.0, "high": 2.0, "bound": 0.3,
        "side": "above", "cause": "it", "condition": "", "verdict": "holds", "exact": False, "unit": " nats"}


def card(name="one", machine="cpu", verdict="holds", number=1, **more):
    return {"name": name, "number": number, "title": f"Title of {name} <b>", "claim": f"{name} & more.",
            "source": "a book", "equation": "a < b", "refuted": "b < a", "rule": "x (above 0.3)",
            "flip": "takes it away", "notes": "small", "verdict": verdict, "rules": [RULE], "seeds": 5, "quick": False,
            "seconds": 1234.0, "when": "2026-01-02", "where": "2 CPU cores, torch 2", "machine": machine,
            "command": f"regard lab run {name} --seeds 5", "table": {"columns": ["", "x"], "rows": [["a", "<i>"]]},
            "plots": [{"title": "p", "svg": "<svg/>"}], **more}


def flipped(after, before="holds", **more):
    rule = {"says": RULE["says"], "before": before, "after": after, "median_before": 1.5, "median": -7.0, "low": -8.0,
            "high": -6.0, "unit": " nats"}
    return {"it": {"does": "takes it away", "verdict": after, "seeds": 5, "quick": False, "rules": [rule],
                   "command": "regard lab flip one --seeds 5", **more}}


def rows(page):
    """The summary, a list of cells without markup for each claim."""
    body = re.search(r'class="index".*?<tbody>(.*?)</tbody>', page, re.S)[1]
    return [[re.sub(r"<[^>]+>", " ", cell).split() for cell in re.findall(r"<td>(.*?)</td>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", body)]


def test_a_claim_says_what_was_run_where_when_by_which_command_and_rule():
    page = make_page([card(flips=flipped("fails"), looked="rules changed on 2026-01-01, after a first look")])
    for said in ("Title of one &lt;b&gt;", "one &amp; more.", "a &lt; b", "2 CPU cores, torch 2", "2026-01-02",
                 "full, 5 seeds, 1,234 s", "regard lab run one --seeds 5\nregard lab flip one --seeds 5", "1.5 nats",
                 "1 to 2", "above 0.3", ">fails</span>: -7", "&lt;i&gt;", "95% over seeds", "small",
                 "1 of 1 rules changed (full, 5 seeds)", "rules changed on 2026-01-01, after a first look"):
        assert said in page, said
    assert "<b>" not in page.replace("</b>", "") and "<i>" not in page


def test_machines_stand_next_to_each_other_in_the_summary_and_in_the_claim():
    page = make_page([card(), card(machine="cuda", verdict="fails", quick=True), card("two", "cuda", number=2)])
    assert rows(page) == [[["1"], ["Title", "of", "one", "&lt;b&gt;"], ["holds"], ["fails", "quick"], ["not", "run"]],
                          [["2"], ["Title", "of", "two", "&lt;b&gt;"], ["not", "run"], ["holds"], ["not", "run"]]]
    assert page.count('<section class="claim"') == 2 and page.count('<div class="machine"') == 3
    assert "On cpu 1 hold, 0 fail, 0 are unclear. On cuda 1 hold, 1 fail, 0 are unclear." in page


def test_a_rule_that_did_not_change_is_told_plainly():
    same, condition = flipped("holds"), {**RULE, "cause": "", "condition": "else nothing was learned <b>"}
    page = make_page([card(flips=same), card("two", number=2, flips=flipped("fails"), rules=[RULE, condition]),
                   card("three", number=3)])
    assert "3 rules carry the claims. With its cause taken away 2 were judged again; 1 came out otherwise, and not: " \
        "one on cpu (x is more, by: holds -&gt; holds)." in page
    assert "condition: else nothing was learned &lt;b&gt;" in page
    assert "and not:" not in make_page([card(flips=flipped("fails"))])


def test_what_is_missing_or_measured_by_older_code_is_said():
    page = make_page([card()], ["other"], [("one", "cpu")])
    assert "Not measured yet: other." in page and "earlier version of this experiment" in page
    assert "not shown: one (cuda)" in make_page([card()], old=[("one", "cuda")])
    assert "earlier version" not in make_page([card()])


def test_the_page_needs_nothing_else_and_knows_the_dark():
    page = make_page([card()])
    assert "<script" not in page and not re.search(r'(src|href)="(?!data:|#)', page) and "@import" not in page
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
