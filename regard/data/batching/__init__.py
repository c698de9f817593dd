"""Batches of text and of pairs, each a pure function of the seed and the step."""
