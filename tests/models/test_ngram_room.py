"""Counting on the disk: the same model to the last bit, in little memory, and nothing left behind."""

from __future__ import annotations

import errno
import os
from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.errors import SettingError, StorageError
from regard.families.ngram import NGramSettings
from regard.models.ngram import NGram, room
from regard.models.ngram.counting import EOS
from regard.models.ngram.room import DiskRoom, Room, free_memory, room_for

LITTLE = 2e-5           # GB: 21 kB


def documents(count: int = 400, vocab: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    texts = [[*(4 + draw.zipf(1.4, size=draw.integers(0, 20)) % (vocab - 4)).tolist(), EOS] for _ in range(count)]
    return np.concatenate(texts).astype(np.uint16), np.cumsum([len(text) for text in texts])


def same(one: NGram, other: NGram) -> None:
    ours, theirs = one.saved_tensors(), other.saved_tensors()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("smoothing", ["kneser-ney", "add-k", "none"])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_a_model_counted_on_the_disk_is_the_same_to_the_last_bit(tmp_path, order, smoothing):
    tokens, ends = documents()
    options = dict(vocab=60, order=order, smoothing=smoothing, folder=tmp_path)
    assert isinstance(room_for(len(tokens), order, LITTLE, tmp_path), DiskRoom)
    same(NGram.fit(tokens, ends, **options), NGram.fit(tokens, ends, memory=LITTLE, **options))


@pytest.mark.parametrize("vocab", [5, 3000])
def test_one_stream_of_few_or_many_words_too(tmp_path, vocab):
    tokens = np.random.default_rng(1).integers(2, vocab, 6000).astype(np.uint16)
    options = dict(vocab=vocab, order=4, folder=tmp_path, prune=(0, 0, 1))
    same(NGram.fit(tokens, **options), NGram.fit(tokens, memory=LITTLE, **options))


@pytest.mark.parametrize("on_disk", [False, True])
def test_keys_come_in_many_parts_each_above_the_last_and_none_is_lost(tmp_path, on_disk):
    keys = np.random.default_rng(0).zipf(1.3, 20_000) % 10_000
    some_room = DiskRoom(tmp_path, budget=64 * 1000) if on_disk else Room(chunk=1000)
    parts = list(some_room.by_range(lambda start, stop: (keys[start:stop], np.arange(start, stop)), len(keys)))
    assert len(parts) > 10
    for (below, _), (above, _) in pairwise(parts):
        assert below.max() < above.min()
    places = np.concatenate([places for _, places in parts])
    assert np.array_equal(np.sort(places), np.arange(1, len(keys)))
    assert np.array_equal(np.concatenate([part for part, _ in parts]), keys[places])
    assert all(np.all(np.diff(places) > 0) for _, places in parts)


def test_nothing_is_left_on_the_disk(tmp_path):
    tokens, ends = documents()
    model = NGram.fit(tokens, ends, vocab=60, memory=LITTLE, folder=tmp_path)
    assert os.listdir(tmp_path) == []
    text = torch.tensor([[1, 4, 5, 6]])
    assert model.score(text[:, :-1], text[:, 1:])[0].isfinite().all()       # the maps outlive the names


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    tokens, ends = documents()
    left = [40]

    def write(file, part):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        file.write(part.tobytes())

    monkeypatch.setattr(room, "_write", write)
    with pytest.raises(StorageError, match=r"could not count on the disk, in .* \(No space left on device\)"):
        NGram.fit(tokens, ends, vocab=60, memory=LITTLE, folder=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    tokens, ends = documents()
    with pytest.raises(StorageError, match="could not count on the disk"):
        NGram.fit(tokens, ends, vocab=60, memory=LITTLE, folder=tmp_path / "file")


def test_memory_decides_and_is_found_out_when_not_said(tmp_path, monkeypatch):
    assert type(room_for(10**6, 5, 1.0, tmp_path)) is Room
    assert type(room_for(10**7, 5, 1.0, tmp_path)) is DiskRoom
    monkeypatch.setattr(room, "free_memory", lambda: 2 * 2**30)
    assert type(room_for(10**6, 5, 0.0, tmp_path)) is Room
    assert type(room_for(10**7, 5, 0.0, tmp_path)) is DiskRoom
    monkeypatch.undo()
    assert free_memory() > 2**20
    with pytest.raises(SettingError, match=r"memory -1\.0: say how many GB"):
        NGramSettings(memory=-1.0)


def test_a_file_of_the_disk_has_no_name_while_it_is_used(tmp_path):
    pile = DiskRoom(tmp_path, 2**20).pile(np.int32)
    pile.add(np.arange(5))
    assert os.listdir(tmp_path) == [] and pile.array().tolist() == [0, 1, 2, 3, 4]
