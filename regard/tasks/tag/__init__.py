"""Tagging: a label for each word of a text, its part of speech or a kind of name."""

from regard.tasks.card import Card, held_out_text

CARD = Card(
    "tag", used_by="regard tag, or regard score", usual="lstm", judged=("valid_accuracy", "accuracy"), tabs=("read",),
    example="Her watch is light , but they light that lamp .", find_example=held_out_text,
    instead="use regard tag, or the page", compared="taggers")
