"""Marian's translators (opus-mt) as ours: settings, tensors, and the tokenizers of both languages.

Marian adds all sines, then all cosines; ours alternate. So the channels between the blocks are reordered in every
weight that reads or writes them, which changes no number.   V vocabulary · D width · F inside a feed-forward layer
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.vocabulary import BOS, TokenizerPair
from regard.errors import DataError
from regard.interop.foreign_rows import files_beside, readable_tokenizer
from regard.interop.from_hf import activation
from regard.interop.hf_folder import TOKENIZER, Config, FoundWeights, load_json
from regard.interop.sentence_pieces import load_raw, load_sentence_pieces

SOURCE, TARGET, VOCAB = "source.spm", "target.spm", "vocab.json"
SHARED = "model.shared.weight"


@dataclass
class MarianReader:
    """The tensors of a folder, as ours."""

    weights: FoundWeights
    width: int
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = torch.cat((torch.arange(0, self.width, 2), torch.arange(1, self.width, 2)))

    def reordered(self, tensor: Tensor, axis: int) -> Tensor:
        """The channels of this axis as ours stand: sine, cosine, sine ..."""
        found = torch.empty_like(tensor)
        found.index_copy_(axis, self.order, tensor)
        return found

    def put(self, theirs: tuple[str, ...], ours: str, rows: int, columns: int, *, reads: bool) -> None:
        """Add a linear layer, or several on one another, that reads what stands between blocks or writes it."""
        weight = torch.cat([self.weights.take(f"{name}.weight", rows, columns) for name in theirs])
        bias = torch.cat([self.weights.take(f"{name}.bias", rows) for name in theirs])
        self.tensors[f"{ours}.weight"] = self.reordered(weight, 1 if reads else 0)
        self.tensors[f"{ours}.bias"] = bias if reads else self.reordered(bias, 0)

    def put_norm(self, theirs: str, ours: str) -> None:
        for part in ("weight", "bias"):
            self.tensors[f"{ours}.{part}"] = self.reordered(self.weights.take(f"{theirs}.{part}", self.width), 0)

    def put_self_attention(self, theirs: str, ours: str) -> None:
        qkv = tuple(f"{theirs}.self_attn.{name}_proj" for name in "qkv")
        self.put(qkv, f"{ours}.mixer.qkv", self.width, self.width, reads=True)
        self.put((f"{theirs}.self_attn.out_proj",), f"{ours}.mixer.out", self.width, self.width, reads=False)
        self.put_norm(f"{theirs}.self_attn_layer_norm", f"{ours}.mixer_norm")

    def put_cross_attention(self, theirs: str, ours: str) -> None:
        self.put((f"{theirs}.encoder_attn.q_proj",), f"{ours}.mixer.q", self.width, self.width, reads=True)
        kv = tuple(f"{theirs}.encoder_attn.{name}_proj" for name in "kv")
        self.put(kv, f"{ours}.mixer.kv", self.width, self.width, reads=True)
        self.put((f"{theirs}.encoder_attn.out_proj",), f"{ours}.mixer.out", self.width, self.width, reads=False)
        self.put_norm(f"{theirs}.encoder_attn_layer_norm", f"{ours}.mixer_norm")

    def put_feed(self, theirs: str, ours: str, inner: int) -> None:
        self.put((f"{theirs}.fc1",), f"{ours}.feed.up", inner, self.width, reads=True)
        self.put((f"{theirs}.fc2",), f"{ours}.feed.down", self.width, inner, reads=False)
        self.put_norm(f"{theirs}.final_layer_norm", f"{ours}.feed_norm")

    def embedding(self, vocab: int, *names: str) -> Tensor:
        name = next((each for each in names if each in self.weights), names[0])
        return self.reordered(self.weights.take(name, vocab, self.width), 1)


def convert_marian(config: Config, weights: FoundWeights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the [model] table and the tensors, their rows still counted as Marian does."""
    for name in ("normalize_embedding", "normalize_before", "add_final_layer_norm"):
        config.require(name, False, default=False)
    width, heads, inner, layers, decoder_layers = (config.size(name) for name in (
        "d_model", "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers", "decoder_layers"))
    for name, value in (("decoder_attention_heads", heads), ("decoder_ffn_dim", inner)):
        config.require(name, value)
    vocab, context = config.size("vocab_size"), config.size("max_position_embeddings")
    reader = MarianReader(weights, width)
    for number in range(layers):
        theirs, ours = f"model.encoder.layers.{number}", f"encoder.stack.layers.{number + 1}"
        reader.put_self_attention(theirs, ours)
        reader.put_feed(theirs, ours, inner)
    for number in range(decoder_layers):
        theirs, ours = f"model.decoder.layers.{number}", f"stack.layers.{2 * number + 1}"
        reader.put_self_attention(theirs, ours)
        reader.put_cross_attention(theirs, ours := f"stack.layers.{2 * number + 2}")
        reader.put_feed(theirs, ours, inner)
    tensors = embeddings_of(reader, config, vocab)
    bias = weights.maybe("final_logits_bias", 1, vocab)
    tensors |= {**reader.tensors, "head.bias": torch.zeros(vocab) if bias is None else bias[0]}
    tied = put_output(tensors, reader, vocab, config.flag("tie_word_embeddings", True))
    sides = [f"model.{side}.embed_{part}.weight" for side in ("encoder", "decoder") for part in ("tokens", "positions")]
    weights.finish(SHARED, "lm_head.weight", *sides)
    return {"layers": layers, "decoder_layers": decoder_layers, "width": width, "heads": heads, "context": context,
            "positions": "sinusoidal", "placement": "post", "bias": "all", "logit_bias": True, "tied": tied,
            "activation": activation(config, "activation_function", default="gelu"), "expand": inner / width,
            "embedding_scale": "width" if config.flag("scale_embedding", False) else "none"}, tensors


def embeddings_of(reader: MarianReader, config: Config, vocab: int) -> dict[str, Tensor]:
    """Return the embeddings of both sides, which are one matrix in most models."""
    encoder, decoder = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    if config.flag("share_encoder_decoder_embeddings", True):
        # One that the folder has of its own is its own, as for transformers, whatever config.json says.
        return {"embedding.weight": reader.embedding(vocab, decoder, SHARED, encoder),
                "encoder.embedding.weight": reader.embedding(vocab, encoder, SHARED, decoder)}
    config.require("decoder_vocab_size", vocab, default=vocab)
    return {"embedding.weight": reader.embedding(vocab, decoder),
            "encoder.embedding.weight": reader.embedding(vocab, encoder)}


def put_output(tensors: dict[str, Tensor], reader: MarianReader, vocab: int, tied: bool) -> bool:
    """Add the output matrix; return whether it is the decoder's embedding."""
    names = ("lm_head.weight", SHARED, "model.decoder.embed_tokens.weight")
    head = reader.embedding(vocab, *names[:3 if tied else 1])
    if tied and torch.equal(head, tensors["embedding.weight"]):
        return True
    tensors["head.weight"] = head
    return False


# ------------------------------------------------------------------------------------------ vocabulary


def load_marian_tokenizers(folder: Path, config: Config) -> TokenizerPair:
    """Return the tokenizers of both languages: two ways to cut, and one count of pieces."""
    rows = config.size("vocab_size")
    if not (folder / VOCAB).is_file() and (folder / TOKENIZER).is_file():
        raise DataError(f"{folder} has a {TOKENIZER}, and Regard reads a Marian with {SOURCE}, {TARGET} and {VOCAB}: "
                        "if Regard exported it, use the run that it came from")
    pieces = pieces_by_id(folder / VOCAB, rows)
    roles = {role: piece_id(folder, pieces, config, name, token) for role, name, token in (
        ("pad", "pad_token_id", "<pad>"), ("eos", "eos_token_id", "</s>"), ("unk", "unk_token_id", "<unk>"))}
    specials = [roles["pad"], ADDED, roles["eos"], roles["unk"]]
    begins = piece_id(folder, pieces, config, "decoder_start_token_id", pieces[roles["pad"]])
    files = {**files_beside(folder), **{name: base64.b64encode(load_raw(folder / name)).decode()
                                        for name in (SOURCE, TARGET)}}
    with readable_tokenizer(folder, folder / VOCAB):
        source, target = (
            ForeignTokenizer(load_sentence_pieces(folder / name), specials, rows, pieces, alike={BOS: begins},
                             files=files if name == TARGET else {})
            for name in (SOURCE, TARGET))
    return TokenizerPair(source, target)


def pieces_by_id(path: Path, rows: int) -> list[str]:
    vocab = load_json(path)
    pieces = sorted(vocab, key=lambda piece: vocab[piece] if type(vocab[piece]) is int else -1)
    if [vocab[piece] for piece in pieces] != list(range(len(pieces))) or len(pieces) != rows:
        raise DataError(f"{path} does not number {rows:,} pieces from 0 on, as the model has them: fetch it again")
    return pieces


def piece_id(folder: Path, pieces: list[str], config: Config, name: str, token: str) -> int:
    id = config.values.get(name)
    if id is None and token in pieces:
        id = pieces.index(token)
    if id is None:
        raise DataError(f"{config.name} has no {name}, and {folder / VOCAB} no {token}: fetch them again")
    if type(id) is not int or not 0 <= id < len(pieces):
        raise DataError(f"{config.name}: {name} = {id!r}: the model has {len(pieces):,} tokens, from 0 on")
    return id
