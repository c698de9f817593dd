"""Any Unicode through every kind of tokenizer: it comes back where the kind is lossless, and never makes a special."""

from random import Random

from tests.soak.campaign import Campaign, Failure


def prepare(folder):
    from tests.data.tokens.drawn_texts import tokenizers

    tokenizers()


def run(seed, folder):
    from tests.data.tokens.drawn_texts import draw_text, tokenizers, wrong, wrong_words

    chance, every = Random(f"unicode {seed}"), tokenizers()
    name = list(every)[seed % len(every)]
    text, more = draw_text(chance), draw_text(chance)
    found = wrong(every[name], text, more)
    if not found and name.startswith("word "):
        found = wrong_words(every[name], text)
    return Failure(f"{name}: {found}: {text!r}"[:1500]) if found else None


CAMPAIGN = Campaign(
    "unicode", "a text of any Unicode goes through one of 21 tokenizers and back", ci=1_000, soak=200_000, run=run,
    prepare=prepare, also=("tests/data/tokens/drawn_texts.py",),
    holds="the same text where the kind is lossless, what it knows elsewhere; no special token; streamed and in "
          "batches the same")
