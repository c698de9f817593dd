"""Right: means and variances over the last dimension."""

import torch


def layer_norm(x, gain, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return gain * (x - mean) * torch.rsqrt(variance + eps) + bias


def pre_norm_block(x, mix, feed, norm_1, norm_2):
    x = x + mix(norm_1(x))
    x = x + feed(norm_2(x))
    return x


def post_norm_block(x, mix, feed, norm_1, norm_2):
    x = norm_1(x + mix(x))
    x = norm_2(x + feed(x))
    return x
