"""Classification: a label for a text, such as its language, its topic or what its author thinks."""

from regard.tasks.card import Card, Tables, data_name


def held_out_text(tables: Tables) -> str:
    """Return a text that no model learned from; empty for a corpus that is not embedded."""
    from regard.data import embedded

    name = data_name(tables)
    return next(embedded.labelled(name, "valid")).text if embedded.known_labelled([name], "text") else ""


def held_out_texts(tables: Tables) -> list[str]:
    """Return some more texts that no model learned from."""
    from itertools import islice

    from regard.data import embedded

    name = data_name(tables)
    known = embedded.known_labelled([name], "text")
    return [found.text for found in islice(embedded.labelled(name, "valid"), 6)] if known else []


CARD = Card(
    "classify", used_by="regard classify, or regard score", usual="window", judged=("valid_accuracy", "accuracy"),
    tabs=("read",), example="Once upon a time there was a red kite.", find_example=held_out_text,
    find_examples=held_out_texts, instead="use regard classify, or the page", compared="classifiers")
