"""A config.json that says too little, or what its tensors contradict: read as transformers reads it."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.contract import Source
from regard.data.tokens.foreign import ADDED
from regard.errors import DataError
from regard.interop.importing import import_run

from .foreign_models import build, build_marian

transformers = pytest.importorskip("transformers", reason="transformers is not installed, whose classes are needed")


def change_config(folder, **changes):
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in values.items() if value != "gone"}))


def change_tensors(folder, **changes):
    path = folder / "model.safetensors"
    save_file(load_file(path) | changes, path, {"format": "pt"})


@torch.no_grad()
def differ(folder, out, kind="AutoModelForCausalLM"):
    """The largest difference of a log-probability between transformers' model and the imported one."""
    theirs = getattr(transformers, kind).from_pretrained(folder).eval()
    trained = regard.load(import_run(folder, out).path, "cpu")
    order = torch.from_numpy(trained.tokenizer.order)
    ids = torch.arange(10, 40)[None]
    wanted = theirs(order[ids]).logits[0].log_softmax(-1)
    found = trained.model.head(trained.model.encode(ids)[0])[0]
    known = order != ADDED
    return float((found[:, known] - wanted[:, order[known]]).abs().max())


@pytest.mark.parametrize(("name", "embedding"), [
    ("gpt2", "transformer.wte.weight"), ("llama-grouped-biased", "model.embed_tokens.weight"),
    ("mamba", "backbone.embeddings.weight")])
def test_an_output_matrix_that_is_not_the_embedding_counts_though_the_settings_say_tied(name, embedding, tmp_path):
    folder = tmp_path / "model"
    build(name, folder, tie_word_embeddings=True)
    weight = load_file(folder / "model.safetensors")[embedding]
    change_tensors(folder, **{"lm_head.weight": weight.clone()})
    assert differ(folder, tmp_path / "same") < 1e-4
    assert 'tied = true' in (tmp_path / "same" / "run.toml").read_text()
    change_tensors(folder, **{"lm_head.weight": weight.flip(0).contiguous()})
    assert differ(folder, tmp_path / "other") < 1e-4
    assert 'tied = false' in (tmp_path / "other" / "run.toml").read_text()


@pytest.mark.parametrize("changed", [
    ["lm_head.weight"], ["model.encoder.embed_tokens.weight"], ["model.decoder.embed_tokens.weight"],
    ["model.encoder.embed_tokens.weight", "lm_head.weight"]])
@torch.no_grad()
def test_of_a_marian_each_matrix_that_it_has_counts(changed, tmp_path):
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    folder = tmp_path / "model"
    build_marian(folder)
    shared = load_file(folder / "model.safetensors")["model.shared.weight"]
    change_tensors(folder, **{name: shared.roll(n + 1, 0) for n, name in enumerate(changed)})
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    trained = regard.load(import_run(folder, tmp_path / "run").path, "cpu")
    source, target = torch.tensor([[9, 20, 31, 2]]), torch.tensor([[1, 12, 40, 8]])
    order = torch.from_numpy(trained.tokenizer.target.order)
    begun = order[target]
    begun[:, 0] = theirs.config.decoder_start_token_id
    wanted = theirs(input_ids=order[source], decoder_input_ids=begun).logits[0].log_softmax(-1)
    state = trained.model.start(1, None, Source(source, torch.tensor([4])))
    found = trained.model.head(trained.model.encode(target, state)[0])[0]
    known = order != ADDED
    torch.testing.assert_close(found[:, known], wanted[:, order[known]], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "missing"), [
    ("starcoder2", ["tie_word_embeddings", "norm_epsilon", "hidden_act"]),
    ("llama", ["tie_word_embeddings", "rms_norm_eps", "hidden_act", "head_dim", "num_key_value_heads"]),
    ("gpt2", ["tie_word_embeddings", "layer_norm_epsilon", "activation_function", "n_inner"]),
    ("pythia", ["tie_word_embeddings", "layer_norm_eps", "hidden_act", "use_parallel_residual", "rope_parameters"]),
    ("mamba", ["tie_word_embeddings", "layer_norm_epsilon", "hidden_act", "time_step_rank", "intermediate_size"])])
def test_what_the_settings_leave_out_is_as_in_the_class_of_transformers(name, missing, tmp_path):
    folder = tmp_path / "model"
    kinds = {"starcoder2": {"num_attention_heads": 4}, "llama": {"head_dim": 8}, "gpt2": {"n_inner": 128}}
    build(name, folder, **kinds.get(name, {}))
    change_config(folder, **dict.fromkeys(missing, "gone"))
    assert differ(folder, tmp_path / "run") < 1e-4


def test_eps_of_a_eurobert_that_names_none_is_its_class_s(tmp_path):
    build("eurobert", tmp_path / "model")
    change_config(tmp_path / "model", rms_norm_eps="gone")
    import_run(tmp_path / "model", tmp_path / "run")
    assert regard.load(tmp_path / "run", "cpu").tables["model"]["eps"] == transformers.EuroBertConfig().rms_norm_eps


def test_an_unknown_architecture_is_answered_with_all_that_are_known(tmp_path):
    build("gpt2", tmp_path / "model")
    change_config(tmp_path / "model", model_type="mariam")
    with pytest.raises(DataError, match="did you mean marian"):
        import_run(tmp_path / "model", tmp_path / "run")
