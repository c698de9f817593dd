"""Right: halves combined recursively, in a tree."""

import torch


def combine(first, second):
    return torch.mul(second[0], first[0]), torch.addcmul(second[1], second[0], first[1])


def prefixes(a, b):
    time = a.shape[1]
    if time == 1:
        return a, b
    left, right = prefixes(a[:, :time // 2], b[:, :time // 2]), prefixes(a[:, time // 2:], b[:, time // 2:])
    joined = combine((left[0][:, -1:], left[1][:, -1:]), right)
    return torch.cat([left[0], joined[0]], 1), torch.cat([left[1], joined[1]], 1)


def scan(a, b, h):
    product, total = prefixes(a, b)
    return torch.addcmul(total, product, h.unsqueeze(1))
