"""Decoding: sampling, streams, beam search, filling of blanks; fast/ has recorded steps."""
