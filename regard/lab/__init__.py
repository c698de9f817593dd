"""The lab: every claim of the lectures as an experiment that can come out either way.

An experiment is one file in `regard/lab/claims`, written to be read: the claim, its equation, what would refute it,
what is run for each seed, and the rule by which the numbers are judged, written down before the run.
"""
