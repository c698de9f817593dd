"""The order of the site: what stands in its side bar, and below which page. Each page stands here once."""

from __future__ import annotations

CONTENTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "index.md": (
        ("Start", ("start/install", "start/text", "start/pairs", "tutorial")),
        ("Understand", ("tour/index", "words", "lab", "course", "teaching")),
        ("Do", ("how-to/index", "data", "corpora", "large-data", "families", "translation", "summarising", "captioning",
                "classifying", "tagging", "serving", "serving-at-scale", "exporting", "importing", "hub",
                "scaling-out")),
        ("Look up", ("reference", "reference/commands", "reference/settings", "reference/names", "reference/formats")),
        ("Judge", ("other-tools", "compare", "performance", "reliability", "mutants")),
        ("Behind it", ("design", "project/contributing", "releases", "project/changelog", "project/security",
                       "project/readme", "log"))),
    "how-to/index.md": (
        ("", ("training", "settings", "translating", "looking", "compare", "using", "exchanging", "trouble")),),
    "tour/index.md": (
        ("", ("counting", "averaging", "windows", "recurrence", "learning", "bottleneck",
              "attention", "bilinear", "additive", "location",
              "self-attention", "order", "positions", "masks", "heads", "residuals", "block",
              "encoder-decoder", "decoder-only", "linear-recurrence", "state-spaces", "cost")),),
}


def tables_below(place: str) -> str:
    """The lists of pages that stand below a page, as Sphinx wants them."""
    return "".join("\n\n:::{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "") + "\n"
                   + "\n".join(pages) + "\n:::\n" for caption, pages in CONTENTS.get(place, ()))
