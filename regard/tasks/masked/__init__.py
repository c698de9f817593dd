"""Masked tokens: some tokens of a text are hidden, and told from everything around them."""

from regard.tasks.card import READING, Card, held_out_line

CARD = Card(
    "masked", used_by="regard fill, or regard vectors", tabs=READING, example="Once upon a ___.",
    find_example=held_out_line)
