"""Right: log_softmax, gather, mask."""

import torch


def language_model_loss(logits, tokens, pad):
    log_probs = torch.log_softmax(logits[:, :-1], -1)
    targets = tokens[:, 1:]
    real = targets != pad
    chosen = log_probs.gather(-1, targets[..., None])[..., 0]
    return -(chosen * real).sum() / real.sum()
