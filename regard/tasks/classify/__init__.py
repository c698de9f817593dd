"""Classification: a label for a text, such as its language, its topic or what its author thinks."""

from regard.tasks.card import Card, held_out_text, held_out_texts

CARD = Card(
    "classify", used_by="regard classify, or regard score", usual="window", judged=("valid_accuracy", "accuracy"),
    tabs=("read",), example="Once upon a time there was a red kite.", find_example=held_out_text,
    find_examples=held_out_texts, instead="use regard classify, or the page", compared="classifiers")
