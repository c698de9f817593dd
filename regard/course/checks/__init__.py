"""The checks of each exercise: laws of sequence models, with messages for learners.

A module has `CHECKS`, a dict of names and functions of a `Student`; the first, `runs`, tries that there is something
to look at.
"""
