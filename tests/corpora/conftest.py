"""As for `data`: everything is written under a temporary folder, the cache included."""

from tests.data.conftest import own_cache, write

__all__ = ["own_cache", "write"]
