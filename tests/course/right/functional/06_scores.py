"""Right: einsum."""

import torch
from torch import einsum


def dot(q, K):
    return einsum("bd,bsd->bs", q, K)


def bilinear(q, K, W):
    return einsum("bd,de,bse->bs", q, W, K)


def additive(q, K, W_q, W_k, v):
    hidden = einsum("hd,bd->bh", W_q, q).unsqueeze(1) + einsum("he,bse->bsh", W_k, K)
    return einsum("h,bsh->bs", v, torch.tanh(hidden))


def location(q, W):
    return einsum("sd,bd->bs", W, q)
