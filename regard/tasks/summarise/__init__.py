"""Summarising: translation from documents to one line each; ROUGE is the measure."""

from regard.tasks.card import Card, held_out_source

CARD = Card(
    "summarise", used_by="regard summarise, or regard score", judged=("valid_rouge", "ROUGE-L"),
    fields=("source", "target"), find_example=held_out_source)
