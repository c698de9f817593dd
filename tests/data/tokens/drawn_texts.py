"""Texts of any Unicode, drawn; tokenizers of every kind; and what must come back."""

import json
import re
from functools import cache

import numpy as np
import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.corpora import stories
from regard.corpora.word_split import split_words
from regard.data.tokens.tokenizers import Tokenizer, train_tokenizer
from regard.data.tokens.vocabulary import UNK
from regard.errors import DataError

ENGLISH = " ".join(stories.generate(200))
MIXED = ("“Naïve café” — l’été, 3.14 €… 你好，世界! 👩‍👩‍👧 <eos> <unk>\tend\n\n  x_y don't שלום עולם مرحبا بالعالم "
         "नमस्ते दुनिया ไทย 한국어 ﷺ\u200f\u202etxt\u202c é e\u0301 ﬁ ½ Ⅷ 🏳️‍🌈🇫🇷 \u0000\r\n\u2028\u0085\ufeff ") * 3
# First and last code points of what is drawn from; half a surrogate pair is no text, and is drawn apart.
BLOCKS = ((0, 0x1f), (0x20, 0x7e), (0x7f, 0xff), (0x100, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x600, 0x6ff),
          (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2100, 0x23ff),
          (0x2580, 0x25ff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xe000, 0xe0ff), (0xf900, 0xfaff),
          (0xfb50, 0xfdff), (0xfe00, 0xfe0f), (0xff00, 0xffff), (0x10000, 0x100ff), (0x1d400, 0x1d4ff),
          (0x1f1e6, 0x1f1ff), (0x1f300, 0x1faff), (0x20000, 0x200ff), (0xe0000, 0xe01ef), (0x10ff00, 0x10ffff))
PIECES = ("<eos>", "<pad>", "<bos>", "<unk>", "<mask>", "</s>", "\r\n", "\u2028", "\u2029", "\x85", "\x0b\x0c", "\x1c",
          "\ufeff", "\ufffd", "\u200d", "\u200b", "\u202e", "\ufe0f", "e\u0301", "é", "ffi", "ﬃ", "İ", "ß", "ǅ",
          "👩\u200d👩\u200d👧\u200d👦", "🇫🇷🇩🇪", "🏴\U000e0067\U000e0062\U000e007f", "\u0915\u094d\u0937", "각", "각",
          "▁", "Ġ", "Ċ", "##a", "  ", "\t\t", "\n\n\n", "'s", "1234567", "don't", " the", "a" * 300, "\u0301" * 40)


def draw_text(chance):
    """A text of up to some hundred characters, in one script or many; now and then a long one."""
    blocks = chance.choices(BLOCKS, k=chance.choice((1, 1, 2, 5)))
    length = chance.choice((0, 1, 2, 5, 20, 20, 80, 80, 300, *([12_000] if chance.random() < 0.02 else [])))
    parts = []
    while len(parts) < length:
        kind = chance.random()
        if kind < 0.15:
            parts.append(chance.choice(PIECES))
        elif kind < 0.3:
            parts.append(chance.choice((" ", "\n", *MIXED)))
        else:
            parts.append(chr(chance.randint(*chance.choice(blocks))))
    return "".join(parts)


# ---------------------------------------------------------------------------------------------- tokenizers


@cache
def tokenizers():
    """Every kind, trained on plain English and on many scripts, and some of other programs."""
    made = {f"{kind} of {name}": train_tokenizer(kind, [text], 300 if kind in ("bpe", "unigram") else None)
            for kind in ("char", "byte", "whitespace", "word", "bpe", "unigram")
            for name, text in (("English", ENGLISH), ("many scripts", MIXED))}
    large = {f"large {kind}": train_tokenizer(kind, [ENGLISH + MIXED], 900) for kind in ("bpe", "unigram")}
    return made | large | {f"foreign: {name}": foreign(*given) for name, given in FOREIGN.items()}


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
FOREIGN = {
    "bytes": (BYTES,), "bytes with a space before": (pre_tokenizers.ByteLevel(add_prefix_space=True),),
    "bytes of words alone": (pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), BYTES]),),
    "bytes without marks": (pre_tokenizers.Sequence([pre_tokenizers.Split("-", "removed"), BYTES]),),
    "bytes of digits": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),),
    "bytes of NFC": (BYTES, normalizers.NFC()), "few bytes": (BYTES, None, False)}


def foreign(before, normalizer=None, every_byte=True):
    """A tokenizer of pairs of bytes as other programs write it."""
    made = library.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = before, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet() if every_byte else []
    made.train_from_iterator([ENGLISH[:3000]], trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<pad>", "<s>", "</s>", "<unk>"], initial_alphabet=alphabet,
        show_progress=False))
    value = json.loads(made.to_str()) | {"regard": {"specials": [0, 1, 2, 3], "size": made.get_vocab_size()}}
    return Tokenizer.from_json(json.dumps(value))


# --------------------------------------------------------------------------------------------- what must hold


def wrong(tokenizer, text, more):
    """What is not as it should be of a text and another, or nothing."""
    ids = tokenizer.encode(text)
    if len(ids) and not (ids.min() >= 0 and ids.max() < tokenizer.vocab_size):
        return f"ids beyond the vocabulary of {tokenizer.vocab_size}"
    if np.isin(ids, [0, 1, 2]).any():
        return "a special token is found in a text"
    back = tokenizer.decode(ids)
    if (expected := comes_back(tokenizer, text)) is not None and back != expected:
        return f"{back!r} comes back, not {expected!r}"
    stream = tokenizer.stream()
    if "".join([stream.push(int(id)) for id in ids]) + stream.flush() != back:
        return "streamed, it reads otherwise"
    many, alone = tokenizer.encode_batch([text, more, text]), [ids, tokenizer.encode(more), ids]
    if any(one.tolist() != other.tolist() for one, other in zip(many, alone, strict=True)):
        return "in a batch it has other ids"
    lines = [line for each in (text, more) for line in each.split("\n")]
    row, ends = tokenizer.encode_lines(lines)
    cut = [each[:-1].tolist() for each in np.split(row, ends)[:-1]]
    if cut != [tokenizer.encode(line).tolist() for line in lines]:
        return "among lines it has other ids"
    return half_a_pair(tokenizer, text)


def comes_back(tokenizer, text):
    """What decoding must give, by the definition of the kind; None where that is not said."""
    if tokenizer.lossless:
        return text
    if tokenizer.kind == "char":
        known = set(tokenizer.characters)
        return "".join(each for each in text if each in known)
    if tokenizer.kind == "whitespace":
        known = set(tokenizer.words)
        return " ".join(each for each in re.split(r"[ \t\n]+", text) if each in known)
    return None


def half_a_pair(tokenizer, text):
    try:
        tokenizer.encode(text[:3] + "\ud83d" + text[3:6])
    except DataError as error:
        return "" if str(error).isprintable() else "half a surrogate pair is not refused in one line"
    return "half a surrogate pair is not refused"


def wrong_words(tokenizer, text):
    """Of words: a word that is known has its own id, and no other word has."""
    words = split_words(text) if tokenizer.kind == "word" else tokenizer.split(text)
    expected = [tokenizer.words.index(each) + 4 if each in set(tokenizer.words) else UNK for each in words]
    return "" if tokenizer.encode(text).tolist() == expected else "words have other ids"
