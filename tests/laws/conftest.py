import pytest
import torch

from regard.kernels.precision import exact_arithmetic


@pytest.fixture(autouse=True, scope="session")
def one_thread_and_no_tf32():
    torch.set_num_threads(1)
    with exact_arithmetic():
        yield
