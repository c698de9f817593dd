"""Labelled texts: from tables of labels and texts to token shards, a list of labels, and batches."""
