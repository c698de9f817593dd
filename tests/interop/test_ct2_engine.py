"""A translator's search in CTranslate2: the same translations, and never those of other weights."""

import pytest
import torch

from regard import storage
from regard.data.reading.text_cache import Cache
from regard.decoding.sampling import Sampling
from regard.errors import SettingError
from regard.interop import ct2_engine
from tests.interop.made_models import make_trained

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed (regard[ct2])")

LINES = ["The fox sat by the sea.", "a red kite", "", "Once upon a time", "naïve café", "up and away",
         "12 and the boat", "the sea, the sea", "« Été »", "by the small fox"]


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A drawn translator that comes to an end soon, and hardly ever thinks of what it never writes."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    made = make_trained("translate", heads=4, logit_bias=True, context=40)
    with torch.no_grad():
        made.model.head.bias[[0, 1, 3]] = -30.0
        made.model.head.bias[2] += 9.0
    made.path = tmp_path / "run"
    save(made)
    return made


def save(made):
    from safetensors.torch import save_file

    storage.make_folder(made.path)
    save_file({name: tensor.detach().clone() for name, tensor in made.model.saved_tensors().items()},
              made.path / "model.safetensors")


@pytest.mark.parametrize("options", [dict(beam=1), dict(), dict(length_penalty=0.0), dict(beam=3, length_penalty=0.6)])
def test_it_finds_the_same_translations_with_the_same_scores(trained, options):
    ours = trained.translate(LINES, **options)
    trained.engine = ct2_engine.open_engine(trained)
    found = trained.translate(LINES, **options)
    assert [each.text for each in found] == [each.text for each in ours]
    assert [each.log_prob for each in found] == pytest.approx([each.log_prob for each in ours], abs=1e-4)
    assert sum(each.n_best[0].finished for each in ours if each.n_best) > 5              # most come to an end


def test_alignments_are_read_by_our_attention(trained):
    ours = trained.translate(LINES, alignments=True)
    trained.engine = ct2_engine.open_engine(trained)
    assert [each.links for each in trained.translate(LINES, alignments=True)] == [each.links for each in ours]


@pytest.mark.parametrize(("options", "flag"), [
    (dict(no_repeat=2), "--no-repeat"), (dict(coverage=0.2), "--coverage"), (dict(sampling=Sampling()), "--sample")])
def test_options_with_which_it_would_find_something_else_are_refused(trained, options, flag):
    trained.engine = ct2_engine.open_engine(trained)
    with pytest.raises(SettingError, match=f"{flag}: not with --engine ct2"):
        trained.translate(LINES, **options)


def test_an_export_is_made_once_and_again_for_other_weights_or_where_it_is_damaged(trained):
    said = []

    def folder():
        return ct2_engine.find_export(trained, "ct2", said.append)

    first = folder()
    assert folder() == first and len(said) == 1 and "checked in CTranslate2" in said[0]
    (first / "model.bin").write_bytes(b"damaged")
    assert folder() == first and len(said) == 2 and (first / "model.bin").stat().st_size > 1000
    with torch.no_grad():
        trained.model.embedding.weight[5] += 0.1
    save(trained)
    assert folder() != first and len(said) == 3
    assert Cache().folder in first.parents


def test_what_is_no_translator_or_not_installed_is_one_line(trained, monkeypatch):
    with pytest.raises(SettingError, match="this is a lm model"):
        ct2_engine.open_engine(make_trained(heads=4))
    monkeypatch.setattr(ct2_engine, "is_installed", lambda: False)
    with pytest.raises(SettingError, match=r"pip install 'regard\[ct2\]'"):
        ct2_engine.open_engine(trained)
