"""Exercise 8. Causal self-attention with several heads: each word reads itself and every earlier word.

    Q = x W_q    K = x W_k    V = x W_v          each cut along its width into `heads` pieces of D / heads
    head_i = softmax(Q_i K_i^T / sqrt(D / heads), over the keys up to each query's own place) V_i
    y = [head_1, ..., head_heads] W_o

B batch · T time · D width. You may use your own `attention` of exercise 7: copy it here.
"""

from __future__ import annotations

from torch import Tensor


def self_attention(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, heads: int) -> Tensor:
    """Return what each position read.   (B, T, D), four of (D, D) -> (B, T, D)"""
    raise NotImplementedError
