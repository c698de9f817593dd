"""A look at a translator or a summariser: what each token of the target read of the source, and of those before it.

The target is the model's own, found by beam search, or one that is given; either way it is read in one go.
L source tokens, <eos> the last · R rows: <bos> and the target's tokens · N layers · H heads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.contract import Source
from regard.data.tokens.vocabulary import UNK
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import text_batches
from regard.errors import DataError
from regard.look.influence import WAYS, evaluating, influence_rows, with_blanks
from regard.look.influence_tracks import influence_tracks, source_by_gradient, source_by_occlusion
from regard.look.look import Look, LookSide, Prediction, Request, Token
from regard.look.predictions import GUESS, make_predictions
from regard.look.reading_tracks import ABOUT, find_readings, group_tracks, number_layers
from regard.look.side_tokens import move_tokens, read_tokens, special_token, text_side, written_tokens
from regard.look.track import Track
from regard.models.distributions import by_head
from regard.models.neural import NeuralLM
from regard.tasks.translate.trained import TrainedTranslator
from regard.watching import Reading, Recorder, watch


def build(trained: TrainedTranslator, request: Request) -> Look:
    """The look at a source and its target."""
    if request.source is None:
        raise DataError("a translator reads a source: give one")
    if not request.source.strip():
        raise DataError("there is nothing to read: the source is blank")
    model = trained.model
    notes: list[str] = []
    source, cut = source_tokens(trained, request.source, notes)
    target = target_of(trained, request, [token.id for token in source], cut, notes)
    pair = WatchedPair(model, Source(torch.tensor([[token.id for token in source]], device=model.device)),
                torch.tensor([trained.tokenizer.bos, *(token.id for token in target.tokens)], device=model.device))
    t = trained.tokenizer
    seen, predictions = pair.run_and_say(target.following, t.target, trained.special_tokens.banned)
    read = [special_token(t.target, t.bos), *target.tokens]
    titles = trained.titles
    sides = {"source": text_side("source", titles[0], request.source, source),
             "target": text_side("target", titles[1], target.text, read)}
    if model.one_text:
        sides["text"] = both_sides(sides["source"], sides["target"])
    tracks = [*read_tracks(pair, seen), *influences(pair, predictions)]
    return Look(request, trained.family, trained.task.name, sides, "target", predictions, tuple(tracks), tuple(notes),
                watched=pair.watched)


# --------------------------------------------------------------------------------------------- both texts


def source_tokens(trained: TrainedTranslator, text: str, notes: list[str]) -> tuple[list[Token], str]:
    """The tokens of a source, as many as the model reads, with their end; and the text that these stand for."""
    t = trained.tokenizer
    ids = t.source.encode(text).tolist()
    tokens = read_tokens(t.source, text, ids)
    if len(tokens) + 1 > trained.context:
        notes.append(f"the source has {len(tokens) + 1:,} tokens with its end, and the model reads at most "
                     f"{trained.context:,}: the rest is not read")
        size = trained.context - 1
        while size > 1 and tokens[size].start < tokens[size - 1].end:        # no character is read by half
            size -= 1
        tokens = tokens[:size]
    cut = text[:tokens[-1].end] if len(tokens) < len(ids) else text
    return [*tokens, special_token(t.source, t.eos)], cut


@dataclass(frozen=True)
class Target:
    """The target, without <bos> and <eos>, and the id of the token that follows it."""

    text: str
    tokens: list[Token]
    after: int

    @property
    def following(self) -> list[int]:
        """The ids that follow <bos> and each token."""
        return [*(token.id for token in self.tokens), self.after]


def target_of(
    trained: TrainedTranslator, request: Request, source: list[int], cut: str, notes: list[str]
) -> Target:
    t, room = trained.tokenizer, target_room(trained, len(source))
    if request.target is not None:
        return given_target(t.target, request.target, room, notes)
    options = BeamOptions(request.beam, request.length_penalty)
    batches = text_batches(trained.model, [source], trained.context, options.width)
    (found,) = search_batches(trained.model, batches, trained.special_tokens, options)
    pieces = trained.spell_sentences([cut], [source], [found[:1]])[0].pieces[0]
    return own_target(t.target, found[0].tokens, pieces, found[0].finished, room, notes)


def given_target(tokenizer: Any, text: str, room: int, notes: list[str]) -> Target:
    """A target that is given; of one that is too long, as much as the model reads."""
    ids = tokenizer.encode(text).tolist()
    tokens = read_tokens(tokenizer, text, ids)
    if len(tokens) <= room:
        return Target(text, tokens, tokenizer.eos)
    notes.append(f"the target has {len(tokens):,} tokens, and the model reads at most {room:,}: the first are read")
    return Target(text, tokens[:room], ids[room])


def own_target(
    tokenizer: Any, ids: Sequence[int], pieces: Sequence[str], finished: bool, room: int, notes: list[str]
) -> Target:
    """The target that the model wrote itself."""
    if not finished:
        notes.append("what the model writes came to no end before the limit, and is shown as far as it went")
    after = tokenizer.eos if finished else ids[room] if len(ids) > room else GUESS
    return Target("".join(pieces), written_tokens(tokenizer, ids, pieces)[:room], after)


def target_room(trained: TrainedTranslator, source: int) -> int:
    """Tokens that can be read after <bos>."""
    room = trained.context
    if trained.model.one_text and trained.model.context is not None:
        room = min(room, trained.model.context - source)
    return max(1, room) - 1


def both_sides(source: LookSide, target: LookSide) -> LookSide:
    """Source and target as the one text that a prefix model reads; words are counted on."""
    first = 1 + max((token.word for token in source.tokens), default=-1)
    return text_side("text", f"{source.title} and {target.title}", f"{source.text}\n{target.text}",
                     [*source.tokens, *move_tokens(target.tokens, len(source.text) + 1, first)])


# ------------------------------------------------------------------------------------------------ the run


@dataclass
class WatchedPair:
    """A model, its source and the tokens of the target that it reads, <bos> first."""

    model: NeuralLM
    source: Source                           # one
    tokens: Tensor                           # (R,)

    @property
    def length(self) -> int:
        """Positions of the source."""
        return self.source.items.shape[1]

    @torch.no_grad()
    def run(self, closely: bool = False) -> tuple[Tensor, Recorder]:
        """The one watched run, encoder and all: vectors (R, D), and the readings."""
        with evaluating(self.model), watch(closely) as seen:
            state = self.model.start(1, None, self.source)
            return self.model.encode(self.tokens[None], state)[0][0], seen

    def watched(self, closely: bool = False) -> Recorder:
        return self.run(closely)[1]

    def run_and_say(
        self, following: Sequence[int], tokenizer: Any, banned: Sequence[int]
    ) -> tuple[Recorder, tuple[Prediction, ...]]:
        vectors, seen = self.run()
        with torch.no_grad(), evaluating(self.model):
            return seen, make_predictions(by_head(self.model.head, vectors), following, tokenizer, banned)


# --------------------------------------------------------------------------------------------- the tracks


def read_tracks(pair: WatchedPair, seen: Recorder) -> list[Track]:
    if pair.model.one_text:
        return prefix_tracks(seen, pair.length)
    return decoder_tracks(seen, "source", "cross")


def decoder_tracks(seen: Recorder, columns: str, name: str) -> list[Track]:
    """Attention to the source first, then that of the target to itself, then that of the encoder."""
    of_itself: dict[str, Any] = dict(rows="target", columns="target", causal=True)
    return [
        *find_tracks(name, seen, lambda r: r.kind == "weights" and r.reads == "source", rows="target", columns=columns,
                     row_label="writes"),
        *find_tracks("self", seen, lambda r: r.kind == "weights" and r.reads not in ("source", "encoder"), **of_itself),
        *find_tracks("kernel", seen, lambda r: r.kind == "kernel", **of_itself),
        *find_tracks("encoder", seen, lambda r: r.kind == "weights" and r.reads == "encoder", rows=columns,
                     columns=columns)]


def find_tracks(name: str, seen: Recorder, wanted: Callable[[Reading], bool], **about: Any) -> list[Track]:
    own = find_readings(seen.readings, wanted)
    return group_tracks(name, own, number_layers(len(own)), **about)


def prefix_tracks(seen: Recorder, length: int) -> list[Track]:
    """One stack reads both: all of its attention, and before it the part that falls from the target on the source."""
    whole: dict[str, Any] = dict(rows="text", columns="text", causal=True)
    found = [*find_tracks("self", seen, lambda r: r.kind == "weights", **whole),
             *find_tracks("kernel", seen, lambda r: r.kind == "kernel", **whole)]
    return [*(on_the_source(each, length) for each in found if each.kind == "weights"), *found]


def on_the_source(whole: Track, length: int) -> Track:
    """The rows of the target and the columns of the source; `offset` is where the target begins in the run."""
    values = whole.values[:, :, length:, :length]
    return Track(
        name=whole.name.replace("self", "cross"), kind="weights",
        badge="weights on the source, rows sum to less than 1",
        about=ABOUT["cross"] + " The rest was read of the target before it.",
        rows="target", columns="source", row_label="writes", shape=values.shape, held=values,
        layer_names=whole.layer_names, head_names=whole.head_names, places=whole.places, details={"offset": length})


# ---------------------------------------------------------------------------------------------- influence


def influences(pair: WatchedPair, told: Sequence[Prediction]) -> list[Track]:
    """On the source, and on the target before each token."""
    model, tokens, length = pair.model, pair.tokens, pair.length
    targets = torch.tensor([each.id for each in told], device=model.device)
    prefix = model.one_text
    reads: Any = model if prefix else model.encoder
    embedding = reads.embedding

    def hidden(places: Sequence[int]) -> Tensor:
        return with_blanks(pair.source.items[0], places, UNK)

    def of_source(how: str, rows: list[int]) -> Tensor:
        if how == "occlusion":
            return source_by_occlusion(model, pair.source, hidden, length, tokens, targets, rows)
        return source_by_gradient(model, embedding, pair.source, tokens, targets, rows, how == "sensitivity",
                                  slice(0, length))

    def of_target(how: str, rows: list[int]) -> Tensor:
        if prefix and how != "occlusion":
            return source_by_gradient(model, embedding, pair.source, tokens, targets, rows, how == "sensitivity",
                                      slice(length, None))
        return influence_rows(model, tokens, targets, how, rows, pair.source)

    return [*influence_tracks(model, WAYS, of_source, of="target", on="source", shape=(len(tokens), length),
                              causal=False, what="source token", prefix="source"),
            *influence_tracks(model, WAYS, of_target, of="target", on="target", shape=(len(tokens), len(tokens)),
                              causal=True, what="target token")]
