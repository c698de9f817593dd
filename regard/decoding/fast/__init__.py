"""Fast paths of decoding, each held equal to the plain one: steps recorded as CUDA graphs, and what runs where."""
