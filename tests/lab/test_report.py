"""The report: what was run, where, when and how; machines side by side; flips told plainly; nothing from elsewhere."""

import re

from regard.lab.report import report

RULE = {"says": "x is more, by", "values": [1, 2], "mean": 1.5, "low": 1.0, "high": 2.0, "bound": 0.3, "side": "above",
        "verdict": "holds", "exact": False, "unit": " nats"}


def card(name="one", machine="cpu", verdict="holds", number=1, **more):
    return {"name": name, "number": number, "title": f"Title of {name} <b>", "claim": f"{name} & more.",
            "source": "a book", "equation": "a < b", "refuted": "b < a", "rule": "x (above 0.3)",
            "flip": "takes it away", "notes": "small", "verdict": verdict, "rules": [RULE], "seeds": 5, "quick": False,
            "seconds": 1234.0, "when": "2026-01-02", "where": "2 CPU cores, torch 2", "machine": machine,
            "command": f"regard lab run {name} --seeds 5", "table": {"columns": ["", "x"], "rows": [["a", "<i>"]]},
            "plots": [{"title": "p", "svg": "<svg/>"}], **more}


def flipped(verdict, unflipped, **more):
    return {"verdict": verdict, "unflipped": unflipped, "seeds": 5, "quick": False, "rules": [RULE],
            "command": "regard lab flip one --seeds 5", **more}


def rows(page):
    """The summary, a list of cells without markup for each claim."""
    body = re.search(r'class="index".*?<tbody>(.*?)</tbody>', page, re.S)[1]
    return [[re.sub(r"<[^>]+>", " ", cell).split() for cell in re.findall(r"<td>(.*?)</td>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", body)]


def test_a_claim_says_what_was_run_where_when_by_which_command_and_rule():
    page = report([card(flipped=flipped("fails", "holds"))])
    for said in ("Title of one &lt;b&gt;", "one &amp; more.", "a &lt; b", "2 CPU cores, torch 2", "2026-01-02",
                 "full, 5 seeds, 1,234 s", "regard lab run one --seeds 5\nregard lab flip one --seeds 5", "1.5 nats",
                 "1 to 2", "above 0.3", "holds -&gt; fails", "&lt;i&gt;", "95% bootstrap interval", "small"):
        assert said in page, said
    assert "<b>" not in page.replace("</b>", "") and "<i>" not in page


def test_machines_stand_next_to_each_other_in_the_summary_and_in_the_claim():
    page = report([card(), card(machine="cuda", verdict="fails", quick=True), card("two", "cuda", number=2)])
    assert rows(page) == [[["1"], ["Title", "of", "one", "&lt;b&gt;"], ["holds"], ["fails", "quick"], ["not", "run"]],
                          [["2"], ["Title", "of", "two", "&lt;b&gt;"], ["not", "run"], ["holds"], ["not", "run"]]]
    assert page.count('<section class="claim"') == 2 and page.count('<div class="machine"') == 3
    assert "On cpu 1 hold, 0 fail, 0 are unclear. On cuda 1 hold, 1 fail, 0 are unclear." in page


def test_a_flip_that_changed_nothing_is_told_plainly():
    page = report([card(flipped=flipped("holds", "holds")), card("two", number=2, flipped=flipped("fails", "holds")),
                   card("three", number=3, flipped=flipped("fails", None, quick=True, seeds=3))])
    assert "holds -&gt; holds: flipping did not change it" in page
    assert "Flipped: 3 of 3 results; the verdict changed in 1, and did not change in 1: one (cpu)." in page
    assert "fails (quick, 3 seeds); not run at that size as it is" in page
    assert "did not change" not in report([card(flipped=flipped("fails", "holds"))])


def test_what_is_missing_or_measured_by_older_code_is_said():
    page = report([card()], ["other"], [("one", "cpu")])
    assert "Not measured yet: other." in page and "earlier version of this experiment" in page
    assert "earlier version" not in report([card()], old=[("one", "cuda")])


def test_the_page_needs_nothing_else_and_knows_the_dark():
    page = report([card()])
    assert "<script" not in page and not re.search(r'(src|href)="(?!data:|#)', page) and "@import" not in page
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
