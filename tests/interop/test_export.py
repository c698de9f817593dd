"""`regard export`: what every target has in common, and those that need no other program."""

import dataclasses
import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import safe_open

import regard
from regard.cli import main
from regard.errors import RunError, SettingError
from regard.families.likes import LIKES, likes_of, settings_like
from regard.families.mamba import MambaSettings
from regard.families.mamba2 import Mamba2Settings
from regard.families.table import FAMILIES
from regard.families.transformer import TransformerSettings
from regard.interop import TARGETS, checking, find_target, to_safetensors
from regard.interop.architectures import ARCHITECTURES, PLAIN, find_architecture, read_traits
from regard.interop.checking import CheckLine, check_export, our_log_probs
from regard.interop.export import export
from regard.interop.layout import halves
from regard.interop.layout_reading import read_layout
from regard.interop.target import EXACT, ExportSubject, OpenedExport
from regard.interop.to_arpa import picture_spaces, spell_words
from regard.models.mixture import Mixture
from regard.models.ngram import NGram, read_arpa
from tests.interop.made_models import TEXT, make_trained

RMS = dict(norm="rms", activation="swiglu")


@pytest.fixture(autouse=True)
def few_lines(monkeypatch):
    monkeypatch.setattr(checking, "LINES", 8)


def make_mixed(**options):
    """A network of words with an n-gram of the same text beside it."""
    trained = make_trained(kind="word", vocab=None, **options)
    tokens, ends = trained.tokenizer.encode_lines(TEXT.splitlines())
    ngram = NGram.fit(tokens, ends, vocab=trained.tokenizer.vocab_size, order=3)
    trained.model = Mixture(trained.model, ngram, torch.zeros(3, 2))
    return trained


# ------------------------------------------------------------------------------------------ the table


def test_every_target_has_a_module_with_what_a_target_has():
    for name in TARGETS:
        module = find_target(name)
        assert all(callable(getattr(module, each)) for each in ("write", "tolerance", "open_written"))


@pytest.mark.parametrize(("settings", "stands"), [
    (dict(softcap=30.0), "model.softcap = 30.0"), (dict(f="tanh"), "model.f = tanh"),
    (dict(placement="post"), "model.placement = post"), (dict(attention_softcap=5.0), "model.attention_softcap = 5.0"),
    (dict(value_width=4), "model.value_width = 4"), (dict(logit_bias=True), "model.logit_bias = true"),
    (dict(qk_norm=True), "model.qk_norm = true"), (dict(positions="alibi", window=8), "model.positions = alibi"),
    (dict(parallel=True, **RMS), "model.parallel = true"), (dict(rotary_share=0.5, **RMS), "model.rotary_share = 0.5"),
])
def test_a_setting_that_no_class_holds_is_named_with_the_nearest_that_one_does(settings, stands):
    layout = read_layout(make_trained(**settings).model)
    with pytest.raises(SettingError, match="the nearest that it can is model") as refused:
        find_architecture("hf", layout)
    assert stands in str(refused.value) and "\n" not in str(refused.value)
    name, value = str(refused.value).split("it can is model.")[1].split(" = ")[:2]
    assert name in settings and value[0] != str(settings[name]).lower()


def test_the_nearest_setting_that_an_error_names_can_be_exported():
    layout = read_layout(make_trained(f="tanh", softcap=3.0, window=5).model)
    with pytest.raises(SettingError, match=r"model.f = none, model.softcap = 0.0 \(Starcoder2ForCausalLM\)"):
        find_architecture("hf", layout)
    assert find_architecture("hf", read_layout(make_trained(window=5).model)).name == "Starcoder2ForCausalLM"


@pytest.mark.parametrize("family", [name for name, each in FAMILIES.items() if each.build])
def test_every_network_has_a_class_or_one_line_that_says_why_not(family):
    model = FAMILIES[family].example(torch.float32)
    for target in ARCHITECTURES:
        try:
            assert find_architecture(target, read_layout(model)).name
        except SettingError as error:
            assert "--to onnx" in str(error) and "\n" not in str(error)


def test_the_traits_of_a_layout_are_the_settings_that_it_was_built_from():
    settings = dict(positions="rotary", rotary_base=300.0, rotary_share=0.5, bias="qkv", kv_heads=2, head_width=12,
                    qk_norm=True, softcap=7.0, attention_softcap=3.0, f="relu", activation="silu", window=9, tied=True,
                    norm="rms", expand=3.0, logit_bias=True)
    traits = read_traits(read_layout(make_trained(**settings).model))
    assert {name: traits[name] for name in settings} == settings
    assert set(traits) <= set(PLAIN)
    names = {each.name for kind in (TransformerSettings, MambaSettings, Mamba2Settings)
             for each in dataclasses.fields(kind)} | {"shared", "score"}
    assert set(PLAIN) <= names                                     # so that an error names a setting that exists
    with pytest.raises(SettingError, match=r"^tokenizer.shared = false: .* tokenizer.shared = true \(Pegasus"):
        find_architecture("hf", read_layout(make_trained("translate", shared=False, positions="sinusoidal").model))


def test_halves_turn_as_neighbours_do():
    """Scores of queries and keys turned in neighbouring pairs, and those of reordered ones turned in halves."""
    heads, width, turned, time = 2, 6, 4, 5
    generator = np.random.default_rng(0)
    q, k = generator.normal(size=(2, time, heads, width))
    order = halves(heads, width, turned).numpy()
    angle = np.arange(time)[:, None] / 100 ** (np.arange(0, turned, 2) / turned)               # (T, 2)

    def turn(x, first, second):
        y = x.copy()
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., first] * sin + x[..., second] * cos
        return y

    def scores(q, k, *pairs):
        return np.einsum("thk,shk->hts", turn(q, *pairs), turn(k, *pairs))

    def reorder(x):
        return x.reshape(time, -1)[:, order].reshape(x.shape)

    neighbours, half = ([0, 2], [1, 3]), ([0, 1], [2, 3])
    np.testing.assert_allclose(scores(q, k, *neighbours), scores(reorder(q), reorder(k), *half), atol=1e-12)
    assert np.abs(scores(q, k, *neighbours) - scores(q, k, *half)).max() > 0.1


# ------------------------------------------------------------------------------------------- the check


def opened_as(change):
    """Our own model as another program, with a change of its log-probabilities."""
    def log_probs(network):
        return lambda tokens, source: change(our_log_probs(network, CheckLine(tuple(tokens), source)))
    return log_probs


@pytest.mark.parametrize(("change", "says"), [
    (lambda x: x + 0.001, "largest difference 1.0e-03"), (lambda x: x * math.nan, "largest difference nan"),
    (lambda x: x[:, :-1], r"\(.*\) log-probabilities where"), (lambda x: x.flip(-1), "more than"),
])
def test_what_differs_is_an_error(change, says):
    trained = make_trained()
    opened = OpenedExport("a program", "1.0", opened_as(change)(trained.model))
    with pytest.raises(RunError, match=says):
        check_export(ExportSubject(trained, "float32", "x"), opened, EXACT)


def test_what_goes_wrong_far_from_the_beginning_is_seen():
    """A window, a chunk or a table of positions may end behind the first 64 tokens."""
    trained = make_trained(context=200)

    def spoilt_at_the_end(x):
        return torch.cat((x[:150], x[150:] + 0.1))

    opened = OpenedExport("a program", "1.0", opened_as(spoilt_at_the_end)(trained.model))
    with pytest.raises(RunError, match=r"largest difference 1\.0e-01"):
        check_export(ExportSubject(trained, "float32", "x"), opened, EXACT)


def test_other_choices_are_an_error_though_the_numbers_are_near():
    trained = make_trained()
    opened = OpenedExport("a program", "1.0", opened_as(lambda x: x)(trained.model),
                          greedy=lambda tokens, count, source: [7] * count)
    with pytest.raises(RunError, match="choices must be equal"):
        check_export(ExportSubject(trained, "float32", "x"), opened, EXACT)


def test_what_is_the_same_passes_and_says_on_what_it_was_tried():
    trained = make_trained()
    checked = check_export(ExportSubject(trained, "float32", "x"), OpenedExport(
        "a program", "1.0", opened_as(lambda x: x)(trained.model)), EXACT)
    assert checked.describe() == ("checked in a program 1.0 on 8 lines that the model wrote itself: "
                                  "largest difference 0.0e+00, all choices equal")


def test_a_program_that_is_not_installed_is_one_line_and_the_export_stays(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    done = export(make_trained(), "hf", tmp_path / "out")
    assert done.checked is None and (tmp_path / "out" / "config.json").is_file()
    assert len(done.notes) == 1 and "pip install 'regard[hf]'" in done.notes[0]


def test_a_program_that_does_not_open_it_is_one_line_and_nothing_stays(tmp_path, monkeypatch):
    def break_down(subject, path):
        raise ValueError("a header that lies\nand more")

    monkeypatch.setattr(to_safetensors, "open_written", break_down)
    with pytest.raises(RunError, match=r"safetensors does not open .*a header that lies\)"):
        export(make_mixed(), "safetensors", tmp_path / "new" / "folders" / "out.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("question", ["log_probs", "greedy", "encode"])
def test_a_program_that_fails_at_a_question_is_one_line_and_nothing_stays(question, tmp_path, monkeypatch):
    def fail(*asked):
        raise ValueError("no such kernel\nand more")

    def half_right(subject, path):
        opened = OpenedExport("a program", "1.0", opened_as(lambda x: x)(subject.network))
        return dataclasses.replace(opened, **{question: fail})

    monkeypatch.setattr(to_safetensors, "open_written", half_right)
    with pytest.raises(RunError, match=r"^a program 1.0 opens what was written, and then fails \(no such kernel\)"):
        export(make_trained(), "safetensors", tmp_path / "out.safetensors")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ safetensors, arpa


@pytest.mark.parametrize("settings", [{}, dict(task_name="translate"), dict(task_name="masked", **RMS),
                                      dict(family="gru", hidden=16)])
def test_safetensors_hold_the_weights_of_any_network_and_its_settings(settings, tmp_path):
    drop = {"family"} & set(settings) and {"width": 16, "layers": 1}
    trained = make_trained(**{**settings, **(drop or {})})
    done = regard.export(trained, "safetensors", tmp_path / "w.safetensors")
    assert done.checked.difference == 0.0
    with safe_open(done.path, "pt") as file:
        tables = json.loads(file.metadata()["regard"])
        assert tables["model"] == trained.tables["model"]
        ours = trained.model.saved_tensors()
        assert set(file.keys()) == set(ours)
        assert all(torch.equal(file.get_tensor(name), tensor) for name, tensor in ours.items())


def test_an_ngram_leaves_as_arpa_with_the_same_probabilities(tmp_path):
    trained = make_mixed()
    export(trained, "arpa", tmp_path / "m.arpa", check=False)
    model, words = read_arpa(tmp_path / "m.arpa")
    ids = {word: id for id, word in enumerate(words)}
    tokens = trained.tokenizer.encode("the fox sat by the sea").tolist()
    spelled = spell_words(trained.tokenizer)
    theirs = our_log_probs(model, CheckLine((1, *(ids[spelled[token]] for token in tokens))))
    ours = our_log_probs(trained.model.ngram, CheckLine((1, *tokens)))
    order = [ids[word] for word in spelled[4:]]
    torch.testing.assert_close(theirs[:, order], ours[:, 4:], atol=1e-5, rtol=0)


def test_kenlm_gives_the_same_probabilities(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="KenLM has no wheels: pip builds it from source")
    trained = make_mixed()
    done = export(trained, "arpa", tmp_path / "m.arpa")
    assert done.checked.program == "KenLM" and done.checked.difference < 1e-4
    model, tokens = kenlm.Model(str(tmp_path / "m.arpa")), trained.tokenizer.encode("the fox sat").tolist()
    ours = our_log_probs(trained.model.ngram, CheckLine((1, *tokens)))
    total = sum(float(ours[at, token]) for at, token in enumerate([*tokens, 2]))
    spelled = " ".join(spell_words(trained.tokenizer)[token] for token in tokens)
    assert abs(model.score(spelled) * math.log(10) - total) < 1e-4


def test_white_space_is_spelled_by_pictures_that_no_other_token_has():
    assert picture_spaces([" ", "\n", "a", "a b"]) == ["␠", "␊", "a", "a␠b"]
    assert picture_spaces(["␠", " ", "␠␠"]) == ["␠", "␠␠␠", "␠␠"]


def test_a_network_without_an_ngram_has_nothing_for_arpa(tmp_path):
    with pytest.raises(SettingError, match="this run has no n-gram"):
        export(make_trained(), "arpa", tmp_path / "m.arpa")


@pytest.mark.parametrize("to", ["hf", "gguf", "ct2", "onnx"])
def test_an_ngram_that_shall_leave_as_a_network_is_shown_the_target_that_holds_it(to, tmp_path):
    trained = make_mixed()
    trained.model, trained.tables["run"]["family"] = trained.model.ngram, "ngram"
    with pytest.raises(SettingError, match="--to arpa") as error:
        export(trained, to, tmp_path / "out")
    assert "--to onnx;" not in str(error.value) and "with --to onnx" not in str(error.value)


def test_a_mixed_run_leaves_its_ngram_beside_the_network_and_says_so(tmp_path):
    done = export(make_mixed(), "safetensors", tmp_path / "w.safetensors")
    assert done.beside == (tmp_path / "w-ngram.arpa",) and done.beside[0].is_file()
    assert any("no other program mixes in" in note for note in done.notes)
    inside = export(make_mixed(), "hf", tmp_path / "out", check=False)
    assert inside.beside == (tmp_path / "out" / "ngram.arpa",) and inside.beside[0].is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"w.safetensors", "w-ngram.arpa", "out"}


def test_an_ngram_beside_a_file_replaces_nothing(tmp_path):
    (tmp_path / "w-ngram.arpa").write_text("of another run")
    with pytest.raises(SettingError, match=r"w-ngram.arpa exists already"):
        export(make_mixed(), "safetensors", tmp_path / "w.safetensors", check=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of another run"]


def test_the_cost_of_leaving_the_ngram_out_is_that_of_the_test_part(tmp_path, monkeypatch):
    from regard.interop import mixtures

    figures = {"test_loss": 1.0, "test_network_loss": 1.25, "test_bits_per_byte": 0.8}
    monkeypatch.setattr(mixtures, "RunFolder", lambda path: SimpleNamespace(read_test=lambda: figures))
    trained = make_mixed()
    trained.path = tmp_path
    cost = mixtures.describe_cost(ExportSubject(trained, "float32", "x"))
    assert "alone it needs 1.0000 bits per byte on the test part, and 0.8000 with them" in cost


# --------------------------------------------------------------------------------------- --like, command


@pytest.mark.parametrize("name", LIKES)
def test_what_is_like_a_known_model_can_be_exported(name):
    like = LIKES[name]
    family, tables = settings_like(name, like.task, None, {"model": {"context": 16}})
    trained = make_trained(like.task, family, layers=1, shared=tables["tokenizer"].get("shared", False),
                           **tables["model"])
    kinds = {"gpt2": "GPT2", "llama": "Llama", "qwen3": "Qwen3", "neox": "GPTNeoX", "mamba": "MambaF",
             "mamba2": "Mamba2F", "eurobert": "EuroBert", "marian": "Marian", "pegasus": "Pegasus"}
    assert find_architecture("hf", read_layout(trained.model)).name.startswith(kinds[name])
    if like.task == "lm":                  # llama.cpp has each of them, and byte pairs
        assert find_architecture("gguf", read_layout(trained.model)) and tables["tokenizer"]["kind"] == "bpe"
        assert settings_like(name, "lm", None, {"tokenizer": {"kind": "word"}})[1]["tokenizer"]["kind"] == "word"


def test_a_setting_that_contradicts_a_likeness_is_one_line():
    assert settings_like("llama", "lm", None, {"model": {"norm": "rms", "width": "64"}})[1]["model"]["width"] == "64"
    assert settings_like("qwen3", "lm", "transformer", {"model": {"qk_norm": "True"}})[0] == "transformer"
    with pytest.raises(SettingError, match=r"tokenizer\.shared = true, not false"):
        settings_like("pegasus", "translate", None, {"tokenizer": {"shared": False}})
    for name, task, family, given, says in (
            ("llama", "lm", None, {"norm": "layer"}, "model.norm = rms, not layer"),
            ("llama", "lm", "gru", {}, "not --family gru"), ("marian", "lm", None, {}, "of the task translate"),
            ("lama", "lm", None, {}, "did you mean llama")):
        with pytest.raises(SettingError, match=says):
            settings_like(name, task, family, {"model": given})
    assert likes_of("masked") == ("eurobert",)


def test_the_command_trains_like_a_model_and_exports_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checking, "LINES", 4)
    main(["train", "lm", "sally", "--like", "llama", "--steps", "2", "--layers", "1", "--width", "16", "--heads", "2",
          "--context", "32", "--out", "run", "--quiet", "--set", "training.valid_one_in=50"])
    main(["export", "run", "--to", "safetensors", "--json"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["path"] == "run-safetensors.safetensors" and told["checked"]["of"] == "held-out lines"
    assert told["checked"]["difference"] == 0.0 and told["bytes"] == (tmp_path / told["path"]).stat().st_size
    for words, says in ((["--to", "safetensors"], "exists already"), (["--to", "ct2", "--precision", "q8_0"], "writes"),
                        (["--to", "arpa"], "no n-gram")):
        with pytest.raises(SystemExit) as end:
            main(["export", "run", *words])
        assert end.value.code == 1
        error = capsys.readouterr().err.strip()
        assert says in error and "\n" not in error
    with pytest.raises(SystemExit):
        main(["train", "lm", "sally", "--like", "llama", "--resume", "--out", "run"])
    assert "leave it out" in capsys.readouterr().err
