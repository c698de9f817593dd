"""Right: a Counter of n-grams, and one of histories."""

from collections import Counter

import numpy as np


def ngram_probabilities(sentences, context, n, vocab, k):
    grams = Counter(gram for words in sentences for gram in zip(*(words[i:] for i in range(n)), strict=False))
    history = tuple(context[-(n - 1):]) if n > 1 else ()
    row = np.array([grams[(*history, word)] for word in range(vocab)], dtype=float) + k
    return row / row.sum()
