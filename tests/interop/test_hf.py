"""Exports to transformers: every class of the table, opened there, says what our model says."""

import json
import random
import unicodedata

import pytest
import torch

import regard
from regard.cli import main
from regard.data.tokens.tokenizers import KINDS
from regard.errors import RunError, SettingError
from regard.interop import checking
from regard.interop.architectures import ARCHITECTURES
from regard.interop.checking import our_greedy, our_log_probs
from regard.interop.export import export
from regard.interop.to_safetensors import line_of
from tests.interop.made_models import TEXT, make_trained

transformers = pytest.importorskip("transformers", reason="transformers is not installed (regard[hf])")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

RMS = dict(norm="rms", activation="swiglu")
MASKED, PAIRS = dict(task_name="masked", **RMS), dict(task_name="translate")
SINUSOIDS = dict(**PAIRS, positions="sinusoidal")
# A name -> the class that holds it, and settings.
ROWS = {
    "the default": ("GPTNeoXForCausalLM", {}),
    "tied, scaled, silu": ("GPTNeoXForCausalLM", dict(tied=True, embedding_scale="width", activation="silu")),
    "biases, half the channels turn, parallel": (
        "GPTNeoXForCausalLM", dict(bias="all", rotary_share=0.5, rotary_base=500.0, parallel=True)),
    "groups": ("Starcoder2ForCausalLM", dict(heads=4, kv_heads=2, bias="qkv", activation="gelu-tanh")),
    "a window": ("Starcoder2ForCausalLM", dict(window=5, activation="relu")),
    "rms, swiglu": ("LlamaForCausalLM", dict(**RMS, kv_heads=2, bias="all", head_width=12)),
    "rms, swiglu, a window": ("MistralForCausalLM", dict(**RMS, window=6, tied=True)),
    "one length of queries": ("Qwen3ForCausalLM", dict(**RMS, qk_norm=True, bias="qkv")),
    "one length with an eps of before": ("Qwen3ForCausalLM", dict(**RMS, qk_norm=True, qk_eps=1e-6, window=7)),
    "swiglu": ("StableLmForCausalLM", dict(activation="swiglu", bias="qkv", rotary_share=0.5)),
    "rms, relu2": ("ArceeForCausalLM", dict(norm="rms", activation="relu2", kv_heads=2, bias="all")),
    "learned": ("GPT2LMHeadModel", dict(positions="learned", bias="all", tied=True, activation="gelu-tanh")),
    "sinusoids": ("GPT2LMHeadModel", dict(positions="sinusoidal", tied=True)),
    "no positions": ("GPT2LMHeadModel", dict(positions="none")),
    "alibi": ("MptForCausalLM", dict(positions="alibi", heads=3, width=24)),
    "mamba": ("MambaForCausalLM", dict(family="mamba", norm="rms", decay="channel", state=4)),
    "mamba-2": ("Mamba2ForCausalLM", dict(family="mamba2", state=8, head_width=16)),
    "mamba-2, tied": ("Mamba2ForCausalLM", dict(family="mamba2", state=4, head_width=8, tied=True, expand=3.0, conv=3)),
    "masked": ("EuroBertForMaskedLM", dict(**MASKED, bias="all")),
    "masked, tied": ("EuroBertForMaskedLM", dict(**MASKED, tied=True)),
    "sinusoids of a translator": ("PegasusForConditionalGeneration", dict(**SINUSOIDS, decoder_layers=1)),
    "untied, with a logit bias": (
        "PegasusForConditionalGeneration", dict(**SINUSOIDS, tied=False, bias="all", logit_bias=True)),
    "post-norm": ("MarianMTModel", dict(**SINUSOIDS, placement="post", bias="all", activation="silu")),
    "two vocabularies": ("MarianMTModel", dict(**SINUSOIDS, placement="post", shared=False)),
    "learned, of a translator": ("BlenderbotForConditionalGeneration", dict(**PAIRS, positions="learned")),
}


@pytest.fixture(autouse=True)
def few_lines(monkeypatch):
    """The export's own check is short here: each test has another one behind it."""
    monkeypatch.setattr(checking, "LINES", 8)


def open_by_class(path):
    """The model by the name in config.json, and not by the code under test."""
    name = json.loads((path / "config.json").read_text())["architectures"][0]
    return getattr(transformers, name).from_pretrained(path, dtype=torch.float32).eval()


@torch.no_grad()
def their_log_probs(model, tokens, source=None):
    given = {"input_ids": torch.tensor([tokens])} if source is None else {
        "input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([tokens])}
    return model(**given).logits[0].log_softmax(-1)


def their_greedy(model, tokens, count, source=None):
    """The likeliest token again and again, each from a whole read: no cache, no generate()."""
    written = list(tokens)
    while len(written) < len(tokens) + count and (written == list(tokens) or written[-1] != 2):
        written.append(int(their_log_probs(model, written, source)[-1].argmax()))
    return written[len(tokens):]


def test_every_class_of_the_table_is_tried():
    assert {kind for kind, _ in ROWS.values()} == {row.name for row in ARCHITECTURES["hf"]}


@pytest.mark.parametrize("row", ROWS)
def test_a_class_of_transformers_says_what_our_model_says(row, tmp_path):
    kind, settings = ROWS[row]
    trained = make_trained(**settings)
    done = export(trained, "hf", tmp_path / "out")
    assert done.kind == kind and done.checked.difference <= 1e-4 and done.checked.choices == 1.0
    model = open_by_class(tmp_path / "out")
    assert type(model).__name__ == kind
    generator = random.Random(0)
    for length in (1, 7, 40):
        tokens = [1, *(generator.randrange(4, 280) for _ in range(length - 1))]
        source = None
        if "translate" in settings.values():
            source = [*(generator.randrange(4, 280) for _ in range(length)), 2]
        ours = our_log_probs(trained.model, line_of(tokens, source))
        assert float((ours - their_log_probs(model, tokens, source)).abs().max()) < 1e-4
        if trained.task.name != "masked" and length == 7:
            count = 41
            assert our_greedy(trained.model, line_of(tokens, source), count, 2)[0] == their_greedy(
                model, tokens, count, source)


# ------------------------------------------------------------------------------------------- tokenizers


def fuzz(seed):
    """Text of any characters at all, but half surrogates, with names of special tokens among them."""
    generator = random.Random(seed)
    pieces = ["<eos>", " <eos> ", "\n<bos> ",
              "<bos>", "<pad>", "<unk>", "<mask>", " ", "\n", "  ", "\t", "the", "fox", "'s", "12", "\u00a0"]
    ranges = ((32, 127), (0, 0x300), (0x300, 0x2100), (0x2100, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000))
    for _ in range(40):
        low, high = generator.choice(ranges)
        pieces.append(chr(generator.randrange(low, high)))
    return "".join(generator.choices(pieces, k=30))


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_cuts_any_text_as_our_tokenizer_does(kind, tmp_path):
    vocab = {"bpe": 300, "unigram": 300}.get(kind)
    trained = make_trained(kind=kind, vocab=vocab, context=512)
    export(trained, "hf", tmp_path / "out", check=False)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for seed in range(300):
        text = fuzz(seed)
        if kind == "word":                 # its pattern asks what a letter or a space is: Python has its own tables
            text = "".join(each for each in text if unicodedata.category(each) not in ("Cn", "Cc"))
        ours = trained.tokenizer.encode(text).tolist()
        assert theirs.encode(text, add_special_tokens=False) == ours, text
        assert theirs.encode(text) == [1, *ours]
        if trained.tokenizer.lossless:
            assert theirs.decode(ours) == text


@pytest.mark.parametrize("settings", [MASKED, SINUSOIDS, dict(**SINUSOIDS, placement="post", shared=False)])
def test_the_frame_of_a_text_is_that_of_training(settings, tmp_path):
    trained = make_trained(**settings)
    export(trained, "hf", tmp_path / "out", check=False)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    tokenizer = getattr(trained.tokenizer, "source", trained.tokenizer)
    assert theirs.encode(TEXT) == [*tokenizer.encode(TEXT).tolist(), 2]
    if settings.get("shared") is False:
        target = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "target-tokenizer")
        assert target.encode(TEXT) == [*trained.tokenizer.target.encode(TEXT).tolist(), 2]
    if "masked" in settings.values():
        assert theirs.mask_token_id == trained.model.mask
        assert trained.model.mask not in theirs.encode("a <mask> here")


def test_generate_with_the_settings_of_the_folder_writes_no_token_that_ours_never_writes(tmp_path):
    trained = make_trained()
    export(trained, "hf", tmp_path / "out", check=False)
    model, tokenizer = open_by_class(tmp_path / "out"), transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    torch.manual_seed(0)
    written = model.generate(**tokenizer("The fox", return_tensors="pt"), max_new_tokens=30)[0].tolist()
    assert written[:1] == [1] and not {0, 1, 3} & set(written[1:])


def test_a_beam_search_with_the_settings_of_the_folder_finds_our_translations(tmp_path):
    """Ours ends as soon as it has as many targets as beams, and so must transformers'."""
    words = random.Random(0)
    some = ["the", "cat", "dog", "sat", "ran", "home", "tree", "red", "big", "sea"]
    lines = [" ".join(words.choices(some, k=words.randint(3, 9))) for _ in range(400)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    main(["train", "translate", str(tmp_path / "pairs.tsv"), "--like", "marian", "--steps", "25", "--width", "32",
          "--layers", "1", "--heads", "2", "--context", "64", "--out", str(tmp_path / "run"), "--quiet"])
    export(tmp_path / "run", "hf", tmp_path / "out", check=False)
    model, tokenizer = open_by_class(tmp_path / "out"), transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    found = model.generate(**tokenizer(lines[:30], return_tensors="pt", padding=True))
    ours = [each.text for each in regard.load(tmp_path / "run", "cpu").translate(lines[:30])]
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == ours and len(set(ours)) > 3


@pytest.mark.parametrize("positions", ["learned", "none", "alibi"])
def test_the_program_of_the_card_ends_where_the_positions_do(positions, tmp_path):
    """transformers' GPT-2 and MPT fail behind their last position."""
    trained = make_trained(positions=positions, heads=2)
    export(trained, "hf", tmp_path / "out", check=False)
    model, tokenizer = open_by_class(tmp_path / "out"), transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model.generation_config.suppress_tokens += [2]                 # it never ends by itself
    written = model.generate(**tokenizer("Once upon a time", return_tensors="pt"))[0]
    assert len(written) == trained.context


# ------------------------------------------------------------------------------------ what must be seen


def test_a_wrong_weight_is_seen_and_nothing_is_left_behind(tmp_path, monkeypatch):
    from regard.interop import hf_decoders

    right = hf_decoders.turning
    monkeypatch.setattr(hf_decoders, "turning", lambda a, eps: (a.q, *right(a, eps)[1:]))        # rows as ours stand
    with pytest.raises(RunError, match=r"largest difference .*not kept"):
        export(make_trained(), "hf", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_that_cuts_otherwise_is_seen(tmp_path, monkeypatch):
    from regard.interop import hf_tokenizer, to_hf

    def lowered(subject, vocab):
        files = hf_tokenizer.tokenizer_files(subject, vocab)
        files["tokenizer.json"]["normalizer"] = {"type": "Lowercase"}
        return files

    monkeypatch.setattr(to_hf, "tokenizer_files", lowered)
    with pytest.raises(RunError, match="other tokens"):
        export(make_trained(kind="char", vocab=None, context=64), "hf", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_half_precision_is_near_and_half_as_large(tmp_path):
    trained = make_trained()
    whole, half = (export(trained, "hf", tmp_path / name, precision=name) for name in ("float32", "float16"))
    assert half.checked.difference < 0.3
    sizes = [(done.path / "model.safetensors").stat().st_size for done in (whole, half)]
    assert 1.9 < sizes[0] / sizes[1] < 2.1


def test_the_card_tells_the_class_and_the_settings(tmp_path):
    export(make_trained(), "hf", tmp_path / "out", check=False)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "GPTNeoXForCausalLM" in card and 'positions = "rotary"' in card and "nowhere.txt" in card


def test_nothing_is_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(SettingError, match="exists already"):
        export(make_trained(), "hf", tmp_path / "out")

