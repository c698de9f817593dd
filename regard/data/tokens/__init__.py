"""Tokenizers: characters, bytes, words and subwords, all with the promises of `vocabulary.Tokenizer`."""
