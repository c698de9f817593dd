"""Right: torch's own kernel; rows that may read nothing are set to zero."""

import torch
import torch.nn.functional as F


def attention(q, K, V, mask=None):
    if mask is None:
        return F.scaled_dot_product_attention(q, K, V)
    reads = mask.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(q, K, V, attn_mask=mask | ~reads)
    return torch.where(reads, out, torch.zeros_like(out))
