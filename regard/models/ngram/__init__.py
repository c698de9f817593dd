"""n-gram language models: counted, smoothed, kept in sorted arrays, exchanged as ARPA."""

from regard.models.ngram.arpa import read_arpa, write_arpa
from regard.models.ngram.model import LastWords, NGram

__all__ = ["LastWords", "NGram", "read_arpa", "write_arpa"]
