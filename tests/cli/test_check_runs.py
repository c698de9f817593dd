"""`regard check RUN` tries the laws on runs of every task, and finds what is planted in them."""

import json

import pytest
import torch

from regard.contract import Memory
from regard.laws.answer_laws import ANSWER_LAWS
from regard.laws.encoder_laws import ENCODER_LAWS
from regard.laws.model_laws import MODEL_LAWS
from regard.laws.whole_laws import WHOLE_LAWS
from regard.layers.full_attention import FullAttention
from regard.models.head import Head
from regard.models.masked import MaskedModel
from regard.models.seq2seq import Prefix, Seq2Seq
from regard.models.vision import PatchEncoder
from tests.fixtures.runs import HERE

ENCODER = [f"encoder: {law}" for law in ENCODER_LAWS]
TRIED = {
    "translate-transformer": [*MODEL_LAWS, *ENCODER], "translate-prefix": list(MODEL_LAWS),
    "summarise-rnn-attention": [*MODEL_LAWS, *ENCODER], "caption-rnn-attention": [*MODEL_LAWS, *ENCODER],
    "masked-transformer": [*ANSWER_LAWS, *ENCODER], "masked-rnn": [*ANSWER_LAWS, *ENCODER],
}


def checked(regard, name):
    """The outcome of each law, by the command."""
    outcome = regard("check", HERE / "runs" / name, "--json")
    assert "Traceback" not in outcome.err
    report = json.loads(outcome.out)
    assert outcome.code == (0 if report["ok"] else 1)
    return {each["law"]: each["outcome"] for each in report["laws"]}


@pytest.mark.parametrize("name", TRIED)
def test_every_law_that_applies_is_tried(regard, name):
    outcomes = checked(regard, name)
    assert list(outcomes) == TRIED[name] and set(outcomes.values()) == {"passed"}


# ------------------------------------------------------------------------------------------- planted bugs


def leaks_targets(self, tokens, targets, state=None, lengths=None):
    scores, state = HONEST[type(self)](self, tokens, targets, state, lengths)
    return scores + 1e-3 * targets.cumsum(1), state


def scores_next_place(self, tokens, targets, state=None, lengths=None):
    return HONEST[MaskedModel](self, tokens.roll(1, 1), targets, state, lengths)


def forgets_lengths(self, tokens, lengths=None):
    return HONEST_ENCODE(self, tokens, None)


def reads_pads(self, x, state=None, lengths=None):
    return HONEST_ATTENTION(self, x, state, None)


def numbers_pictures(self, source):
    memory = HONEST_PICTURES(self, source)
    return Memory(memory.vectors + 0.01 * torch.arange(len(memory.vectors))[:, None, None], memory.lengths,
                  memory.summary)


def gives_logits(self, h):
    return HONEST_HEAD(self, h) + 1.0


def scores_everything(self, tokens, targets, state=None, lengths=None):
    scores, state = HONEST[MaskedModel](self, tokens, targets, state, lengths)
    return scores - 0.5, state


def takes_no_source(self, batch, capacity=None, source=None):
    if source is None:
        raise TypeError("no source")
    return HONEST_START(self, batch, capacity, source)


HONEST = {each: each.score for each in (Seq2Seq, Prefix, MaskedModel)}
HONEST_ENCODE, HONEST_ATTENTION = MaskedModel.encode, FullAttention.forward
HONEST_PICTURES, HONEST_HEAD, HONEST_START = PatchEncoder.forward, Head.forward, Seq2Seq.start


@pytest.mark.parametrize(("name", "law", "where", "attribute", "bug"), [
    ("translate-transformer", "targets", Seq2Seq, "score", leaks_targets),
    ("translate-transformer", "padding", FullAttention, "forward", reads_pads),
    ("translate-transformer", "encoder: padding", FullAttention, "forward", reads_pads),
    ("translate-transformer", "source", Seq2Seq, "start", takes_no_source),
    ("translate-prefix", "targets", Prefix, "score", leaks_targets),
    ("summarise-rnn-attention", "probabilities", Head, "forward", gives_logits),
    ("caption-rnn-attention", "targets", Seq2Seq, "score", leaks_targets),
    ("caption-rnn-attention", "encoder: order", PatchEncoder, "forward", numbers_pictures),
    ("masked-transformer", "shapes", MaskedModel, "score", scores_everything),
    ("masked-transformer", "probabilities", Head, "forward", gives_logits),
    ("masked-transformer", "targets", MaskedModel, "score", scores_next_place),
    ("masked-transformer", "targets", MaskedModel, "score", leaks_targets),
    ("masked-transformer", "padding", MaskedModel, "encode", forgets_lengths),
    ("masked-transformer", "encoder: padding", FullAttention, "forward", reads_pads),
])
def test_what_is_planted_in_a_run_is_found(regard, monkeypatch, name, law, where, attribute, bug):
    only(monkeypatch, law)
    assert checked(regard, name)[law] == "passed"
    monkeypatch.setattr(where, attribute, bug)
    assert checked(regard, name)[law] == "failed"


def only(monkeypatch, law):
    """Try this law alone, which is quicker."""
    import regard.tasks.laws as trained_laws
    from regard.laws import answer_laws, check, encoder_laws

    kind, own = ("encoder", law.removeprefix("encoder: ")) if law.startswith("encoder: ") else ("model", law)
    for module, name, laws in ((check, "MODEL_LAWS", MODEL_LAWS), (answer_laws, "ANSWER_LAWS", ANSWER_LAWS)):
        monkeypatch.setattr(module, name, {own: laws[own]} if kind == "model" and own in laws else {})
    for module in (encoder_laws, trained_laws):
        monkeypatch.setattr(module, "ENCODER_LAWS", {own: ENCODER_LAWS[own]} if kind == "encoder" else {})


def test_every_law_of_answers_has_a_bug_planted_in_a_masked_model():
    """The others are planted in label models (tests/laws/test_label_laws.py)."""
    found = {mark.args[1][at][1] for mark in test_what_is_planted_in_a_run_is_found.pytestmark
             for at in range(len(mark.args[1])) if mark.args[1][at][0] == "masked-transformer"}
    assert set(ANSWER_LAWS) - {"saved tensors", *(law.name for law in WHOLE_LAWS)} <= found


def test_the_verdict_names_the_encoder_and_what_is_wrong(regard, monkeypatch):
    monkeypatch.setattr(FullAttention, "forward", reads_pads)
    said = regard("check", HERE / "runs" / "masked-transformer")
    assert said.code == 1 and said.out.startswith("MaskedModel with TransformerEncoder: ")
    assert "✗ encoder: padding" in said.out and "usual cause: attention reads the pads" in said.out
