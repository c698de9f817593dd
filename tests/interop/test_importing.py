"""Models of other programs come in: the same probabilities, the same choices, the same tokens; bad folders do not."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

import regard
from regard.data.tokens.foreign import ADDED
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.errors import RegardError
from regard.interop import checking, to_gguf
from regard.interop.checking import CheckLine, our_log_probs
from regard.interop.export import export
from regard.interop.gguf_tokenizer import pattern_of
from regard.interop.importing import import_model, import_run
from regard.interop.target import ExportSubject
from regard.interop.target_ids import Counting

from .foreign_models import CONTEXT, FUZZ, MASKED, MODELS, ROWS, RULES, TEXT, build, cut_by

transformers = pytest.importorskip("transformers", reason="transformers is not installed, whose classes are needed")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Each model and its import, made when it is asked for."""
    made = {}

    def find(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            theirs = build(name, folder / name)
            run = import_run(folder / name, folder / "run").path
            made[name] = theirs, regard.load(run, "cpu"), folder / name
        return made[name]

    return find


def theirs_of(trained, ids):
    """The peer's ids of ours; <bos>, where it was added, reads as the end of text does."""
    order = trained.tokenizer.order
    return [int(order[id]) if order[id] != ADDED else int(order[2]) for id in ids]


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_all_log_probabilities_are_the_same(name, imported):
    theirs, trained, _ = imported(name)
    ids = [1, *np.random.default_rng(0).integers(FIRST, 380, 40).tolist()]
    wanted = theirs(torch.tensor([theirs_of(trained, ids)])).logits[0].float().log_softmax(-1)
    vectors, _ = trained.model.encode(torch.tensor([ids]))
    found = trained.model.head(vectors)[0]
    order = torch.from_numpy(trained.tokenizer.order)
    known = order != ADDED
    assert known.sum() == ROWS
    torch.testing.assert_close(found[:, known], wanted[:, order[known]], rtol=0, atol=1e-4)
    assert (found[:, ~known].exp() == 0).all()
    state = trained.model.start(1, CONTEXT)
    for position, id in enumerate(ids):                                          # one by one, from the cache
        step, state = trained.model.step(torch.tensor([[id]]), state)
        torch.testing.assert_close(step[0], found[position], rtol=0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_fifty_greedy_tokens_are_the_same(name, imported):
    theirs, trained, _ = imported(name)
    ids = [1, *trained.tokenizer.encode("The cat sat").tolist()]
    length = len(ids)
    for _ in range(50):                                                          # by the peer, without its cache
        logits = theirs(torch.tensor([theirs_of(trained, ids)])).logits[0, -1]
        ranked = [int(id) for id in torch.argsort(logits, descending=True).tolist()]
        back = {int(own): n for n, own in enumerate(trained.tokenizer.order)}
        banned = {0, 1, 3, 2}
        ids.append(next(back[id] for id in ranked if back[id] not in banned))
    state, ours = trained.model.start(1, CONTEXT), ids[:length]
    log_probs, state = trained.model.step(torch.tensor([ours]), state)
    for _ in range(50):
        log_probs[:, :FIRST] = -torch.inf
        ours.append(int(log_probs[0].argmax()))
        log_probs, state = trained.model.step(torch.tensor([ours[-1:]]), state)
    assert ours == ids


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_tokenizer_is_the_same_on_any_text(name, imported):
    _, trained, folder = imported(name)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), trained.tokenizer
    random = np.random.default_rng(1)
    drawn = ["".join(chr(int(code)) for code in random.integers(1, 0x3000, 30)) for _ in range(200)]
    for text in [*FUZZ, *drawn, TEXT[:500]]:
        wanted = theirs.encode(text, add_special_tokens=False)
        ids = ours.encode(text)
        assert [int(ours.order[id]) for id in ids] == wanted
        stream = ours.stream()
        assert "".join(stream.push(int(id)) for id in ids) + stream.flush() == ours.decode(ids)
        if ours.lossless:
            assert ours.decode(ids) == text
            assert theirs.decode(wanted) == text
    assert ours.lossless == (name == "gpt2")
    again = Tokenizer.from_json(ours.to_json())
    assert again.digest() == ours.digest() and again.encode(TEXT).tolist() == ours.encode(TEXT).tolist()


def test_a_stream_gives_what_decoding_all_gives_also_of_ids_that_no_text_has(imported):
    for name in ("gpt2", "llama"):
        tokenizer = imported(name)[1].tokenizer
        for seed in range(50):
            ids = np.random.default_rng(seed).integers(0, 380, 30)
            stream = tokenizer.stream()
            assert "".join(stream.push(int(id)) for id in ids) + stream.flush() == tokenizer.decode(ids)


def test_a_token_of_two_roles_is_counted_once(imported):
    gpt2, llama = imported("gpt2")[1].tokenizer, imported("llama")[1].tokenizer
    assert gpt2.order[:5].tolist() == [ADDED, ADDED, 0, ADDED, 1] and gpt2.vocab_size == ROWS + 3
    assert llama.order[:5].tolist() == [ADDED, 1, 2, 0, 3] and llama.vocab_size == ROWS + 1


@torch.no_grad()
@pytest.mark.parametrize("name", MASKED)
def test_a_model_of_blanks_says_the_same_and_leaves_as_it_came(name, imported, tmp_path, monkeypatch):
    theirs, trained, folder = imported(name)
    model, order = trained.model, torch.from_numpy(trained.tokenizer.rows)
    assert trained.task.name == "masked" and int(order[model.mask]) == 2 and model.vocab == ROWS + 2
    ids = np.random.default_rng(0).integers(FIRST, model.mask, 40)
    ids[[3, 20]] = model.mask
    wanted = theirs(order[torch.from_numpy(ids)][None]).logits[0].float().log_softmax(-1)
    found = model.predict(torch.from_numpy(ids)[None], torch.arange(40)[None])[0]
    known = order != ADDED
    torch.testing.assert_close(found[:, known], wanted[:, order[known]], rtol=0, atol=1e-4)
    assert (found[:, ~known].exp() == 0).all()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*FUZZ, TEXT[:300], "a <|mask|> in a text"]:
        wanted_ids = tokenizer.encode(text, add_special_tokens=False)
        assert [int(order[id]) for id in trained.tokenizer.encode(text)] == wanted_ids and 2 not in wanted_ids
    assert trained.fill("The ___ sat.").blanks[0] and trained.vectors(["The cat"]).shape == (1, 32)
    monkeypatch.setattr(checking, "LINES", 6)
    done = export(trained, "hf", tmp_path / "out")
    assert done.kind == "EuroBertForMaskedLM" and done.checked.difference < 1e-4
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path / "out"))
    same = [tensor_name for tensor_name, tensor in before.items() if torch.equal(after[tensor_name], tensor)]
    assert set(before) - set(same) == set() or name == "eurobert-grouped-biased"         # its keys are written out
    assert json.loads((tmp_path / "out" / "config.json").read_text())["mask_token_id"] == 2


# ------------------------------------------------------------------------------------------ out again

LEAVES = {"gpt2": "GPT2LMHeadModel", "gpt2-relu-untied": "GPT2LMHeadModel", "pythia": "GPTNeoXForCausalLM",
          "neox-sequential": "GPTNeoXForCausalLM", "llama": "LlamaForCausalLM",
          "llama-grouped-biased": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "LlamaForCausalLM",
          "qwen3": "Qwen3ForCausalLM", "starcoder2": "Starcoder2ForCausalLM", "mamba": "MambaForCausalLM"}


@pytest.mark.parametrize("name", LEAVES)
def test_it_leaves_as_it_came(name, imported, tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "LINES", 6)
    _, trained, folder = imported(name)
    done = export(trained, "hf", tmp_path / "out")
    assert done.kind == LEAVES[name] and done.checked.difference < 1e-4 and done.checked.same_text
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path / "out"))
    for tensor_name, tensor in before.items():
        assert torch.equal(after[tensor_name], tensor), tensor_name
    assert not any(after[tensor_name].any() for tensor_name in set(after) - set(before))    # biases that it must have
    for file in ("tokenizer.json", "tokenizer_config.json"):
        first, second = (json.loads((each / file).read_text()) for each in (folder, tmp_path / "out"))
        assert first == second
    settings = [json.loads((each / "config.json").read_text()) for each in (folder, tmp_path / "out")]
    for role in ("bos", "eos"):
        found, wanted = (each.get(f"{role}_token_id") for each in reversed(settings))
        assert found == (settings[0]["eos_token_id"] if wanted is None else wanted)


def test_rows_that_are_not_put_back_are_seen_and_nothing_stays(imported, tmp_path, monkeypatch):
    _, trained, _ = imported("llama")
    right = Counting.rows.func
    monkeypatch.setattr(Counting, "rows", property(lambda self: right(self).roll(1) if self.tokenizer else None))
    monkeypatch.setattr(Counting, "columns", lambda self, log_probs: log_probs[..., right(self)])
    with pytest.raises(RegardError, match="largest difference"):
        export(trained, "hf", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_it_leaves_for_llama_cpp_with_its_own_ids(imported, tmp_path, monkeypatch):
    pytest.importorskip("gguf", reason="gguf is not installed (regard[gguf])")
    from tests.interop.gguf_by_definition import File, log_probs

    _, trained, folder = imported("gpt2")
    export(trained, "gguf", tmp_path / "m.gguf", check=False)
    file, value = File(tmp_path / "m.gguf"), json.loads((folder / "tokenizer.json").read_text())
    tokens = file.fields["tokenizer.ggml.tokens"]
    assert {token: id for id, token in enumerate(tokens) if not token.startswith("[unused")} == value["model"]["vocab"]
    assert len(tokens) == ROWS and file.fields["tokenizer.ggml.pre"] == "gpt-2"
    kinds = file.fields["tokenizer.ggml.token_type"]
    known = len(value["model"]["vocab"])
    assert kinds[0] == 3 and set(kinds[1:known]) == {1} and set(kinds[known:]) == {5}
    assert [file.fields[f"tokenizer.ggml.{role}_token_id"] for role in ("bos", "eos")] == [0, 0]
    assert not file.fields["tokenizer.ggml.add_bos_token"]
    ids = [1, *np.random.default_rng(0).integers(FIRST, 380, 40).tolist()]
    subject = ExportSubject(trained, "f32", "gpt2")
    ours = subject.counting.columns(our_log_probs(trained.model, CheckLine(tuple(ids))))
    found = log_probs(file, subject.counting.theirs(ids),
                      lambda x: F.gelu(torch.from_numpy(x), approximate="tanh").numpy())
    assert np.abs(ours.numpy() - found).max() < 1e-4


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_by_which_a_tokenizer_cuts_is_one_that_llama_cpp_knows(rule, imported, tmp_path):
    _, _, folder = imported("qwen2")
    shutil.copytree(folder, tmp_path / "model")
    cut_by(tmp_path / "model", RULES[rule])
    run = import_model(tmp_path / "model", tmp_path / "run")
    if rule == "another":
        with pytest.raises(RegardError, match="cuts texts by none of the rules of"):
            export(run, "gguf", tmp_path / "m.gguf")
    else:
        assert pattern_of(run.tokenizer) == rule


@pytest.mark.skipif(not to_gguf.is_checkable(), reason="llama-cpp-python is not installed: make interop")
@pytest.mark.parametrize("rule", ["gpt-2", "llama-bpe", "qwen2"])
def test_llama_cpp_itself_says_and_cuts_the_same(rule, imported, tmp_path):
    name = "gpt2" if rule == "gpt-2" else "qwen2"
    _, _, folder = imported(name)
    shutil.copytree(folder, tmp_path / "model")
    if rule in RULES:
        cut_by(tmp_path / "model", RULES[rule])
    trained = import_model(tmp_path / "model", tmp_path / "run")
    done = export(trained, "gguf", tmp_path / "m.gguf")
    assert done.checked.same_text
    subject = ExportSubject(trained, "f32", name)
    opened = to_gguf.open_written(subject, tmp_path / "m.gguf")
    draw = np.random.default_rng(0)
    words = ["the", "Cat", "Été", "it's", "don't", "12", "12345", "3.5", "--", "...", "a.b", "\n", "  ", "\u6f22"]
    for _ in range(200):
        text = " ".join(draw.choice(words, 12))
        assert opened.encode(text) == subject.counting.theirs(trained.tokenizer.encode(text).tolist()), text
    opened.close()


def test_a_tokenizer_of_marks_does_not_leave_for_llama_cpp(imported, tmp_path):
    with pytest.raises(RegardError, match="cuts texts by none of the rules of"):
        export(imported("llama")[1], "gguf", tmp_path / "m.gguf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["ct2", "onnx"])
def test_it_leaves_for_other_engines_with_its_own_ids(to, imported, tmp_path, monkeypatch):
    for package in {"ct2": ("ctranslate2",), "onnx": ("onnxruntime", "onnxscript")}[to]:
        pytest.importorskip(package, reason=f"{package} is not installed (regard[{to}])")
    monkeypatch.setattr(checking, "LINES", 6)
    _, trained, folder = imported("llama-grouped-biased" if to == "ct2" else "gpt2-relu-untied")
    done = export(trained, to, tmp_path / "out")
    assert done.checked.difference < 1e-4 and done.checked.same_text
    first, second = (json.loads((each / "tokenizer.json").read_text()) for each in (folder, tmp_path / "out"))
    assert first == second
    if to == "ct2":
        listed = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
        vocab = first["model"]["vocab"]
        assert all(listed[id] == token for token, id in vocab.items()) and len(listed) == ROWS
    else:
        about = json.loads((tmp_path / "out" / "graphs.json").read_text())
        assert about["vocabulary"] == ROWS and about["special_tokens"]["begin"] == about["special_tokens"]["end"] == 0


def test_what_no_class_holds_stays(imported, tmp_path):
    with pytest.raises(RegardError, match=r"model\.least_step = 0\.1, model\.most_step = 2\.0: --to hf cannot hold it"):
        export(imported("mamba2")[1], "hf", tmp_path / "out")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------ afterwards


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba"])
def test_an_imported_model_writes_scores_and_is_looked_at(name, imported):
    _, trained, _ = imported(name)
    text = trained.generate("The cat", new_tokens=12, seed=1)
    assert isinstance(text, str) and trained.generate("The cat", new_tokens=12, seed=1) == text
    surprise = trained.score("The cat sat on the mat.")
    assert surprise.tokens and np.isfinite(surprise.bits_per_byte)
    with regard.watch() as seen:
        trained.model.score(torch.tensor([[1, 5, 6]]), torch.tensor([[5, 6, 7]]))
    assert seen.readings
    html = str(regard.show(trained, "The cat sat.")._repr_html_())
    assert "cat" in html


def test_fine_tuning_starts_from_the_same_loss(imported, tmp_path, monkeypatch):
    from regard.training.run import TrainRequest, run_training

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    _, trained, _ = imported("gpt2")
    (tmp_path / "text.txt").write_text(TEXT)
    settings = {"training": {"steps": 1, "batch": 2, "learning_rate": 1e-9, "samples": False, "precision": "float32"}}
    run_training(TrainRequest((str(tmp_path / "text.txt"),), family="transformer", base=str(trained.path),
                              out=str(tmp_path / "run"), settings=settings, device="cpu", quiet=True))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    after = regard.load(tmp_path / "run", "cpu")
    texts = "The dog saw the cat on the mat."
    assert after.score(texts).loss == pytest.approx(trained.score(texts).loss, abs=1e-5)
    assert rows and all(np.isfinite(row.get("train_loss", 0)) for row in rows)


def test_a_smaller_context_cuts_what_was_learned_of_positions(imported, tmp_path):
    _, trained, folder = imported("gpt2")
    cut = import_model(folder, tmp_path / "run", context=16)
    assert cut.context == cut.model.context == 16
    texts = "The cat sat."
    assert cut.score(texts).loss == pytest.approx(trained.score(texts).loss, abs=1e-5)
    with pytest.raises(RegardError, match="--context 65: the model reads from 2 to 64 tokens at once"):
        import_run(folder, tmp_path / "other", context=65)


def test_weights_in_several_files_are_one_model(imported, tmp_path):
    theirs, trained, folder = imported("llama")
    shutil.copytree(folder, tmp_path / "parts")
    (tmp_path / "parts" / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path / "parts", max_shard_size="20kB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    again = import_model(tmp_path / "parts", tmp_path / "run")
    for name, tensor in trained.model.saved_tensors().items():
        assert torch.equal(tensor.cpu(), again.model.saved_tensors()[name].cpu())


# ------------------------------------------------------------------------------------------ bad input


@pytest.fixture
def folder(imported, tmp_path):
    """A copy of a folder that could be imported."""
    return shutil.copytree(imported("llama")[2], tmp_path / "model")


def refused(folder, tmp_path):
    """The message with which a folder is refused; nothing was written."""
    with pytest.raises(RegardError) as error:
        import_run(folder, tmp_path / "out" / "run")
    assert not list((tmp_path / "out").glob("**/*")) and "\n" not in str(error.value)
    return str(error.value)


def change(folder, file="config.json", **changes):
    path = folder / file
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in values.items() if value != "gone"}))


def rewrite(folder, changed):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    changed(tensors)
    save_file(tensors, path)


NORM = "model.layers.1.input_layernorm.weight"


@pytest.mark.parametrize("break_it, message", [
    (lambda f: rewrite(f, lambda t: t.pop(NORM)), f"has no tensor {NORM}, which its config.json asks for"),
    (lambda f: rewrite(f, lambda t: t.update({NORM: torch.ones(33)})), f"the tensor {NORM} has the shape (33,), and "),
    (lambda f: rewrite(f, lambda t: t.update({NORM: torch.ones(32, dtype=torch.int8)})), "is not quantised"),
    (lambda f: rewrite(f, lambda t: t.update({NORM: torch.full((32,), torch.nan)})), "are not all numbers"),
    (lambda f: rewrite(f, lambda t: t.update(more=torch.ones(2))), "1 tensors have no place in the architecture"),
    (lambda f: change(f, num_hidden_layers=3), "has no tensor model.layers.2.self_attn.q_proj.weight"),
    (lambda f: change(f, num_hidden_layers=1), "tensors have no place in the architecture"),
    (lambda f: change(f, num_hidden_layers=10**12), "num_hidden_layers = 1000000000000: expected a whole number"),
    (lambda f: change(f, hidden_size="32"), "hidden_size = '32': expected a whole number"),
    (lambda f: change(f, vocab_size="gone"), "has no vocab_size, which a llama must have"),
    (lambda f: change(f, vocab_size=399), "the tensor model.embed_tokens.weight has the shape (400, 32)"),
    (lambda f: change(f, model_type="lama"), "model_type = 'lama': Regard imports no such model: did you mean llama?"),
    (lambda f: change(f, model_type=["llama"]), "expected a text"),
    (lambda f: change(f, rope_parameters={"rope_type": "llama3", "rope_theta": 1.0}), "rope_type = 'llama3'"),
    (lambda f: change(f, hidden_act="gelu"), "Regard gates by silu alone"),
    (lambda f: change(f, quantization_config={"bits": 4}), "quantization_config"),
    (lambda f: change(f, eos_token_id=400), "eos_token_id = 400: the model has 400 tokens"),
    (lambda f: (f / "config.json").write_text("{"), "could not read"),
    (lambda f: (f / "config.json").write_text("[" * 200_000), "could not read"),
    (lambda f: (f / "config.json").unlink(), "has no config.json"),
    (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer.json"),
    (lambda f: (f / "tokenizer.json").write_text('{"model": 3}'), "is no tokenizer that can be read"),
    (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 7 + b"\x7f" + b"{}"), "damaged or no safetensors file"),
    (lambda f: (f / "model.safetensors").write_bytes(b""), "damaged or no safetensors file"),
    (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-10]), "damaged"),
    (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "a pickle, which runs code"),
    (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    (lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../other.safetensors"}}'),
     "names the file '../other.safetensors': weights lie beside it"),
    (lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model.safetensors"}}'),
     "has no tensor a, though"),
])
def test_a_folder_that_does_not_fit_is_one_clear_line(break_it, message, folder, tmp_path):
    break_it(folder)
    assert message in refused(folder, tmp_path)


@pytest.mark.parametrize("lie", [
    {"data_offsets": [0, 2**40]}, {"shape": [2**40]}, {"shape": [2**62, 4]}, {"shape": [-1]}, {"dtype": "F64"},
    {"data_offsets": [64, 0]}, {"data_offsets": [0, 128]}])
def test_a_header_that_lies_is_refused(lie, folder, tmp_path):
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    header[NORM] |= lie
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + raw[8 + length:])
    assert "damaged or no safetensors file" in refused(folder, tmp_path)


def test_a_tokenizer_of_another_model_is_refused(folder, tmp_path):
    value = json.loads((folder / "tokenizer.json").read_text())
    value["model"]["vocab"]["further"] = ROWS
    (folder / "tokenizer.json").write_text(json.dumps(value))
    assert "the tokenizer has a token" in refused(folder, tmp_path)


def test_what_is_nothing_and_what_exists_are_refused(folder, tmp_path):
    assert "there is nothing at" in refused(tmp_path / "none", tmp_path)
    assert "is no folder of a model, no ckpt.pt and no ARPA file" in refused(folder / "config.json", tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(RegardError, match="exists already: give another path, or remove it"):
        import_run(folder, tmp_path / "here")


def test_an_older_gpt2_folder_has_its_tokenizer_in_two_files(imported, tmp_path):
    _, trained, folder = imported("gpt2")
    shutil.copytree(folder, tmp_path / "old")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (tmp_path / "old" / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
    (tmp_path / "old" / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (tmp_path / "old" / "tokenizer.json").unlink()
    again = import_model(tmp_path / "old", tmp_path / "run")
    for text in [*FUZZ, TEXT]:
        assert again.tokenizer.encode(text).tolist() == trained.tokenizer.encode(text).tolist()
