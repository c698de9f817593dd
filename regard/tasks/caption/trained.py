"""A trained captioner, ready to use: it describes pictures, and shows which patches each word attends to.

    model = regard.load("runs/shapes-caption-transformer")
    print(model.caption(["photo.png"])[0].text)
    print(model.caption(["photo.png"], attention=True)[0].weights.shape)     # (layers, heads, words, patches)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.contract import Source
from regard.data.batching.pair_batches import HeldOutPairs, Pictures
from regard.data.pictures.picture_corpus import caption_shard
from regard.data.pictures.picture_files import BadPicture, load_picture
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_attention import NO_ATTENTION, reads_source
from regard.decoding.source_batches import picture_batches, pixels_of
from regard.decoding.special_tokens import SpecialTokens, text_special_tokens
from regard.decoding.stream import padded
from regard.errors import DataError, RunError
from regard.laws.check import Report, check_model
from regard.look.attention_alignment import read_of_source, stacked
from regard.look.opening import Opening
from regard.metrics.perplexity import Surprise
from regard.models.seq2seq import Seq2Seq
from regard.tasks.laws import check_picture_encoder, join_reports
from regard.tasks.trained_model import TrainedModel

Images = NDArray[np.uint8]                 # (N, S, S, 3)
Weights = NDArray[np.float32]              # (layers, heads, words, patches)
AT_ONCE = 64                               # pictures whose weights are held at once


@dataclass(frozen=True)
class Caption:
    """A caption, and, if asked for, the weights by which it was read from the picture."""

    text: str
    score: float
    log_prob: float
    n_best: tuple[tuple[str, float], ...] = ()
    pieces: tuple[str, ...] = ()
    weights: Weights | None = None


@dataclass
class TrainedCaptioner(TrainedModel):
    """A captioner with everything needed to use it on pictures."""

    model: Seq2Seq
    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        """Pixels along a side of the pictures it reads."""
        return int(self.tables["model"]["image"])

    @property
    def patch(self) -> int:
        return int(self.tables["model"]["patch"])

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.size // self.patch, self.size // self.patch

    @property
    def attends(self) -> bool:
        return reads_source(self.model)

    @property
    def special_tokens(self) -> SpecialTokens:
        return text_special_tokens(self.tokenizer)

    def open(self, given: Any, *, new_tokens: int = 0, whole: bool = False) -> Opening:
        """A picture (S, S, 3) of bytes."""
        if not isinstance(given, np.ndarray):
            raise DataError("a captioner goes on with what it says of a picture: give one" if whole else
                            "a captioner reads a picture, and this is a text: give a picture")
        pixels = pixels_of(self.check_images(given[None]), self.model.device)
        return Opening(self.model, self.tokenizer, self.special_tokens, (self.special_tokens.begin,), self.context,
                       Source(pixels))

    def check_laws(self) -> Report:
        """The laws of models, and those of its encoder, on pictures that are drawn."""
        picture = (3, self.size, self.size)
        random = torch.Generator().manual_seed(0)
        source = Source(torch.randint(0, 256, (2, *picture), generator=random, dtype=torch.uint8))
        encoder = check_picture_encoder(self.model.encoder, picture, patches=self.grid[0] * self.grid[1])
        return join_reports(check_model(self.model, source=source), encoder)

    # ------------------------------------------------------------------------------------ captioning

    def load(self, files: Sequence[str | Path]) -> Images:
        """Return the pictures in these files, as the model reads them."""
        images, bad = self.load_good(files)
        for mistake in bad.values():
            raise mistake
        return images

    def load_good(self, files: Sequence[str | Path]) -> tuple[Images, dict[int, BadPicture]]:
        """Return the pictures that can be used, and the mistakes of the others, by their number."""
        if isinstance(files, str | Path):
            raise DataError("give a list of pictures, not a single one: caption([file])")
        images, bad = [np.empty((0, self.size, self.size, 3), np.uint8)], {}
        for place, name in enumerate(files):
            try:
                images.append(load_picture(name, self.size)[None])
            except BadPicture as mistake:
                bad[place] = mistake
        return np.concatenate(images), bad

    def check_images(self, images: Images) -> Images:
        wanted = (self.size, self.size, 3)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != wanted:
            raise DataError(f"an array {images.shape} of {images.dtype} is no list of pictures: give bytes "
                            f"(N, {', '.join(map(str, wanted))}), or the names of files")
        return images

    def caption(
        self, pictures: Sequence[str | Path] | Images, *, beam: int = 5, n_best: int = 1, length_penalty: float = 1.0,
        attention: bool = False, on_batch: Callable[[int], None] | None = None,
    ) -> list[Caption]:
        """Return a caption for each picture, file or array (N, S, S, 3) of bytes; with `attention`, weights too."""
        images = self.check_images(pictures) if isinstance(pictures, np.ndarray) else self.load(pictures)
        batches = picture_batches(self.model, images, self.context, beam)
        hypotheses = search_batches(self.model, batches, self.special_tokens, BeamOptions(beam, length_penalty, n_best),
                               on_batch)
        captions = [Caption(self.tokenizer.decode(best[0].tokens), best[0].score, best[0].log_prob,
                            tuple((self.tokenizer.decode(each.tokens), each.score) for each in best))
                    for best in hypotheses]
        if not attention:
            return captions
        read = self.reads(images, [best[0].tokens for best in hypotheses])
        return [replace(each, weights=weights, pieces=tuple(map(self.tokenizer.token, best[0].tokens)))
                for each, best, weights in zip(captions, hypotheses, read, strict=True)]

    def reads(self, images: Images, targets: Sequence[Sequence[int]]) -> list[Weights]:
        """Return the weights by which each token of a given caption reads the patches, at the step that writes it."""
        if not self.attends:
            raise RunError(NO_ATTENTION.format(cure="train a family with attention, e.g. rnn-attention"))
        all_weights: list[Weights] = []
        for first in range(0, len(images), AT_ONCE):
            some = targets[first:first + AT_ONCE]
            tokens, lengths = padded([[self.tokenizer.bos, *each[:-1]] for each in some], self.model.device)
            source = Source(pixels_of(images[first:first + AT_ONCE], self.model.device))
            weights = stacked(read_of_source(self.model, source, tokens, lengths)).float().cpu().numpy()
            all_weights += [weights[:, row, :, :len(each)] for row, each in enumerate(some)]
        return all_weights

    # ------------------------------------------------------------------------------------- measuring

    def score_captions(
        self, images: Images, captions: Sequence[str], notice: Callable[[str], None] | None = None
    ) -> Surprise:
        """Return the loss on given captions, ends included; those too long for it are left out, with a notice."""
        if len(images) != len(captions) or not len(captions):
            raise DataError(f"{len(images):,} pictures and {len(captions):,} captions: give one for each")
        held_out = HeldOutPairs(Pictures(images, np.arange(len(images))), caption_shard(self.tokenizer, captions),
                                budget=4096, context=self.context)
        return self.score_held_out(held_out, captions, "caption", "writes", notice)
