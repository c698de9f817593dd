"""The plug-in of lm-evaluation-harness: numbers are those of `regard score`, texts those of `regard generate`."""

import importlib
import json
import os
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.decoding.sampling import Sampling
from regard.errors import RegardNote, SettingError
from regard.interop.harness import HarnessModel, ScoredRow, common_start, cut_at, read_wishes

ROOT = Path(__file__).parents[2]
LINES = [f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11} and saw {i} kites" for i in range(400)]
SMALL = {"model": dict(layers=1, width=16, heads=2, context=24, dropout=0.0), "tokenizer": dict(kind="bpe", vocab=300),
         "training": dict(steps=4, batch=4, compile="no")}
PAIRS = [("the cat", " sat on mat 3"), ("the cat number ", "7 sat"), ("", "the mat"), ("the", " cat"),
         ("the cat number 3 sat on mat 5 and saw 12 kites", " and")]
TEXTS = ["the cat sat", "the cat number 3 sat on mat", "x"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind on the same text."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in LINES))

    def train(name, settings=SMALL, **options):
        regard.train(str(folder / "text.txt"), out=str(folder / name), quiet=True, device="cpu", settings=settings,
                     **options)
        return folder / name

    recurrent = {**SMALL, "model": dict(layers=1, width=16, context=24, dropout=0.0)}
    return {"network": train("network", family="transformer"), "recurrent": train("recurrent", recurrent, family="gru"),
            "mixture": train("mixture", mix=True, family="transformer"),
            "n-gram": train("n-gram", {"tokenizer": SMALL["tokenizer"]}, family="ngram"),
            "words": train("words", {"tokenizer": {"kind": "word"}}, family="ngram")}


KINDS = ["network", "recurrent", "mixture", "n-gram"]


def asked(*args):
    return SimpleNamespace(args=args)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_has_the_log_probability_that_score_says(kind, runs):
    model, trained = HarnessModel(runs[kind], device="cpu"), regard.load(runs[kind], "cpu")
    found = model.loglikelihood_rolling([asked(text) for text in TEXTS])
    assert found == pytest.approx([-trained.score(text).nats for text in TEXTS], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_continuation_is_what_the_whole_has_more_than_its_context(kind, runs):
    """By another way: a model reads from left to right, so the log-probability of a continuation is a difference."""
    model, trained = HarnessModel(runs[kind], device="cpu"), regard.load(runs[kind], "cpu")

    def total(text):
        return -trained.score(text).nats if text.rstrip() else 0.0

    found = [log_prob for log_prob, _ in model.loglikelihood([asked(*pair) for pair in PAIRS])]
    wanted = [total(context + more) - total(context.rstrip()) for context, more in PAIRS]
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_continuation_is_greedy_where_the_model_writes_it(kind, runs):
    model, trained = HarnessModel(runs[kind], device="cpu"), regard.load(runs[kind], "cpu")
    t = trained.tokenizer
    prompt = t.encode("the cat number 3").tolist()
    (written,) = zip(*trained.steps([[t.bos, *prompt]], new_tokens=5, sampling=Sampling(0.0)), strict=True)
    tokens = [token for token in written if token is not None]
    rows = [ScoredRow([t.bos, *prompt, *tokens], len(tokens))]
    other = next(id for id in range(4, t.vocab_size) if id != tokens[-1])
    rows.append(ScoredRow([t.bos, *prompt, *tokens[:-1], other], len(tokens)))
    assert [score.greedy for score in model.score_rows(rows)] == [True, False]


def test_what_is_never_written_is_no_choice(runs):
    model = HarnessModel(runs["network"], device="cpu")
    log_probs = torch.log_softmax(torch.zeros(1, model.trained.tokenizer.vocab_size).index_fill_(
        1, torch.tensor([0, 1, 3]), 9.0).index_fill_(1, torch.tensor([7]), 5.0), -1)
    assert model.judge(ScoredRow([1, 5, 7], 1), log_probs).greedy                 # <pad>, <bos> and <unk> are likelier
    assert not model.judge(ScoredRow([1, 5, 8], 1), log_probs).greedy
    assert model.judge(ScoredRow([1, 5, 7], 1), log_probs).log_prob == pytest.approx(float(log_probs[0, 7]))


def test_rows_are_scored_alike_alone_and_together_and_in_any_order(runs):
    requests = [asked(*pair) for pair in PAIRS]
    alone = HarnessModel(runs["network"], device="cpu", batch_size=1).loglikelihood(requests)
    for size in (2, "16", "auto"):
        together = HarnessModel(runs["network"], device="cpu", batch_size=size).loglikelihood(requests[::-1])[::-1]
        assert [each[0] for each in together] == pytest.approx([each[0] for each in alone], rel=1e-5)
        assert [each[1] for each in together] == [each[1] for each in alone]


def test_windows_score_each_token_once_and_the_last_is_as_long_as_the_others(runs):
    model = HarnessModel(runs["network"], device="cpu")
    text = " ".join(LINES[:6])
    tokens = [model.trained.tokenizer.bos, *model.encode(text)]
    rows = list(model.rolling_rows(text))
    assert sum(row.scored for row in rows) == len(tokens) - 1 and len(rows) > 3
    assert {len(row.tokens) for row in rows} == {25}                              # one more than is read
    scored = [token for row in rows for token in row.tokens[-row.scored:]]
    assert scored == tokens[1:]
    wanted = 0.0
    for row in rows:
        read, targets = torch.tensor([row.tokens[:-1]]), torch.tensor([row.tokens[1:]])
        wanted += float(model.trained.model.score(read, targets)[0][0, -row.scored:].detach().double().sum())
    assert model.loglikelihood_rolling([asked(text)]) == pytest.approx([wanted], rel=1e-5)


def test_of_a_context_that_is_too_long_the_end_is_read(runs):
    model = HarnessModel(runs["network"], device="cpu")
    row = model.continuation_row(" ".join(LINES[:6]), " and")
    assert len(row.tokens) == 25 and row.tokens[-row.scored:] == model.encode(" and")
    assert len(HarnessModel(runs["n-gram"], device="cpu").continuation_row(" ".join(LINES[:6]), " x").tokens) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_written_up_to_where_it_is_to_stop(kind, runs):
    model, trained = HarnessModel(runs[kind], device="cpu", batch_size=2), regard.load(runs[kind], "cpu")
    greedy = {"until": [], "max_gen_toks": 10, "do_sample": False}
    contexts = ["the cat", "the cat number 3 sat on", "mat"]
    whole = model.generate_until([asked(context, greedy) for context in contexts])
    assert whole == [trained.generate(context, new_tokens=10, temperature=0.0) for context in contexts]
    stop = whole[0][2:4] or whole[0]
    cut = model.generate_until([asked(contexts[0], {**greedy, "until": stop}), asked(contexts[1], greedy)])
    assert cut == [whole[0][:whole[0].find(stop)], whole[1]]
    drawn = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "seed": 3, "max_gen_toks": 10}
    assert model.generate_until([asked(contexts[0], drawn)]) == [
        trained.generate(contexts[0], new_tokens=10, temperature=0.7, top_p=0.9, seed=3)]


def test_what_a_task_asks_for_is_read(runs):
    assert read_wishes({"until": "\n"}) == (["\n"], 256, Sampling(0.0))
    assert read_wishes({"until": ["a", ""], "max_new_tokens": 3, "temperature": 0}) == (["a"], 3, Sampling(0.0))
    assert read_wishes({"do_sample": True})[2] == Sampling(1.0)
    assert read_wishes({"temperature": 0.5, "do_sample": False})[2] == Sampling(0.0)
    with pytest.raises(SettingError, match="gen_kwargs num_beams"):
        read_wishes({"num_beams": 3})
    with pytest.raises(SettingError, match="--model_args dtype"):
        HarnessModel(runs["network"], dtype="float16")
    assert cut_at("one. two\nthree", ["\n", ". "]) == "one" and cut_at("one", ["x"]) == "one"
    assert common_start([1, 2], [1, 2]) == 1 and common_start([1, 2], [1, 3, 4]) == 1 and common_start([], [5]) == 0
    assert HarnessModel(runs["network"], device="cuda:0" if not torch.cuda.is_available() else "cpu").trained


def test_unknown_words_are_told(runs):
    with pytest.warns(RegardNote, match="1 of the 2 scored tokens are <unk>"):
        HarnessModel(runs["words"], device="cpu").loglikelihood([asked("the", " cat unheardof")])


def test_other_tasks_and_the_cache_of_the_harness(runs):
    added = []
    model = HarnessModel(runs["n-gram"], device="cpu")
    model.cache_hook = SimpleNamespace(add_partial=lambda *row: added.append(row))
    (answer,) = model.loglikelihood([asked("the", " cat")])
    assert added == [("loglikelihood", ("the", " cat"), answer)]
    assert model.get_model_info()["model_family"] == "ngram" and model.tokenizer_name.startswith("regard-")


# ------------------------------------------------------------------------------------------ the plug-in


def test_the_entry_point_is_the_class_of_the_plug_in(monkeypatch):
    """With a harness that has nothing but what the plug-in takes from it; the real one is below."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["entry-points"]["lm_eval.models"]["regard"].partition(":")
    registered = {}
    monkeypatch.delitem(sys.modules, module, raising=False)

    class LM:
        def __init__(self):
            self.begun = True

    names = {"lm_eval": {}, "lm_eval.models": {}, "lm_eval.api": {}, "lm_eval.api.model": {"LM": LM},
             "lm_eval.api.registry": {"model_registry": type("Registry", (dict,), {
                 "register": lambda self, name, target: registered.update({name: target})})()}}
    for each, values in names.items():
        made = types.ModuleType(each)
        vars(made).update(values)
        monkeypatch.setitem(sys.modules, each, made)
    found = getattr(importlib.import_module(module), name)
    del sys.modules[module]                                                       # it is made of what is not real
    assert issubclass(found, HarnessModel) and issubclass(found, LM) and registered == {"regard": f"{module}:{name}"}
    for question in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
        assert getattr(found, question) is getattr(HarnessModel, question)


def test_without_the_harness_the_plug_in_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.delitem(sys.modules, "regard.interop.lm_eval_plugin", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'regard\[eval\]'"):
        importlib.import_module("regard.interop.lm_eval_plugin")


def test_a_missing_harness_is_one_line_for_who_runs_the_plugin(tmp_path):
    without = ("import runpy, sys; sys.modules['lm_eval'] = None; "
               "runpy.run_module('regard.interop.lm_eval_plugin', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "pip install 'regard[eval]'" in done.stderr


TASK = """
task: local_{kind}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
{rest}
"""
RESTS = {
    "multiple_choice": 'doc_to_text: "{{context}}"\ndoc_to_target: "{{gold}}"\ndoc_to_choice: "{{choices}}"\n'
                       'target_delimiter: ""\nmetric_list: [{metric: acc}]',
    "loglikelihood_rolling": 'doc_to_text: ""\ndoc_to_target: "{{text}}"\nmetric_list: [{metric: bits_per_byte}]',
    "generate_until": 'doc_to_text: "{{context}}"\ndoc_to_target: "{{text}}"\n'
                      'generation_kwargs: {until: ["7"], max_gen_toks: 8, do_sample: false}\n'
                      'metric_list: [{metric: exact_match}]'}


@pytest.mark.parametrize("kind", ["network", "n-gram"])
def test_the_harness_itself_runs_a_task_of_a_local_file(kind, runs, tmp_path, monkeypatch):
    pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed (regard[eval])")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import lm_eval
    from lm_eval.tasks import TaskManager

    rows = [{"context": "the cat number", "choices": [" 3", " zebra"], "gold": 0, "text": TEXTS[1]},
            {"context": "the cat", "choices": [" xyz", " number"], "gold": 1, "text": TEXTS[0]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, rest in RESTS.items():
        (tmp_path / f"{name}.yaml").write_text(TASK.format(kind=name, data=tmp_path / "rows.jsonl", rest=rest))
    plugin = importlib.import_module("regard.interop.lm_eval_plugin")
    model = plugin.RegardLM(runs[kind], device="cpu")
    found = lm_eval.simple_evaluate(model=model, tasks=[f"local_{name}" for name in RESTS],
                                    task_manager=TaskManager(include_path=str(tmp_path)), bootstrap_iters=0)["results"]
    trained = regard.load(runs[kind], "cpu")
    nats = sum(trained.score(row["text"]).nats for row in rows)
    size = sum(len(row["text"].encode()) for row in rows)
    bits = nats / torch.log(torch.tensor(2.0, dtype=torch.float64)).item() / size
    assert found["local_loglikelihood_rolling"]["bits_per_byte,none"] == pytest.approx(bits, rel=1e-5)
    better = [max(range(2), key=lambda n: -trained.score(row["context"] + row["choices"][n]).nats) == row["gold"]
              for row in rows]
    assert found["local_multiple_choice"]["acc,none"] == sum(better) / 2
    assert found["local_generate_until"]["exact_match,none"] == 0.0
