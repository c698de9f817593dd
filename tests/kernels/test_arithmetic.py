"""Float32 is float32 on a GPU, and only while it was asked for."""

import torch

from regard import kernels


def flags():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_shorter_numbers_are_kept_out_where_float32_was_asked_for_and_come_back_after():
    before = flags()
    with kernels.arithmetic(torch.device("cuda"), bfloat16=False):
        assert flags() == (False, False)
    assert flags() == before
    for device, bfloat16 in (("cuda", True), ("cpu", False)):
        with kernels.arithmetic(torch.device(device), bfloat16=bfloat16):
            assert flags() == before


def test_they_come_back_after_a_mistake():
    before = flags()
    try:
        with kernels.arithmetic(torch.device("cuda"), bfloat16=False):
            raise ValueError
    except ValueError:
        assert flags() == before
