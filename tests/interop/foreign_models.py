"""Models of other programs with random weights that hide nothing, and tokenizers for them: no download."""

import json

import torch

CONTEXT = 64
TEXT = ("The cat sat on the mat, and the dog saw 12 cats. It's 3.5 o'clock; naïve café, déjà vu!\n" * 40
        + "x = [1, 2, 3]\nfor i in x:\n    print(i)\n" * 20)
FUZZ = ["", " ", "  two  spaces ", "\n\n\t", "The cat<|endoftext|>sat", "naïve café", "日本語のテキスト",
        "🙂👩‍👩‍👧 ok", "a\u0301\u200b\x00b",
        "Ω≈ç√∫", "\u202eרשת", "1234567890" * 5, "<s></s><unk><pad>", "x" * 200, "\r\nline", "ﬀ ﬁ ½"]


def byte_level(folder, rows, *, specials=("<|endoftext|>",), normalizer=None):
    """A byte-level BPE, as GPT-2, GPT-NeoX, Qwen and Mamba have."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if normalizer == "NFC":
        made.normalizer = normalizers.NFC()
    made.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=rows, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return save(made, folder, specials)


def cut_by(folder, rule):
    """Let a byte-level tokenizer cut texts by a rule of its own before it merges, as Llama 3's and Qwen's do."""
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text())
    value["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": rule}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
    path.write_text(json.dumps(value))


RULE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
RULES = {"llama-bpe": RULE.replace("DIGITS", r"\p{N}{1,3}"), "qwen2": RULE.replace("DIGITS", r"\p{N}"),
         "another": RULE.replace("DIGITS", r"\p{N}{1,4}")}


def byte_level_with_mask(folder, rows):
    """As EuroBERT's: texts end as they are filled up, and a token stands for what is hidden."""
    names = {"eos_token": "<|end_of_text|>", "bos_token": "<|begin_of_text|>", "pad_token": "<|end_of_text|>",
             "mask_token": "<|mask|>"}
    made = byte_level(folder, rows, specials=list(dict.fromkeys(names[each] for each in (
        "eos_token", "bos_token", "mask_token"))))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", **names, "split_special_tokens": True,
         "clean_up_tokenization_spaces": False}))
    return made


def sentence_piece(folder, rows, **_):
    """As Llama's: spaces are marks, what is unknown falls back to bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    specials = ("<unk>", "<s>", "</s>")
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    made.train_from_iterator([TEXT[:2000]], trainers.BpeTrainer(
        vocab_size=rows - 256, special_tokens=[*specials, *bytes_][:3], show_progress=False, initial_alphabet=[]))
    value = json.loads(made.to_str())
    vocab = value["model"]["vocab"]
    shifted = {token: id if id < 3 else id + 256 for token, id in vocab.items()}
    value["model"]["vocab"] = {**shifted, **{name: 3 + n for n, name in enumerate(bytes_)}}
    return save(Tokenizer.from_str(json.dumps(value)), folder, specials)


def save(made, folder, specials):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(made.to_str(), "utf-8")
    named = {"eos_token": "<|endoftext|>"} if len(specials) == 1 else {
        "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", **named, "split_special_tokens": True,
         "clean_up_tokenization_spaces": False}))
    return made


TINY = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=CONTEXT)
ONE = dict(bos_token_id=0, eos_token_id=0)
LLAMA = dict(bos_token_id=1, eos_token_id=2)
BYTES, MARKS = byte_level, sentence_piece
# name -> class, settings, tokenizer
MODELS = {
    "gpt2": ("GPT2", dict(n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, **ONE), BYTES),
    "gpt2-relu-untied": ("GPT2", dict(n_embd=32, n_layer=1, n_head=2, n_positions=CONTEXT, n_inner=40, **ONE,
                                      activation_function="relu", tie_word_embeddings=False), BYTES),
    "pythia": ("GPTNeoX", dict(TINY, rotary_pct=0.25, **ONE), BYTES),
    "neox-sequential": ("GPTNeoX", dict(TINY, rotary_pct=1.0, use_parallel_residual=False, attention_bias=False,
                                        rotary_emb_base=500, **ONE), BYTES),
    "llama": ("Llama", dict(TINY, **LLAMA), MARKS),
    "llama-grouped-biased": ("Llama", dict(TINY, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                           rope_theta=500.0, tie_word_embeddings=True, **LLAMA), MARKS),
    "mistral": ("Mistral", dict(TINY, num_key_value_heads=2, sliding_window=5, head_dim=16, **LLAMA), MARKS),
    "qwen2": ("Qwen2", dict(TINY, num_key_value_heads=2, rope_theta=1e6, bos_token_id=None, eos_token_id=0,
                            tie_word_embeddings=True), BYTES),
    "qwen3": ("Qwen3", dict(TINY, num_key_value_heads=2, head_dim=12, bos_token_id=None, eos_token_id=0), BYTES),
    "starcoder2": ("Starcoder2", dict(TINY, num_key_value_heads=2, sliding_window=7, hidden_act="gelu_pytorch_tanh",
                                      **ONE), BYTES),
    "mamba": ("Mamba", dict(hidden_size=32, num_hidden_layers=2, state_size=5, conv_kernel=3, expand=2,
                            pad_token_id=0, **ONE), BYTES),
    "mamba2": ("Mamba2", dict(hidden_size=32, num_hidden_layers=2, state_size=5, conv_kernel=3, expand=2, num_heads=4,
                              head_dim=16, n_groups=1, time_step_limit=[0.1, 2.0], pad_token_id=0, **ONE), BYTES),
}
BLANKS = dict(bos_token_id=1, eos_token_id=0, pad_token_id=0, mask_token_id=2)
MASKED = {
    "eurobert": ("EuroBert", dict(TINY, **BLANKS), byte_level_with_mask),
    "eurobert-grouped-biased": ("EuroBert", dict(TINY, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                                 tie_word_embeddings=True, **BLANKS), byte_level_with_mask),
}
ROWS = 400                                 # of a model; its tokenizer has fewer tokens


def build(name, folder, **changes):
    """The peer's own class with random weights, saved as it saves models; and its tokenizer."""
    import transformers

    kind, settings, tokenizer = (MODELS | MASKED)[name]
    config = getattr(transformers, f"{kind}Config")(vocab_size=ROWS, **settings | changes)
    heads = {"GPT2": "GPT2LMHeadModel", "EuroBert": "EuroBertForMaskedLM"}
    torch.manual_seed(0)
    model = getattr(transformers, heads.get(kind, f"{kind}ForCausalLM"))(config).eval()
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            if "A_log" not in weight_name:
                weight.normal_(mean=1.0 if "norm" in weight_name and "weight" in weight_name else 0.0, std=0.3)
    model.save_pretrained(folder)
    tokenizer(folder, 380)
    return model


FRENCH = "".join(f"Le chat noir dort sur le tapis {n}, déjà vu ! L'été, où est-il ?\n" for n in range(40))
MARIAN = dict(d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
              encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=CONTEXT, activation_function="swish",
              scale_embedding=True, eos_token_id=0, num_hidden_layers=2)


def sentence_pieces(folder):
    """Two SentencePiece models and one count of the pieces of both, as opus-mt has them."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["</s>", "<unk>"]
    for side, text in (("source", FRENCH), ("target", TEXT)):
        (folder / "text.txt").write_text("\n".join(line.strip() for line in text.splitlines()))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text.txt"), model_prefix=str(folder / side), vocab_size=90, model_type="unigram",
            character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, bos_id=-1, eos_id=0, unk_id=1)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        made = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces += [made.id_to_piece(n) for n in range(made.get_piece_size())]
    pieces = [*dict.fromkeys(pieces), ">>fr<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "MarianTokenizer", "source_lang": "fr", "target_lang": "en", "separate_vocabs": False}))
    return pieces


def build_marian(folder, **changes):
    import transformers

    pieces = sentence_pieces(folder)
    pad = len(pieces) - 1
    config = transformers.MarianConfig(vocab_size=len(pieces), pad_token_id=pad, decoder_start_token_id=pad,
                                       **MARIAN | changes)
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(mean=1.0 if "norm" in name and "weight" in name else 0.0, std=0.3)
        model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model
