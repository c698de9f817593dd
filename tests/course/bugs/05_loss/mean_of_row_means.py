"""Mistake: the mean of each row, and then the mean of these: words of short rows count more."""

import torch


def language_model_loss(logits, tokens, pad):
    log_probs = logits[:, :-1].log_softmax(-1)
    rows = []
    for b in range(tokens.shape[0]):
        real = tokens[b, 1:] != pad
        chosen = log_probs[b][torch.arange(tokens.shape[1] - 1), tokens[b, 1:]]
        rows.append(-chosen[real].mean())
    return torch.stack(rows).mean()
