"""Right: cross_entropy with ignore_index."""

import torch.nn.functional as F


def language_model_loss(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad)
