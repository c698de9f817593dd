"""Exports to CTranslate2: language models and translators, opened there, say what our models say."""

import json

import pytest

from regard.errors import RunError, SettingError
from regard.interop import to_ct2
from regard.interop.architectures import ARCHITECTURES
from regard.interop.checking import check_export, find_lines
from regard.interop.export import export
from regard.interop.target import ExportSubject
from tests.interop.made_models import make_trained

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed (regard[ct2])")

LM, PAIRS = "TransformerDecoderModelSpec", "TransformerSpec"
TRANSLATE = dict(task_name="translate")
# A name -> the specification that holds it, and settings.
ROWS = {
    "the default": (LM, {}),
    "tied": (LM, dict(tied=True)),
    "groups": (LM, dict(kv_heads=2)),
    "one group": (LM, dict(kv_heads=1, norm="rms")),
    "gelu by tanh": (LM, dict(activation="gelu-tanh")),
    "relu": (LM, dict(activation="relu")),
    "gated": (LM, dict(activation="swiglu")),
    "rms, gated": (LM, dict(norm="rms", activation="swiglu")),
    "queries and keys of one length": (LM, dict(qk_norm=True)),
    "learned": (LM, dict(positions="learned")),
    "sinusoidal": (LM, dict(positions="sinusoidal")),
    "no positions": (LM, dict(positions="none")),
    "alibi": (LM, dict(positions="alibi")),
    "post-norm": (LM, dict(placement="post")),
    "soft cap": (LM, dict(softcap=5.0)),
    "wide heads": (LM, dict(head_width=12)),
    "scaled": (LM, dict(embedding_scale="width")),
    "biases, half the channels turn, parallel": (
        LM, dict(bias="all", rotary_share=0.5, rotary_base=500.0, parallel=True)),
    "silu, biased logits, another eps": (LM, dict(activation="silu", logit_bias=True, tied=True, eps=1e-3)),
    "alibi in six heads": (LM, dict(positions="alibi", heads=6, width=48)),
    "a translator": (PAIRS, TRANSLATE),
    "of two vocabularies": (PAIRS, dict(shared=False, tied=False, **TRANSLATE)),
    "gated translator": (PAIRS, dict(norm="rms", activation="swiglu", **TRANSLATE)),
    "post-norm translator": (PAIRS, dict(placement="post", positions="sinusoidal", **TRANSLATE)),
    "translator with learned positions": (PAIRS, dict(positions="learned", **TRANSLATE)),
    "translator without positions": (PAIRS, dict(positions="none", **TRANSLATE)),
    "translator with wide heads": (PAIRS, dict(head_width=12, **TRANSLATE)),
    "shallow, biased translator": (PAIRS, dict(
        bias="all", decoder_layers=1, logit_bias=True, rotary_share=0.5, activation="silu", **TRANSLATE)),
    "translator of words": (PAIRS, dict(kind="word", vocab=None, **TRANSLATE)),
}


def subject_of(precision="float32", **settings):
    return ExportSubject(make_trained(**{"heads": 4, **settings}), precision, "small")


def check(subject, path, lines=12):
    kind = to_ct2.write(subject, path)
    found, of = find_lines(subject, held_out=False)
    return kind, check_export(subject, to_ct2.open_written(subject, path), to_ct2.tolerance(subject, kind),
                              found[:lines], of)


@pytest.mark.parametrize("row", ROWS)
def test_ctranslate2_says_the_same_and_writes_the_same(row, tmp_path):
    kind, settings = ROWS[row]
    found, checked = check(subject_of(**settings), tmp_path / "model")
    assert found == kind
    assert checked.difference < 1e-4 and checked.choices == 1.0 and checked.same_text


def test_every_specification_of_the_table_is_tried():
    assert {kind for kind, _ in ROWS.values()} == {row.name for row in ARCHITECTURES["ct2"]}


@pytest.mark.parametrize(("precision", "most"), [("float16", 0.25), ("int8", 5.0)])
@pytest.mark.parametrize("row", ["the default", "a translator"])
def test_fewer_bits_cost_little_and_save_room(row, precision, most, tmp_path):
    _, settings = ROWS[row]
    _, checked = check(subject_of(precision, **settings), tmp_path / "model")
    assert 1e-4 < checked.difference < most and checked.choices > 0.8
    to_ct2.write(subject_of(**settings), tmp_path / "large")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("model", "large")]
    assert sizes[0] < {"float16": 0.55, "int8": 0.45}[precision] * sizes[1]


@pytest.mark.parametrize("row", ["the default", "a translator"])
def test_rows_of_queries_in_another_order_are_seen_and_nothing_is_kept(row, tmp_path, monkeypatch):
    def write_badly(subject, path):
        stack = getattr(subject.layout, "stack", None) or subject.layout.decoder
        weight = stack.blocks[0].attention.q.weight
        weight.copy_(weight.flip(0))
        kind = good(subject, path)
        weight.copy_(weight.flip(0))
        return kind

    good = to_ct2.write
    monkeypatch.setattr(to_ct2, "write", write_badly)
    with pytest.raises(RunError, match="the export was not kept"):
        export(make_trained(heads=4, **ROWS[row][1]), "ct2", tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_the_folder_has_the_tokens_in_order_and_knows_the_special_ones(tmp_path):
    subject = subject_of(shared=False, **TRANSLATE)
    to_ct2.write(subject, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert [config[f"{name}_token"] for name in ("bos", "eos", "unk", "decoder_start")] == [
        "<bos>", "<eos>", "<unk>", "<bos>"]
    assert config["add_source_eos"] and not config["add_source_bos"]
    for side, tokenizer in (("source", subject.tokenizer.source), ("target", subject.tokenizer.target)):
        pieces = json.loads((tmp_path / "model" / f"{side}_vocabulary.json").read_text())
        assert {piece: id for id, piece in enumerate(pieces)} == tokenizer.to_dict()["model"]["vocab"]
    assert {"tokenizer.json", "source-tokenizer.json"} <= {path.name for path in (tmp_path / "model").iterdir()}


@pytest.mark.parametrize(("settings", "words"), [
    (dict(window=8), r"model\.window = 8.*model\.window = 0"),
    (dict(activation="relu2"), r"model\.activation = relu2.*gelu"),
    (dict(f="tanh"), r"model\.f = tanh.*none"),
    (dict(attention_softcap=3.0), r"model\.attention_softcap = 3\.0"),
    (dict(value_width=4), r"model\.value_width = 4"),
    (dict(positions="alibi", **TRANSLATE), r"model\.positions = alibi.*rotary"),
    (dict(family="mamba"), "holds no state space model"),
])
def test_what_it_cannot_hold_is_refused_by_name(settings, words, tmp_path):
    made = make_trained(**({} if "family" in settings else {"heads": 4}), **settings)
    with pytest.raises(SettingError, match=words):
        export(made, "ct2", tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(to_ct2, "is_installed", lambda: False)
    with pytest.raises(SettingError, match=r"pip install 'regard\[ct2\]'"):
        export(make_trained(heads=4), "ct2", tmp_path / "model")
    assert not list(tmp_path.iterdir())
