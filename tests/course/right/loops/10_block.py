"""Right: a position at a time."""

import torch


def layer_norm(x, gain, bias, eps=1e-5):
    out = torch.zeros_like(x)
    width = x.shape[-1]
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            mean = sum(x[b, t]) / width
            variance = sum((number - mean) ** 2 for number in x[b, t]) / width
            out[b, t] = gain * (x[b, t] - mean) / torch.sqrt(variance + eps) + bias
    return out


def pre_norm_block(x, mix, feed, norm_1, norm_2):
    y = x + mix(norm_1(x))
    return y + feed(norm_2(y))


def post_norm_block(x, mix, feed, norm_1, norm_2):
    y = norm_1(x + mix(x))
    return norm_2(y + feed(y))
