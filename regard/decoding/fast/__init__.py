"""Fast paths of decoding, each held equal to the plain one: recorded steps (CUDA graphs) and speculation."""
