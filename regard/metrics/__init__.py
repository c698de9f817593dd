"""Metrics: perplexity, BLEU, ROUGE, accuracy of labels, alignment error, and their intervals."""
