"""Mistake: the softmax is taken over the positions, not over the vocabulary."""

import torch


def language_model_loss(logits, tokens, pad):
    log_probs = torch.log_softmax(logits[:, :-1], 1)
    targets = tokens[:, 1:]
    real = (targets != pad).to(logits.dtype)
    chosen = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -(chosen * real).sum() / real.sum()
