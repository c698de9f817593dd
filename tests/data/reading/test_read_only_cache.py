"""A cache that cannot be written to makes nothing impossible: what is prepared goes into a folder of the process."""

import errno
import os

import pytest

from regard import storage
from regard.data.reading import text_cache
from regard.data.reading.corpus import encode_files
from regard.data.tokens.tokenizers import train_tokenizer
from regard.errors import RegardNote

TEXT = "the cat sat on the mat\n" * 40


@pytest.fixture
def text(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(TEXT)
    text_cache.aside.cache_clear()
    return str(tmp_path / "text.txt")


def forbid(folder, monkeypatch):
    """As on a disk that is only read: nobody may write there, not even root."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: not (
        mode & os.W_OK and str(path).startswith(str(folder))) and real(path, mode, **more))

    def refuse(operation, path):
        if str(path).startswith(str(folder)):
            raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(storage, "before_operation", refuse)


def test_a_text_is_scored_beside_a_cache_that_is_only_read(text, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    forbid(cache, monkeypatch)
    with pytest.warns(RegardNote, match="cannot be written to: what is prepared is kept for this command alone"):
        shard = encode_files([text], train_tokenizer("char", [TEXT]), cache=cache, say=lambda line: None)
    assert shard.counts.tokens == len(TEXT) + 1 and not list(cache.iterdir())


def test_what_stands_in_such_a_cache_is_used(text, tmp_path, monkeypatch):
    cache, said = tmp_path / "cache", []
    tokenizer = train_tokenizer("char", [TEXT])
    encode_files([text], tokenizer, cache=cache, say=said.append)
    assert not any("reused" in line for line in said)
    forbid(cache, monkeypatch)
    with pytest.warns(RegardNote):
        encode_files([text], tokenizer, cache=cache, say=said.append)
    assert "reused from the cache" in said[-1]


def test_a_damaged_entry_of_such_a_cache_is_made_elsewhere(text, tmp_path, monkeypatch):
    cache, tokenizer = tmp_path / "cache", train_tokenizer("char", [TEXT])
    whole = encode_files([text], tokenizer, cache=cache, say=lambda line: None).tokens.tolist()
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    forbid(cache, monkeypatch)
    with pytest.warns(RegardNote):
        again = encode_files([text], tokenizer, cache=cache, say=lambda line: None)
    assert again.tokens.tolist() == whole
