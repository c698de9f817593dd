"""A look at a classifier: what each token says for and against each label, and what the encoder reads.

    evidence[l, t] = W[l] h[t] / T, less its mean over the labels

A row is a label, likeliest first. Where the head reads the mean of the vectors, the evidence of a row adds up to what
goes into the softmax; a network between the two leaves no such share for each token, and influence says it then.
T tokens · L labels
"""

from __future__ import annotations

import math
from math import isqrt

import torch
from torch import Tensor

from regard.data.tokens.vocabulary import UNK
from regard.errors import DataError
from regard.look.influence import evaluating
from regard.look.influence_tracks import encoder_tracks
from regard.look.look import Look, LookSide, Prediction, Request, Token
from regard.look.reading_tracks import encoder_maps
from regard.look.side_tokens import read_tokens, special_token, text_side
from regard.look.track import Track
from regard.models.label_models import TextLabelModel
from regard.tasks.classify.trained import TrainedClassifier
from regard.tasks.lm.look import MOST_NUMBERS
from regard.watching import Recorder, watch

MOST_LABELS = 40                     # rows: the likeliest labels
GAP = "   "                          # between labels, where they stand as a text


def build(trained: TrainedClassifier, request: Request) -> Look:
    """Return the look at a text."""
    if not request.text:
        raise DataError("a classifier reads a text: give one")
    model, notes = trained.model, list[str]()
    tokens = text_tokens(trained, request.text, notes)
    ids = torch.tensor([token.id for token in tokens], device=model.device)

    def watched(closely: bool = False) -> Recorder:
        with torch.no_grad(), evaluating(model), watch(closely) as seen:
            model.encode(ids[None])
        return seen

    said = rank_labels(trained, ids)
    if len(said) < len(trained.labels):
        notes.append(f"the {len(said)} likeliest of {len(trained.labels):,} labels are shown")
    sides = {"text": text_side("text", "text", request.text, tokens), "label": label_side(said)}
    maps = encoder_maps(watched().readings, model.encoder.stack, len(ids))
    return Look(request, trained.family, trained.task.name, sides, "label", said,
                (*evidence_tracks(model, ids, said), *influences(model, ids, said), *maps), tuple(notes),
                in_place=True, watched=watched)


def text_tokens(trained: TrainedClassifier, text: str, notes: list[str]) -> list[Token]:
    """Return the tokens that are read, <eos> among them; of a long text the first."""
    t = trained.tokenizer.text
    tokens = [*read_tokens(t, text, t.encode(text).tolist()), special_token(t, t.eos)]
    heads = sum(getattr(module, "heads", 0) for module in trained.model.encoder.stack.modules())
    limit = min(trained.context, isqrt(MOST_NUMBERS // heads) if heads else trained.context)
    if len(tokens) > limit:
        notes.append(f"the text has {len(tokens):,} tokens, and {limit:,} are read at once at most: the first are read")
    return tokens[:limit]


def rank_labels(trained: TrainedClassifier, ids: Tensor) -> tuple[Prediction, ...]:
    """Return the labels as predictions, likeliest first."""
    log_probs = trained.log_probabilities([ids.tolist()])[0]
    best = log_probs.topk(min(MOST_LABELS, len(log_probs)))
    return tuple(
        Prediction(id, trained.labels[id], -value / math.log(2) + 0.0, math.exp(value), rank, guess=rank == 1)
        for rank, (value, id) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True), 1))


def label_side(said: tuple[Prediction, ...]) -> LookSide:
    """Return the labels as a text, one after another."""
    tokens, text = [], ""
    for number, each in enumerate(said):
        text += GAP if text else ""
        tokens.append(Token(each.id, each.piece, len(text), len(text) + len(each.piece), word=number))
        text += each.piece
    return text_side("label", "labels, likeliest first", text, tokens)


# ---------------------------------------------------------------------------------------------- evidence


def evidence_tracks(model: TextLabelModel, ids: Tensor, said: tuple[Prediction, ...]) -> list[Track]:
    """Return what each position's vector adds to each label; nothing where a network reads their mean."""
    if model.readout is not None:
        return []
    with torch.no_grad(), evaluating(model):
        shares = model.encode(ids[None]).vectors[0].float() @ model.head.weight.float().T / len(ids)      # (T, L)
    shares = (shares - shares.mean(-1, keepdim=True)).T[[each.id for each in said]]
    return [Track(
        "evidence", "influence", "evidence (what a position adds to a label), signed",
        "What the vector of each position adds to the score of the row's label, beside its mean over all labels: above "
        "zero it speaks for the label, below against it. The scores of a row add up to what the softmax reads.",
        rows="label", columns="text", shape=(1, 1, *shares.shape), row_label="writes", signed=True,
        layer_names=("the last layer",), head_names=("evidence",), held=shares[None, None].cpu().numpy())]


def influences(model: TextLabelModel, ids: Tensor, said: tuple[Prediction, ...]) -> list[Track]:
    """Return the influence of every token on each label."""
    targets = torch.tensor([each.id + 1 for each in said], device=ids.device)

    def score(rows: Tensor, asked: Tensor) -> Tensor:
        """(n,): the log-probability of one label of each row."""
        return model.score(rows, targets[asked][:, None])[0][:, 0]

    def texts(asked: Tensor) -> Tensor:
        return ids.repeat(len(asked), 1)

    return encoder_tracks(model, model.encoder.embedding, texts, score, blank=UNK, of="label",
                          shape=(len(said), len(ids)))
