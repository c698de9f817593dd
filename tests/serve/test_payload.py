"""The binary payload: what goes in comes out, aligned, and a shade is of the square root."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.serve.payload import pack, shade
from tests.serve.unpacking import unpack

# No subnormal numbers: whoever trained a model in this process has had them flushed to zero.
ELEMENTS = {np.uint8: st.integers(0, 255), np.int8: st.integers(-128, 127),
            np.float32: st.floats(width=32, allow_subnormal=False)}
blocks = st.sampled_from(list(ELEMENTS)).flatmap(lambda kind: hnp.arrays(
    kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), elements=ELEMENTS[kind]))


@given(first=blocks, second=blocks, said=st.text())
def test_what_is_packed_is_what_is_unpacked(first, second, said):
    header, arrays = unpack(pack({"said": said, "scales": {"second": 0.5}}, first=first, second=second))
    assert header["said"] == said
    assert [entry["scale"] for entry in header["arrays"]] == [None, 0.5]
    for name, block in (("first", first), ("second", second)):
        assert arrays[name].dtype == block.dtype and arrays[name].shape == block.shape
        assert arrays[name].tobytes() == block.tobytes()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), st.text())
def test_every_array_begins_at_a_multiple_of_eight(sizes, said):
    message = pack({"said": said}, **{f"a{i}": np.full(n, i + 1, np.uint8) for i, n in enumerate(sizes)})
    at = 4 + int.from_bytes(message[:4], "little")
    for i, n in enumerate(sizes):
        assert at % 8 == 0
        assert message[at:at + n] == bytes([i + 1]) * n
        at += n + -n % 8
    assert at == len(message)


def test_the_header_is_plain_json():
    message = pack({"layer": 1}, cells=np.zeros((2, 3), np.float32))
    size = int.from_bytes(message[:4], "little")
    assert json.loads(message[4:4 + size]) == {
        "arrays": [{"name": "cells", "dtype": "float32", "shape": [2, 3], "scale": None}], "layer": 1}


def test_an_array_the_page_cannot_read_is_our_mistake():
    with pytest.raises(AssertionError, match="float64"):
        pack({}, cells=np.zeros(3))


def test_an_array_that_is_not_contiguous_is_packed_by_its_values():
    block = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert (unpack(pack({}, block=block))[1]["block"] == block).all()


def test_a_shade_is_of_the_square_root():
    assert shade([0, 0.25, 1, 2], 1, signed=False).tolist() == [0, 128, 255, 255]
    assert shade([-2, -0.25, 0, 0.25, 1], 1, signed=True).tolist() == [-127, -64, 0, 64, 127]
    assert shade([[0.0]], 0, signed=False).tolist() == [[0]]
    assert shade([1e-3], 1, signed=False)[0] == 8                        # a thousandth is seen


def test_a_negative_amount_cannot_pass_for_none():
    with pytest.raises(AssertionError, match="signed"):
        shade([-0.1], 1, signed=False)


@given(hnp.arrays(np.float32, 50, elements=st.floats(0, 1, width=32, allow_subnormal=False)))
def test_the_square_of_a_shade_is_near_the_amount(values):
    back = (shade(values, 1, signed=False).astype(np.float64) / 255) ** 2
    assert np.abs(back - values).max() <= 0.004
