"""Everything here reads and writes under a temporary folder, the cache included."""

import pytest
from hypothesis import settings

settings.register_profile("text", derandomize=True, max_examples=60, deadline=None)
settings.load_profile("text")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def write(tmp_path):
    """Writes a file by name and gives its path as text."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write
