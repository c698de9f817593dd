"""What a model in training writes now, of the same held-out beginning each time: a line of samples.jsonl a validation.

    write = sampler("translate", model, corpus, context)
    write()                        # {"kind": "translate", "prompt": ..., "text": ..., "reference": ..., "map": ...}

A language model goes on with a text, a translator or summariser reads a source, a captioner a picture, a masked model
fills what is hidden. Beside it stands a small reading map: what the last layer that has one (the mean over its heads)
reads where the model is given what really stood there. Its rows are the same each time, so that attention can be seen
emerging. Nothing here draws from a generator or changes the model.
R rows · C columns · T time · L source length
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.contract import LanguageModel, Reading, Source, watch
from regard.corpora.shapes import png
from regard.data.batching.pair_batches import Side
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.decoding.beam import Beam
from regard.decoding.caption import caption_tokens, pixels_of
from regard.decoding.fill import of_text
from regard.decoding.marks import pair_marks, text_marks
from regard.decoding.reading import reads_source
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens, padded
from regard.decoding.translate import translate_tokens
from regard.look.next_token import written
from regard.models.masked import MaskedModel
from regard.probe.alignment import read_of_source
from regard.probe.copying import spell
from regard.probe.influence import evaluating

MOST = 40                      # rows and columns of a map
PROMPT, NEW = 12, 60           # tokens of a text that are given, and that are written
LOOKED_AT = 200                # held-out pairs among which a source is looked for that is neither short nor long
GRID = 6                       # patches along a side of a picture's map: 36 columns
HIDDEN_EVERY, HIDDEN_OF = 5, 24

Sample = dict[str, Any]
Weights = NDArray[np.float32]


def sampler(task: str, model: Any, corpus: Any, context: int | None = None) -> Callable[[], Sample]:
    """A function that says what the model writes now; what it begins with is chosen once.

    `context` is the run's: the most tokens of a source, a target or a caption. Of a text the model knows its own.
    """
    write = KINDS[task](model, corpus, context)

    def sample() -> Sample:
        with torch.no_grad(), evaluating(model):
            return {"kind": task, **write()}

    return sample


# ------------------------------------------------------------------------------------------------ texts


def goes_on(model: LanguageModel, corpus: Any, _: int | None) -> Callable[[], Sample]:
    """The first held-out text, its beginning given and the rest drawn with seed 0."""
    t, whole = corpus.tokenizer, first_text(corpus)
    prompt = whole[:max(1, min(PROMPT, len(whole) // 2))]
    begun = [t.bos, *prompt]
    read = [t.bos, *whole][:min(MOST, model.context or MOST)]
    pieces = written(t, read)

    def write() -> Sample:
        steps = generate_tokens(model, [begun], new_tokens=NEW, how=Sampling(seed=0), end=t.eos,
                                banned=text_marks(t).banned)
        said = [step[0] for step in steps if step[0] is not None]
        stream = t.stream(after=prompt)
        text = "".join(stream.push(id) for id in said) + stream.flush()
        return {"prompt": t.decode(prompt), "text": text, "reference": t.decode(whole[len(prompt):][:NEW]),
                "map": small_map(pieces, pieces, *read_of_itself(model, torch.tensor([read], device=model.device)))}

    return write


def fills(model: MaskedModel, corpus: Any, _: int | None) -> Callable[[], Sample]:
    """The first held-out text with every fifth token hidden, each told by itself."""
    t = corpus.tokenizer
    whole = first_text(corpus)[:min(HIDDEN_OF, model.context or HIDDEN_OF)]
    hidden = [at for at in range(min(2, len(whole) - 1), len(whole), HIDDEN_EVERY) if whole[at] >= FIRST]
    row = torch.tensor([[model.mask if at in hidden else id for at, id in enumerate(whole)]], device=model.device)

    def marked(tokens: Sequence[int], around: str) -> str:
        pieces = written(t, tokens)
        for at in hidden:
            inner = pieces[at].strip(" ")
            pieces[at] = pieces[at].replace(inner, around.format(inner), 1) if inner else around.format(inner)
        return "".join(pieces)

    def write() -> Sample:
        said = list(whole)
        if hidden:
            found = of_text(model, model.predict(row, torch.tensor([hidden], device=model.device)))[0].argmax(-1)
            for at, id in zip(hidden, found.tolist(), strict=True):
                said[at] = id
        names = [f"[{piece}]" if at in hidden else piece for at, piece in enumerate(written(t, said))]
        with watch() as seen:
            model.encode(row)
        return {"prompt": marked(whole, "___"), "text": marked(said, "[{}]"), "reference": t.decode(whole),
                "map": small_map(names, names, *last_of(seen.readings, len(whole)))}

    return write


def first_text(corpus: Any) -> list[int]:
    """The first held-out document that says something, without its end."""
    ends = [int(end) for end in corpus.valid.ends[:LOOKED_AT]]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    first, last = next(((a, b) for a, b in spans if b - a > 3), (0, len(corpus.valid.tokens)))
    ids = [int(id) for id in corpus.valid.tokens[first:min(last, first + PROMPT + NEW + MOST)]]
    return [id for id in ids if id != corpus.tokenizer.eos] or [corpus.tokenizer.eos]


# ------------------------------------------------------------------------------------------------ pairs


def translates(model: Any, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """A held-out source of middling length, translated word after likeliest word."""
    t, side = corpus.tokenizer, Side(corpus.source_valid)
    assert context is not None
    number = middling(side.lengths[:LOOKED_AT], min(MOST, context))
    pair = corpus.held_out(number + 1)[number]
    source = side.data[side.starts[number]:side.starts[number] + side.lengths[number]].astype(np.int64).tolist()
    marks = pair_marks(t, model)
    columns, right = written(t.source, source), target_of(corpus, number, context)
    rows = written(t.target, right)

    def write() -> Sample:
        if len(source) > context:
            return {"prompt": pair.source, "text": "", "reference": pair.target, "map": None}
        found = translate_tokens(model, [source], marks=marks, context=context, how=Beam(width=1))[0]
        ((best,),) = spell(model, t, [pair.source], [source], [found])
        items, lengths = padded([source], model.device)
        weights = read_of_given(model, Source(items, lengths), t.bos, right)
        return {"prompt": pair.source, "text": "".join(best), "reference": pair.target,
                "map": small_map(rows, columns, weights)}

    return write


def middling(lengths: NDArray[np.int64], most: int) -> int:
    """The first sentence of six tokens to `most`; where there is none, the shortest."""
    fit = np.flatnonzero((lengths >= 6) & (lengths <= most))
    return int(fit[0]) if len(fit) else int(lengths.argmin())


def target_of(corpus: Any, number: int, context: int) -> list[int]:
    """The ids of a held-out target, its end included; of one too long, what fits."""
    side = Side(corpus.valid)
    ids = side.data[side.starts[number]:side.starts[number] + side.lengths[number]].astype(np.int64).tolist()
    return ids[:min(MOST, context)]


def captions(model: Any, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """The first held-out picture, captioned word after likeliest word."""
    assert context is not None
    t: Tokenizer = corpus.tokenizer
    image = np.asarray(corpus.source_valid.images[int(corpus.source_valid.rows[0])])
    marks = text_marks(t)
    picture, right = base64.b64encode(png(image)).decode(), target_of(corpus, 0, context)

    def write() -> Sample:
        found = caption_tokens(model, image[None], marks=marks, context=context, how=Beam(width=1))[0][0]
        weights = read_of_given(model, Source(pixels_of(image[None], model.device)), t.bos, right)
        grid = None
        if weights is not None:
            weights, grid = coarser(weights)
        columns = [] if grid is None else [f"patch {at + 1}" for at in range(grid[0] * grid[1])]
        shown = small_map(written(t, right), columns, weights)
        return {"prompt": "", "picture": picture, "text": t.decode(found.tokens), "reference": corpus.captions[0],
                "map": None if shown is None else shown | {"grid": grid}}

    return write


def coarser(weights: Weights) -> tuple[Weights, list[int]]:
    """(R, patches) added up to at most GRID patches along a side, and how many there are now."""
    side = round(weights.shape[1] ** 0.5)
    block = -(-side // GRID)
    square = weights.reshape(len(weights), side, side)
    starts = np.arange(0, side, block)
    square = np.add.reduceat(np.add.reduceat(square, starts, 1), starts, 2)
    return square.reshape(len(weights), -1), [len(starts), len(starts)]


# ------------------------------------------------------------------------------------------------- maps


def read_of_itself(model: LanguageModel, tokens: Tensor) -> tuple[Weights | None, str]:
    """What the last layer that can be seen reads of the text, and what kind of amount it is."""
    if not isinstance(model, torch.nn.Module):
        return None, ""
    with watch() as seen:
        model.score(tokens, torch.zeros_like(tokens), model.start(len(tokens)))
    return last_of(seen.readings, tokens.shape[1])


def last_of(readings: Sequence[Reading], time: int) -> tuple[Weights | None, str]:
    """(T, T), the mean over the heads of the last reading; of a signed kernel its size, beside the largest."""
    square = [each for each in readings if each.kind in ("weights", "kernel") and each.values.ndim == 4
              and tuple(each.values.shape[-2:]) == (time, time)]
    if not square:
        return None, ""
    values = square[-1].values[0].float().abs().mean(0).cpu().numpy()
    if square[-1].kind == "kernel":
        values = values / max(float(values.max()), 1e-30)
    return values, square[-1].kind


def read_of_given(model: Any, source: Source, bos: int, said: Sequence[int]) -> Weights | None:
    """(T, L): what each token said read of the source, in the last layer that reads it."""
    if not reads_source(model) or not said:
        return None
    tokens = torch.tensor([[bos, *said[:-1]]], device=model.device)
    _, weights = read_of_source(model, source, tokens)[-1]
    return weights[0].float().mean(0).cpu().numpy()


def small_map(
    rows: Sequence[str], columns: Sequence[str], weights: Weights | None, kind: str = "weights"
) -> dict[str, Any] | None:
    """At most 40 x 40 of it, as bytes of the square root of each weight, in base64."""
    if weights is None:
        return None
    cut = weights[:MOST, :MOST]
    shades = np.rint(255 * np.sqrt(np.clip(cut, 0, 1))).astype(np.uint8)
    return {"kind": kind, "rows": list(rows[:MOST]), "columns": list(columns[:MOST]), "shape": list(shades.shape),
            "shades": base64.b64encode(shades.tobytes()).decode()}


KINDS: dict[str, Callable[[Any, Any, int | None], Callable[[], Sample]]] = {
    "lm": goes_on, "masked": fills, "translate": translates, "summarise": translates, "caption": captions}
