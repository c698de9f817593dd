"""Damaged n-grams: whatever numbers a file holds, none of them becomes a place outside of an array."""

import gzip

import numpy as np
import pytest
import torch

from regard.errors import DataError, RunError
from regard.models.ngram import NGram
from regard.models.ngram.arpa import read_arpa, write_arpa

TEXT = np.random.default_rng(0).integers(4, 30, 800)


@pytest.fixture(scope="module")
def made():
    model = NGram.fit(TEXT, None, vocab=30, order=3)
    return model.saved_tensors(), model.settings


def changed(tensor, at, value):
    tensor = tensor.clone()
    tensor[at] = value
    return tensor


DAMAGE = {
    "a word beyond the vocabulary": ("words.2", lambda t: changed(t, 3, 30)),
    "pointers that fall": ("first.3", lambda t: t.flip(0)),
    "pointers beyond the end": ("landmarks.3", lambda t: changed(t, -1, 10_000)),
    "pointers that begin later": ("first.2", lambda t: changed(t, 0, 1)),
    "too few landmarks": ("landmarks.3", lambda t: t[:-1]),
    "nan": ("logprobs.2", lambda t: changed(t, 5, float("nan"))),
    "infinity": ("logprobs.1", lambda t: changed(t, 5, float("inf"))),
    "a weight that is nan": ("backoffs.1", lambda t: changed(t.float(), 5, float("nan"))),
    "whole logarithms": ("logprobs.3", lambda t: t.long()),
    "words with a fraction": ("words.3", lambda t: t.float()),
    "half numbers": ("logprobs.3", lambda t: t.bfloat16()),
    "a matrix": ("logprobs.2", lambda t: t[:, None]),
    "discounts that are nan": ("discounts", lambda t: t * float("nan")),
    "discounts in a row": ("discounts", lambda t: t.flatten()),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_numbers_out_of_their_range_are_refused_when_the_model_is_loaded(made, damage):
    tensors, settings = made
    name, change = DAMAGE[damage]
    with pytest.raises(RunError, match=r"n-gram|-grams") as caught:
        NGram.from_tensors({**tensors, name: change(tensors[name])}, settings)
    assert "\n" not in str(caught.value)


def test_codes_beyond_their_table_are_refused(made):
    tensors, settings = made
    coded = [name for name in tensors if "s." in name and name.replace("s.", "_values.") in tensors]
    assert coded
    for name in coded:
        table = tensors[name.replace("s.", "_values.")]
        with pytest.raises(RunError, match="do not fit together"):
            NGram.from_tensors({**tensors, name: changed(tensors[name].long(), 0, len(table))}, settings)


def test_any_flipped_byte_of_a_tensor_is_refused_or_gives_numbers(made):
    """Whatever is loaded can be used: no place is outside of an array, and no number is nan."""
    tensors, settings = made
    random, tokens = np.random.default_rng(1), torch.from_numpy(TEXT[None, :40].copy())
    used = 0
    for _ in range(60):
        name = random.choice(sorted(set(tensors) - {"discounts"}))
        tensor = tensors[name].clone()
        raw = tensor.numpy().view(np.uint8)
        raw[random.integers(len(raw))] ^= 1 << random.integers(8)
        try:
            model = NGram.from_tensors({**tensors, name: tensor}, settings)
        except RunError:
            continue
        used += 1
        assert not model.score(tokens[:, :-1], tokens[:, 1:])[0].isnan().any()
        assert not model.step(tokens[:, :3], model.start(1))[0].isnan().any()
    assert used


def test_a_flipped_bit_of_a_packed_arpa_file_is_one_line(made, tmp_path):
    tensors, settings = made
    path = tmp_path / "a.arpa.gz"
    write_arpa(NGram.from_tensors(tensors, settings), [f"w{id}" for id in range(30)], path)
    raw = path.read_bytes()
    gzip.decompress(raw)
    for at in range(100, len(raw), len(raw) // 40):                   # before stands the name of the file
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 8]) + raw[at + 1:])
        with pytest.raises(DataError, match=r"a\.arpa\.gz") as caught:
            read_arpa(path)
        assert "\n" not in str(caught.value)
