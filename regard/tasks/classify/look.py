"""A look at a classifier: what each token says for and against each label, and what the encoder reads.

    evidence[l, t] = W[l] h[t] / T, less its mean over the labels

A row is a label, likeliest first. Where the head reads the mean of the vectors, the evidence of a row adds up to what
goes into the softmax; a network between the two leaves no such share for each token, and influence says it then.
T tokens · L labels
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import DataError
from regard.look.influence import evaluating
from regard.look.look import Look, Prediction, Request, Token
from regard.look.side_tokens import read_tokens, special_token, text_side, word_side
from regard.look.track import Track
from regard.models.label_models import TextLabelModel
from regard.tasks.classify.trained import TrainedClassifier
from regard.tasks.encoder_look import find_room, keep_first, label_influences, make_look

MOST_LABELS = 40                     # rows: the likeliest labels
GAP = "   "                          # between labels, where they stand as a text


def build(trained: TrainedClassifier, request: Request) -> Look:
    """Return the look at a text."""
    if not request.text:
        raise DataError("a classifier reads a text: give one")
    model, notes = trained.model, list[str]()
    tokens = text_tokens(trained, request.text, notes)
    ids = torch.tensor([token.id for token in tokens], device=model.device)

    labels = rank_labels(trained, ids)
    if len(labels) < len(trained.labels):
        notes.append(f"the {len(labels)} likeliest of {len(trained.labels):,} labels are shown")
    sides = {"text": text_side("text", "text", request.text, tokens),
             "label": word_side("label", "labels, likeliest first", [(each.id, each.piece) for each in labels], GAP)}
    return make_look(trained, request, ids, sides, labels, notes,
                     before=[*evidence_tracks(model, ids, labels), *influences(model, ids, labels)])


def text_tokens(trained: TrainedClassifier, text: str, notes: list[str]) -> list[Token]:
    """Return the tokens that are read, <eos> among them; of a long text the first."""
    t = trained.tokenizer.text
    tokens = [*read_tokens(t, text, t.encode(text).tolist()), special_token(t, t.eos)]
    return keep_first(tokens, min(trained.context, find_room(trained.model, trained.context)), notes)


def rank_labels(trained: TrainedClassifier, ids: Tensor) -> tuple[Prediction, ...]:
    """Return the labels as predictions, likeliest first."""
    log_probs = trained.log_probabilities([ids.tolist()])[0]
    best = log_probs.topk(min(MOST_LABELS, len(log_probs)))
    return tuple(
        Prediction(id, trained.labels[id], -value / math.log(2) + 0.0, math.exp(value), rank, guess=rank == 1)
        for rank, (value, id) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True), 1))


# ---------------------------------------------------------------------------------------------- evidence


def evidence_tracks(model: TextLabelModel, ids: Tensor, labels: tuple[Prediction, ...]) -> list[Track]:
    """Return what each position's vector adds to each label; nothing where a network reads their mean."""
    if model.readout is not None:
        return []
    with torch.no_grad(), evaluating(model):
        shares = model.encode(ids[None]).vectors[0].float() @ model.head.weight.float().T / len(ids)      # (T, L)
    shares = (shares - shares.mean(-1, keepdim=True)).T[[each.id for each in labels]]
    return [Track(
        "evidence", "influence", "evidence (what a position adds to a label), signed",
        "What the vector of each position adds to the score of the row's label, beside its mean over all labels: above "
        "zero it speaks for the label, below against it. The scores of a row add up to what the softmax reads.",
        rows="label", columns="text", shape=(1, 1, *shares.shape), row_label="writes", signed=True,
        layer_names=("the last layer",), head_names=("evidence",), held=shares[None, None].cpu().numpy())]


def influences(model: TextLabelModel, ids: Tensor, labels: tuple[Prediction, ...]) -> list[Track]:
    """Return the influence of every token on each label."""
    targets = torch.tensor([each.id + 1 for each in labels], device=ids.device)
    return label_influences(model, ids, lambda texts, asked: targets[asked][:, None], of="label", rows=len(labels))
