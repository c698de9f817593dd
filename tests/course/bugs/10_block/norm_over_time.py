"""Mistake: mean and variance are taken over the positions, not over the numbers of one position."""


def layer_norm(x, gain, bias, eps=1e-5):
    mean = x.mean(1, keepdim=True)
    variance = x.var(1, keepdim=True, unbiased=False)
    return gain * (x - mean) / (variance + eps).sqrt() + bias


def pre_norm_block(x, mix, feed, norm_1, norm_2):
    y = x + mix(norm_1(x))
    return y + feed(norm_2(y))


def post_norm_block(x, mix, feed, norm_1, norm_2):
    y = norm_1(x + mix(x))
    return norm_2(y + feed(y))
