"""Planted faults in the kernels in C are found by the sanitizers or by the definition; tests/soak drives the kernels as
they are."""

import pytest

from regard.kernels.cpu.native import SOURCE
from tests.kernels.cpu.sanitized import build, compiler, drive

PLANTED = {
    "reads one slot more": ("n + 1, row, slot", "n + 2, row, slot"),
    "writes one number more": ("own * width, width * sizeof", "own * width, (width + 1) * sizeof"),
    "no slot is refused": ("count[b] < 0 || count[b] >= slots", "count[b] < 0"),
    "no length is refused": ("lengths[s] > slots", "0"),
    "nan becomes a whole number": ("n >= -126.0f ? n : -126.0f", "n"),
    "a block forgets the one before": ("y[c] *= fall", "y[c] *= 1.0f"),
}


@pytest.mark.skipif(not compiler(), reason="there is no C compiler (cc)")
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, tmp_path):
    was, planted = PLANTED[fault]
    text = SOURCE.read_text()
    assert text.count(was) == 1
    (tmp_path / "native.c").write_text(text.replace(was, planted))
    assert drive(build(tmp_path, tmp_path / "native.c"), 0, 400) is not None
