"""ONNX: the graphs of every family say what the model says, at any batch, length and position."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch

from regard.contract import Source
from regard.errors import RunError, SettingError
from regard.families.caption import CAPTION
from regard.families.linear_rnn import LinearRNNSettings, build_linear_rnn
from regard.families.mamba import MambaSettings, build_mamba
from regard.families.masked_encoders import MASKED
from regard.families.table import FAMILIES
from regard.families.transformer import TransformerSettings, build_transformer
from regard.families.translate import EXAMPLE, TRANSLATE, AttentionSettings, build_recurrent
from regard.interop import to_onnx
from regard.interop.checking import check_export
from regard.interop.export import export
from regard.interop.onnx_graphs import UNBOUNDED, reads_pictures, stepping_graphs, translate, whole_graph
from regard.interop.target import EXACT, ExportSubject
from tests.interop.made_models import draw_weights, make_trained

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the graphs: pip install onnxruntime")
pytest.importorskip("onnxscript", reason="torch's exporter needs onnxscript: pip install onnx onnxscript")

CAPACITY = 20
TABLES = {"lm": FAMILIES, "translate": TRANSLATE, "caption": CAPTION, "masked": MASKED}
ALL = [(task, name) for task, table in TABLES.items() for name in table if name != "ngram"]
SMALL = {"layers": 1, "width": 8, "hidden": 10, "heads": 2, "context": 24}
SETTINGS = {                       # each has a road of its own to a graph
    "window": lambda: build_transformer(TransformerSettings(
        layers=1, width=8, heads=2, context=24, window=3, kv_heads=1, qk_norm=True, softcap=5.0, norm="rms",
        activation="swiglu"), 11),
    "wide-window": lambda: build_transformer(TransformerSettings(
        layers=1, width=8, heads=2, context=48, window=9), 11),
    "matrix": lambda: build_linear_rnn(LinearRNNSettings(layers=1, width=8, form="matrix"), 11),
    "channel": lambda: build_mamba(MambaSettings(layers=1, width=8, state=4, decay="channel"), 11)}


def small(task, name):
    """A model of one layer; of a task whose examples have one anyway, the example."""
    row = TABLES[task][name]
    if task != "lm" or name == "hybrid":
        return row.example(torch.float32)
    names = {field.name for field in fields(row.settings)}
    model = row.build(row.settings(**{key: value for key, value in SMALL.items() if key in names}), 11)
    draw_weights(model)
    return model.eval()


def draw_source(model, batch, length, generator):
    """Sources of any length and its lengths, or pictures."""
    if not model.needs_source:
        return None
    if reads_pictures(model):
        return Source(torch.randint(0, 256, (batch, 3, *model.encoder.size), generator=generator, dtype=torch.uint8))
    return Source(torch.randint(4, 11, (batch, length), generator=generator),
                  torch.randint(1, length + 1, (batch,), generator=generator))


def given(source):
    return () if source is None else (source.items,) if source.lengths is None else (source.items, source.lengths)


def session(graph):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(translate(graph).model_proto.SerializeToString(), options)


def opened(folder, name):
    return onnxruntime.InferenceSession(folder / f"{name}.onnx")


def ask(session, *tensors):
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, dict(zip(names, map(np.asarray, tensors), strict=True)))
    for port, array in zip(session.get_outputs(), found, strict=True):           # what it says of itself is so
        assert all(size == said or isinstance(said, str) for size, said in zip(array.shape, port.shape, strict=True))
    return found


def assert_equal(theirs, ours):
    np.testing.assert_allclose(theirs, ours, atol=2e-5, rtol=0)         # 5.7e-6 on one CPU; the promise is 1e-4


@torch.no_grad()
def compare_steps(model, start, step, capacity=CAPACITY):
    """Another batch, length of the source and position than the exporter saw."""
    generator = torch.Generator().manual_seed(1)
    for batch, length, time in ((3, 8, 15), (1, 2, 4)):
        source = draw_source(model, batch, length, generator)
        tokens = torch.randint(4, 11, (batch, time), generator=generator)
        ours = model.start(batch, capacity, source)
        theirs = ask(start, *(given(source) or (tokens[:, :1],)))
        for now in tokens.split(1, 1):
            for mine, other in zip(ours.tensors().values(), theirs, strict=True):
                assert_equal(other, mine)
            log_probs, *theirs = ask(step, now, *theirs)
            expected, ours = model.step(now, ours)
            assert_equal(log_probs, expected)


@torch.no_grad()
def compare_whole(model, whole):
    generator = torch.Generator().manual_seed(1)
    for batch, length, time in ((3, 8, 20), (1, 1, 1), (2, 3, 2), (1, 2, min(41, model.context or 41))):
        tokens = torch.randint(4, 11, (batch, time), generator=generator)
        if not hasattr(model, "step"):
            lengths = torch.randint(1, time + 1, (batch,), generator=generator)
            (theirs,), ours = ask(whole, tokens, lengths), model.head(model.vectors(tokens, lengths))
            real = (torch.arange(time) < lengths[:, None]).numpy()
            assert_equal(theirs[real], ours.numpy()[real])
            continue
        source = draw_source(model, batch, length, generator)
        state = None if source is None else model.start(batch, None, source)
        assert_equal(ask(whole, tokens, *given(source))[0], model.head(model.encode(tokens, state)[0]))


def test_a_decoder_that_reads_before_its_cell_has_steps_alone():
    model = build_recurrent(AttentionSettings(width=6, hidden=8, when="before", dropout=0.0), EXAMPLE).eval()
    assert whole_graph(model, None) is None
    assert [graph.name for graph in stepping_graphs(model, None)] == ["start", "step"]


MADE = {                           # exported as a user would
    ("lm", "transformer"): dict(layers=1, width=16, heads=2),
    ("translate", "rnn-attention"): dict(width=8, hidden=12, shared=False),
    ("caption", "transformer"): dict(layers=1, width=16, heads=2, image=8, patch=4, encoder_layers=1)}


@pytest.mark.parametrize(("task", "name"), [row for row in ALL if row not in MADE])
def test_graphs_are_the_models_at_any_batch_length_and_position(task, name):
    model = small(task, name)
    if task != "masked":
        compare_steps(model, *map(session, stepping_graphs(model, CAPACITY)))
    compare_whole(model, session(whole_graph(model, model.context)))


@pytest.mark.parametrize(("task", "name"), MADE)
def test_an_export_is_the_model_and_its_program_writes_the_same_without_torch(task, name, tmp_path):
    trained = make_trained(task, name, **MADE[task, name])
    done = export(trained, "onnx", tmp_path / "out")
    assert done.checked.program == "onnxruntime" and done.checked.lines == 100
    assert done.checked.difference < 5e-5 and done.checked.same_text
    check_description(done.path)
    compare_steps(trained.model, opened(done.path, "start"), opened(done.path, "step"),
                  trained.model.context or UNBOUNDED)
    compare_whole(trained.model, opened(done.path, "whole"))
    check_program(trained, done.path, task, tmp_path)
    if name == "transformer" and task == "lm":
        check_spoiled(trained, done.path, tmp_path)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_leave_whole(name):
    model = SETTINGS[name]()
    draw_weights(model)
    model.eval()
    compare_whole(model, session(whole_graph(model, model.context)))
    if name == "window":               # a cache that goes round
        compare_steps(model, *map(session, stepping_graphs(model, CAPACITY)))


def write_greedily(trained, prompt, source, most):
    """The likeliest token each time, by the model itself."""
    special, model = trained.special_tokens, trained.model
    tokens = [special.begin, *prompt]
    with torch.no_grad():
        state = model.start(1, most, source)
        for place in range(most):
            log_probs, state = model.step(torch.tensor([[tokens[place]]]), state)
            log_probs[:, list(special.banned)] = -torch.inf
            if place + 1 == len(tokens):
                tokens.append(int(log_probs.argmax()))
                if tokens[-1] == special.end:
                    break
    return tokens


# ---------------------------------------------------------------------------------------------------- the folder


def check_program(trained, folder, task, tmp_path):
    """The program of the README alone writes what the model writes."""
    text, source, prompt = "The fox <eos> sat", None, []
    if task == "caption":
        picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
        np.save(text := str(tmp_path / "picture.npy"), picture)
        source = Source(torch.from_numpy(picture.transpose(2, 0, 1).copy())[None])
    elif task == "translate":
        ids = [*trained.tokenizer.source.encode(text).tolist(), trained.tokenizer.eos]
        source = Source(torch.tensor([ids]), torch.tensor([len(ids)]))
    else:
        prompt = trained.tokenizer.encode(text).tolist()
    tokens = write_greedily(trained, prompt, source, trained.context if trained.model.context else 256)
    (program,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    assert program.count("\n") <= 30
    alone = "import sys; sys.modules.update(torch=None, regard=None); exec(sys.argv.pop(1))"
    ran = subprocess.run([sys.executable, "-P", "-c", alone, program, text], cwd=folder, capture_output=True,
                         encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    writes = getattr(trained.tokenizer, "target", trained.tokenizer)
    assert len(tokens) > 5
    assert ran.stdout == writes.decode([token for token in tokens if token not in (1, 2)]) + "\n"


def check_description(folder):
    """graphs.json is that of the files."""
    about = json.loads((folder / "graphs.json").read_text("utf-8"))
    assert list(about["graphs"]) == ["start", "step", "whole"]
    for graph in about["graphs"].values():
        graph_session = onnxruntime.InferenceSession(folder / graph["file"])
        for side, ports in (("inputs", graph_session.get_inputs()), ("outputs", graph_session.get_outputs())):
            said = [(port["name"], port["shape"]) for port in graph[side]]
            assert said == [(each.name, each.shape) for each in ports]
    start, step = about["graphs"]["start"], about["graphs"]["step"]
    assert about["state"] == [port["name"] for port in start["outputs"]]
    assert about["state"] == [port["name"] for port in step["inputs"][1:]]


def spoil(folder, change):
    """Another step.onnx: `change` is given the names of its outputs and its graph."""
    import onnx

    model = onnx.load(folder / "step.onnx")
    change(model.graph)
    onnx.save(model, folder / "step.onnx")


def swap_keys_and_values(graph):
    names = {"after.layers.0.keys": "after.layers.0.values", "after.layers.0.values": "after.layers.0.keys"}
    for node in graph.node:
        node.output[:] = [names.get(name, name) for name in node.output]


def leave_the_count(graph):
    import onnx

    for node in graph.node:
        node.output[:] = ["unused" if name == "after.layers.0.count" else name for name in node.output]
    graph.node.append(onnx.helper.make_node("Identity", ["layers.0.count"], ["after.layers.0.count"]))


def check_spoiled(trained, written, tmp_path):
    """A state that is swapped or not updated is caught by the export's own check."""
    subject = ExportSubject(trained, "float32", "spoiled")
    check_export(subject, to_onnx.open_written(subject, written), EXACT)
    for change in (swap_keys_and_values, leave_the_count):
        folder = shutil.copytree(written, tmp_path / change.__name__)
        spoil(folder, change)
        with pytest.raises(RunError, match="the export was not kept"):
            check_export(subject, to_onnx.open_written(subject, folder), EXACT)


def test_an_ngram_is_refused_with_the_cure(tmp_path):
    trained = make_trained("lm", layers=1, width=16, heads=2)
    trained.model, trained.tables["run"]["family"] = FAMILIES["ngram"].example(torch.float32), "ngram"
    with pytest.raises(SettingError, match="--to arpa"):
        export(trained, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_classifier_is_refused(tmp_path):
    trained = make_trained("lm", layers=1, width=16, heads=2)
    trained.model = torch.nn.Linear(1, 1)
    with pytest.raises(SettingError, match="labels texts has no graphs"):
        export(trained, "onnx", tmp_path / "out")
