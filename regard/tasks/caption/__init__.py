"""Captioning: translation from pixels; how many captions are exactly right is the measure."""

from regard.tasks.card import Card

PICTURES = tuple(f"shapes-{number}" for number in range(1, 7))     # of the embedded corpus, drawn when asked for

CARD = Card(
    "caption", used_by="regard caption, or regard score", usual="rnn-attention",
    judged=("valid_exact", "exactly right"), fields=("image", "target"), example=PICTURES[0],
    find_examples=lambda tables: list(PICTURES), instead="look at it on the page")
