"""Mistake: the layers replace what they read in the place of adding to it."""

import torch.nn.functional as F


def layer_norm(x, gain, bias, eps=1e-5):
    return F.layer_norm(x, gain.shape, gain, bias, eps)


def pre_norm_block(x, mix, feed, norm_1, norm_2):
    y = mix(norm_1(x))
    return feed(norm_2(y))


def post_norm_block(x, mix, feed, norm_1, norm_2):
    y = norm_1(mix(x))
    return norm_2(feed(y))
