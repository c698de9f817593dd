"""Right: a tensor of counts."""

import torch


def ngram_probabilities(sentences, context, n, vocab, k):
    history = torch.tensor(context[len(context) - (n - 1):], dtype=torch.long)
    counts = torch.full((vocab,), float(k), dtype=torch.float64)
    for sentence in sentences:
        if len(sentence) < n:
            continue
        grams = torch.tensor(sentence).unfold(0, n, 1)                   # (places, n)
        matching = grams[(grams[:, :-1] == history).all(1), -1]
        counts += torch.bincount(matching, minlength=vocab)
    return counts / counts.sum()
