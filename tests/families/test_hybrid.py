"""Hybrids and layers of the user's own: any pattern trains; code that a folder names runs only when trusted."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from regard.config import fill
from regard.errors import SettingError
from regard.families import FAMILIES, LAYERS
from regard.families.hybrid import MIXERS, BlockSettings, HybridSettings, build_hybrid
from regard.families.sizes import Scale
from regard.families.table import family
from regard.families.user import named_code
from regard.laws import check_model
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention

SMALL = dict(layers=2, width=16, heads=2, context=32)

@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a layer of the user's own, which is forgotten again."""
    shutil.copy(Path(__file__).parent.parent / "own_layer" / "echo_layer.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("echo_layer", None)


@pytest.mark.parametrize("name", MIXERS)
def test_every_layer_of_a_pattern_obeys_the_laws_beside_attention(name):
    torch.manual_seed(0)
    report = check_model(build_hybrid(HybridSettings(**SMALL, pattern=(name, "attention")), 11), dtype=torch.float64)
    assert report.ok, report.text()


def test_a_pattern_is_repeated_from_the_bottom_up():
    model = build_hybrid(HybridSettings(**{**SMALL, "layers": 5}, pattern=("rnn", "rnn", "attention")), 11)
    kinds = [type(block.mixer) for block in model.stack]
    assert kinds == [Elman, Elman, SelfAttention, Elman, Elman]


def test_a_pattern_is_written_with_commas_and_fills_whole_rounds():
    wanted = {"model": {"pattern": "rnn,rnn,attention"}}
    sizes = FAMILIES["hybrid"].sizes(Scale(tokens=10**6, vocab=69, gpu=False, minutes=5.0), wanted)
    settings = fill(HybridSettings, {**sizes.model, **wanted["model"]}, "model")
    assert settings.pattern == ("rnn", "rnn", "attention") and settings.layers == 6


def test_only_what_keeps_every_position_is_bounded():
    def context(**choices):
        return build_hybrid(HybridSettings(**SMALL, **choices), 11).context

    assert context(pattern=("rnn",)) is None and context(pattern=("rnn", "attention"), window=4) is None
    assert context(pattern=("rnn", "attention")) == 32 and context(pattern=("rnn",), positions="learned") == 32


def test_an_unknown_layer_of_a_pattern_is_refused():
    with pytest.raises(SettingError, match=r"there is no layer 'atention'.*attention"):
        HybridSettings(**SMALL, pattern=("rnn", "atention"))


def test_a_layer_of_the_users_own_is_a_family_and_stands_in_patterns(here):
    own = family("echo_layer:Echo")
    assert own.about.startswith("Each position hears itself")
    for model in (own.example(torch.float64),
                  build_hybrid(HybridSettings(**SMALL, pattern=("echo_layer:Echo", "attention")), 11).double()):
        assert check_model(model).ok


@pytest.mark.parametrize("name, message", [
    ("echo_layer:Ecco", "has no Ecco"), ("echo_layer:Narrow", "as wide as it gets"),
    ("echo_layer:Strange", "asks for flavour"), ("no_such:Layer", "there is no module no_such"),
    ("echo_layer:NotALayer", "not a SequenceLayer"),
])
def test_a_layer_that_will_not_do_is_refused_in_one_line(here, name, message):
    with pytest.raises(SettingError, match=message):
        family(name)


def test_code_in_a_pattern_of_a_folder_is_found_too():
    assert list(named_code({"run": {"family": "hybrid"}, "model": {"pattern": ["rnn", "x:Y"]}})) == ["x:Y"]
    assert list(named_code({"run": {"family": "m:L"}})) == ["m:L"]


def test_registered_names_hold_no_colon():
    assert not any(":" in name for name in [*FAMILIES, *LAYERS, *MIXERS])
    assert BlockSettings(**SMALL).width == 16
