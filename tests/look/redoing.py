"""A sheet of arithmetic done again from what is given, as the page does it, and compared with what PyTorch had."""

import numpy as np

from regard.look.arithmetic_sheet import OPERATIONS


def redo(sheet):
    """Everything worked out again from what is given, in float64."""
    found = {}
    for each in sheet.quantities.values():
        inputs = [found[name] for name in each.of]
        found[each.name] = np.asarray(
            OPERATIONS[each.op](*inputs, **each.how) if each.op else each.values, np.float64)
    return found


def largest_difference(sheet):
    """Between what was worked out again and what PyTorch has; above 1 as a share of it, as float32 keeps digits and
    not places; infinite where one of the two is and the other not."""
    redone, worst = redo(sheet), 0.0
    for each in sheet.quantities.values():
        again, own = redone[each.name], each.values.astype(np.float64)
        finite = np.isfinite(own)
        if again.shape != own.shape or not np.array_equal(np.isfinite(again), finite):
            return np.inf
        apart = np.abs(again[finite] - own[finite]) / np.maximum(1, np.abs(own[finite]))
        worst = max(worst, float(apart.max(initial=0.0)))
    return worst
