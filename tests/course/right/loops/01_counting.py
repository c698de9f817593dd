"""Right: loops over sentences and places."""


def ngram_probabilities(sentences, context, n, vocab, k):
    history = list(context)[len(context) - n + 1:]
    counts = [0] * vocab
    for sentence in sentences:
        for place in range(n - 1, len(sentence)):
            if list(sentence[place - n + 1:place]) == history:
                counts[sentence[place]] += 1
    total = sum(counts) + k * vocab
    return [(count + k) / total for count in counts]
