"""Right: a word at a time."""

import torch


def language_model_loss(logits, tokens, pad):
    total, words = 0.0, 0
    for b in range(tokens.shape[0]):
        for t in range(tokens.shape[1] - 1):
            following = int(tokens[b, t + 1])
            if following == pad:
                continue
            scores = logits[b, t]
            total = total + torch.logsumexp(scores, 0) - scores[following]
            words += 1
    return total / words
