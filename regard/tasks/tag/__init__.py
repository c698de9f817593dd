"""Tagging: a label for each word of a text, its part of speech or a kind of name."""

from regard.tasks.card import Card, Tables, data_name


def held_out_sentence(tables: Tables) -> str:
    """Return a sentence that no model learned from; empty for a corpus that is not embedded."""
    from regard.data import embedded

    name = data_name(tables)
    return next(embedded.labelled(name, "valid")).text if name in embedded.LABELLED else ""


CARD = Card(
    "tag", used_by="regard tag, or regard score", usual="lstm", judged=("valid_accuracy", "accuracy"), tabs=("read",),
    example="Her watch is light , but they light that lamp .", find_example=held_out_sentence,
    instead="use regard tag, or the page", compared="taggers")
