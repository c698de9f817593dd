"""Mistake: k is added to each count, but not k * vocab to the total: the probabilities add up to more than 1."""


def ngram_probabilities(sentences, context, n, vocab, k):
    history = list(context[len(context) - n + 1:])
    counts = [0] * vocab
    for sentence in sentences:
        for i in range(n - 1, len(sentence)):
            if list(sentence[i - n + 1:i]) == history:
                counts[sentence[i]] += 1
    return [(count + k) / (sum(counts) + k) for count in counts]
