"""A corpus of captioned pictures: from a folder to pixels, captions as tokens, a tokenizer and a split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.corpora import shapes
from regard.data import embedded
from regard.data.batching.pair_batches import Pictures
from regard.data.pictures.picture_shards import CaptionedPictures, PictureShard, prepare_pictures
from regard.data.pictures.pictures import PictureDataSettings
from regard.data.reading.corpus import SAMPLE as SUBWORDS
from regard.data.reading.corpus import Learned, PreparedCorpus, Say, TokenizerSettings, learn_tokenizer
from regard.data.reading.shards import Counts, Shard
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, key_of
from regard.data.tokens.tokenizers import pair_vocab
from regard.data.tokens.vocabulary import UNK, Tokenizer
from regard.errors import DataError, SettingError

EMBEDDED = "shapes"
DRAWN = {part: embedded.size(EMBEDDED, part) for part in shapes.PARTS}


@dataclass
class PictureCorpus(PreparedCorpus):
    """Captioned pictures, ready for training; where a text is asked for, it is the captions."""

    train: Shard
    valid: Shard
    source_train: Pictures
    source_valid: Pictures
    tokenizer: Tokenizer
    tally: Tally
    captions: list[str]                # the held-out ones, as they were written
    content: str = ""
    documents: str = "pair"
    langs: str = ""


def prepare_captioned(
    data: PictureDataSettings, tokenizer: TokenizerSettings | Tokenizer, cache: Path | None = None, say: Say = print
) -> PictureCorpus:
    """Read, split by picture, learn a tokenizer where none is given, and encode."""
    store = Cache(cache, say)
    built_in = is_embedded(data.files)
    train = read_part(data, data.files, "train", store, say)
    if data.valid or built_in:
        valid = read_part(data, data.valid or data.files, "valid", store, say)
    else:
        train, valid = split(train, data.valid_share)
    content = key_of(*(part.shard.content for part in (train, valid)), train.captions, valid.captions)
    if not isinstance(tokenizer, Tokenizer):
        kind = tokenizer.kind if tokenizer.kind != "auto" else "word" if built_in else "bpe"
        characters = sum(map(len, train.captions))
        learned = Learned(lambda: iter(train.captions), characters, 0, key_of("captions", content))
        vocab = tokenizer.vocab or (pair_vocab(characters) if kind in SUBWORDS else 0)
        tokenizer = learn_tokenizer(learned, kind, vocab, store, say)
    return PictureCorpus(
        caption_shard(tokenizer, train.captions), caption_shard(tokenizer, valid.captions),
        Pictures(train.shard.images, train.rows), Pictures(valid.shard.images, valid.rows), tokenizer, train.tally,
        valid.captions, content)


def is_embedded(files: Sequence[str]) -> bool:
    """True if the embedded shapes are meant, and not a folder called so."""
    return tuple(map(str, files)) == (EMBEDDED,) and not Path(EMBEDDED).exists()


def read_part(data: PictureDataSettings, files: Sequence[str], part: str, store: Cache, say: Say) -> CaptionedPictures:
    if is_embedded(files):
        return drawn(part, DRAWN[part], data.size, store)
    if len(files) != 1:
        raise DataError(f"{len(files)} names were given for pictures: name one folder that has a captions file, or "
                        "one captions file")
    found = prepare_pictures(files[0], data, store)
    say(found.tally.line())
    return found


def drawn(part: str, number: int, size: int, store: Cache) -> CaptionedPictures:
    """The embedded shapes of a part, drawn once for each version of the code that draws them."""
    if size != shapes.SIDE:
        raise SettingError(f"data.size {size}: the embedded shapes are of {shapes.SIDE} x {shapes.SIDE} pixels; "
                           "leave it out")
    code = b"".join(path.read_bytes() for path in sorted(Path(shapes.__file__).parent.glob("shapes*.py")))
    key = key_of(part, number, hashlib.sha256(code).hexdigest())
    shard, _ = store.entry("pictures", key, PictureShard.open, lambda path: PictureShard.write(
        path, size, (picture.image for picture in shapes.pictures(number, 0, part))))
    captions, _ = store.json("captions", key, lambda: {
        "captions": [picture.caption for picture in shapes.pictures(number, 0, part)]})
    return CaptionedPictures(shard, captions["captions"], np.arange(number), Tally(number, number, noun="picture"))


def split(pictured: CaptionedPictures, share: float) -> tuple[CaptionedPictures, CaptionedPictures]:
    """The last pictures are held out, with all their captions."""
    pictures = len(pictured.shard)
    if pictures < 2:
        raise DataError("too few pictures to hold some out: give more, or others with --valid")
    first = min(max(int((1 - share) * pictures), 1), pictures - 1)
    held_out = pictured.rows >= first

    def part(chosen: NDArray[np.bool_]) -> CaptionedPictures:
        captions = [caption for caption, taken in zip(pictured.captions, chosen, strict=True) if taken]
        return CaptionedPictures(pictured.shard, captions, pictured.rows[chosen], pictured.tally)

    return part(~held_out), part(held_out)


def caption_shard(tokenizer: Tokenizer, captions: Sequence[str]) -> Shard:
    """Captions as a shard that is nowhere on disk: they are few beside their pictures."""
    tokens, ends = tokenizer.encode_lines(captions)
    counts = Counts(tokens=len(tokens), documents=len(ends), bytes=sum(len(text.encode()) for text in captions),
                    characters=sum(map(len, captions)), words=sum(len(text.split()) for text in captions),
                    unknown=int((tokens == UNK).sum()))
    return Shard(Path(), tokens, ends, counts, tokenizer.digest(), "")
