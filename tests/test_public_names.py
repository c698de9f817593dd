import subprocess
import sys

import pytest

import regard


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_is_there(name):
    assert getattr(regard, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'trian'"):
        regard.trian  # noqa: B018
    assert set(regard.__all__) <= set(dir(regard))


def test_importing_regard_does_not_import_torch():
    asked = "import sys, regard; print(sys.modules.keys() & {'torch', 'numpy', 'tokenizers', 'click'})"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "set()"
