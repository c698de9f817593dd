"""Right: torch's own causal kernel, and einsum."""

import torch
import torch.nn.functional as F


def self_attention(x, W_q, W_k, W_v, W_o, heads):
    def cut(W):
        return torch.einsum("btd,dhk->bhtk", x, W.unflatten(1, (heads, -1)))

    read = F.scaled_dot_product_attention(cut(W_q), cut(W_k), cut(W_v), is_causal=True)
    return torch.einsum("bhtk,hkd->btd", read, W_o.unflatten(0, (heads, -1)))
