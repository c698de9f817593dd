"""Mistake: all sentences are joined into one text, and n-grams cross from one to the next."""

from collections import Counter


def ngram_probabilities(sentences, context, n, vocab, k):
    text = [word for sentence in sentences for word in sentence]
    grams = Counter(tuple(text[i:i + n]) for i in range(len(text) - n + 1))
    history = tuple(context[len(context) - n + 1:])
    row = [grams[(*history, word)] + k for word in range(vocab)]
    return [each / sum(row) for each in row]
