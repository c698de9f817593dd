"""Models: embedding, stack and head; encoders; encoder with decoder; masked models and labellers; ngram/ counts."""
