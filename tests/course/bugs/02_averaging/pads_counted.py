"""Mistake: the mean over all positions, pads among them."""


def average(x, lengths):
    return x.mean(1)
