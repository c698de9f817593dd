"""Worked examples: the loss, one step of an RNN, queries, keys and values, and recurrent networks set by hand.

All by our own layers with weights that were put in by hand, in float64.   d_c width of a word · d_h width of the state
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.text_batches import Batch as TrainingBatch
from regard.lab.tiny import Exercise, loss_of
from regard.lab.worked import Example, ExampleLine, line
from regard.lab.worked_attention import tensor, whole
from regard.layers.linear_recurrence import MatrixRecurrence
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Stack
from regard.models.neural import NeuralLM
from regard.training.step import ForwardBackward

F = Fraction


# ------------------------------------------------------------------------------------------------ the loss

WORDS = ("<pad>", "<bos>", "<eos>", "<unk>", "students", "opened", "their", "books", "people", "walked", "dogs", "the",
         "classroom", "fell", "silent")
SENTENCES = ("students opened their books", "people walked their dogs", "the classroom fell silent")


def ids(sentence: str) -> list[int]:
    return [WORDS.index(word) for word in f"<bos> {sentence} <eos>".split()]


def bigram_model(chances: dict[tuple[str, str], Fraction]) -> NeuralLM:
    """A network that says P(next | last word) as it is told to: one-hot words, log-probabilities as output weights.

    What is left to 1 after each word goes to <unk>.
    """
    size = len(WORDS)
    for last in {last for last, _ in chances}:
        if left := F(1) - sum((chance for (word, _), chance in chances.items() if word == last), F(0)):
            chances = chances | {(last, "<unk>"): left}
    layer = MatrixRecurrence(size, size)
    model = NeuralLM(Stack([layer]), vocab=size, tied=False).double()
    told = torch.full((size, size), -1e4, dtype=torch.float64)
    for (last, following), chance in chances.items():
        told[WORDS.index(following), WORDS.index(last)] = math.log(chance)
    with torch.no_grad():
        for weight, value in ((model.embedding.weight, torch.eye(size)), (layer.w_c, torch.eye(size)),
                              (layer.w_h, torch.zeros(size, size)), (model.head.weight, told)):
            weight.copy_(value)
    return model


def batch_of(sentences: list[str]) -> tuple[Exercise, list[int]]:
    """Sentences as rows with <bos> and <eos>; shorter ones are padded, and pads do not count."""
    rows = [ids(sentence) for sentence in sentences]
    longest = max(map(len, rows))
    held = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    real = torch.tensor([len(row) - 1 for row in rows])
    return Exercise(held[:, :-1], held[:, 1:], torch.arange(longest - 1) < real[:, None], lengths=real), real.tolist()


def training_loss(model: NeuralLM, batch: Exercise) -> Tensor:
    """Return what a training run minimises: what its own step adds up, over the number of real tokens."""
    piece = TrainingBatch(batch.tokens, batch.targets, batch.lengths)
    total, _ = ForwardBackward(model, bfloat16=False)(piece, None, 1.0)      # a share in float32 would cost us digits
    return total / piece.real


def the_loss() -> list[ExampleLine]:
    """L = (L_1 + L_2 + L_3) / 3: the average negative log-likelihood over all tokens of a batch; a pad is no token."""
    halves = {("students", "opened"): F(1, 2), ("opened", "their"): F(1, 4), ("their", "books"): F(1, 8)}
    read, due = (torch.tensor([ids(words)[1:-1]]) for words in ("students opened their", "opened their books"))
    three = Exercise(read, due, torch.ones(1, 3, dtype=torch.bool), lengths=torch.tensor([3]))
    scores, _ = bigram_model(halves).score(three.tokens, three.targets)
    bits = [1, 2, 3]                                            # L_1, L_2 and L_3 in units of ln 2
    counted = {("<bos>", "students"): F(1, 3), ("<bos>", "people"): F(1, 3), ("<bos>", "the"): F(1, 3),
               ("their", "books"): F(1, 2), ("their", "dogs"): F(1, 2)}
    counted |= {pair: F(1) for sentence in SENTENCES
                for pair in zip(["<bos>", *sentence.split()], [*sentence.split(), "<eos>"], strict=True)
                if pair not in counted}
    even, _ = batch_of(list(SENTENCES))
    uneven, real = batch_of([SENTENCES[0], "the classroom", SENTENCES[1]])
    shorter = bigram_model(counted | {("classroom", "<eos>"): F(1, 2), ("classroom", "fell"): F(1, 2)})
    of_even = (3 * math.log(3) + 2 * math.log(2)) / 15
    of_uneven = (3 * math.log(3) + 3 * math.log(2)) / 13
    return [
        line("L_1, L_2, L_3 in units of ln 2", "NeuralLM.score", -scores / math.log(2), bits),
        line("L = (L_1 + L_2 + L_3) / 3, in units of ln 2", "loss_of",
             loss_of(bigram_model(halves), three) / math.log(2), F(2)),
        line("three sentences, 5 tokens each: (3 ln 3 + 2 ln 2) / 15", "loss_of",
             loss_of(bigram_model(counted), even), of_even),
        line("tokens that count, one sentence shorter", "batch", real, [5, 3, 5]),
        line("with pads: (3 ln 3 + 3 ln 2) / 13", "loss_of", loss_of(shorter, uneven), of_uneven),
        line("the same by a training run's own pass", "training.Pass", training_loss(shorter, uneven), of_uneven),
    ]


# ------------------------------------------------------------------------------------------------ one step

W_H = whole([["1/2", -1], [1, "1/4"]])                          # d_h x d_h
W_C = whole([[1, 0, -1], ["1/2", 2, 0]])                        # d_h x d_c
C = whole([[1, "1/2", -1], [-2, 1, 1]])                         # two words


def set_by_hand(f: str, w_h: object, w_c: object) -> Elman:
    of_h, of_c = tensor(w_h), tensor(w_c)
    layer = Elman(of_c.shape[1], len(of_h), f=f).double()
    with torch.no_grad():
        layer.w_h.copy_(of_h)
        layer.w_c.copy_(of_c)
        for bias in (layer.b_h, layer.b_c):
            bias.zero_()
    return layer


def rnn_step() -> list[ExampleLine]:
    """h_t = f(W_h h_{t-1} + W_c c_t) with d_h = 2 and d_c = 3, for f = tanh and f = ReLU, from h_0 = 0."""
    h_1 = W_C @ C[0]
    first = np.maximum(h_1, 0)
    h_2 = W_H @ first + W_C @ C[1]
    relu, _ = set_by_hand("relu", W_H, W_C)(tensor(C)[None])
    smooth_1 = np.tanh(h_1.astype(float))
    smooth_2 = np.tanh((W_H @ smooth_1 + W_C @ C[1]).astype(float))
    layer = set_by_hand("tanh", W_H, W_C)
    smooth, _ = layer(tensor(C)[None])
    by_definition, _ = layer.by_definition(tensor(C)[None], layer.first(1))
    return [
        line("W_c c_1, as h_0 = 0", "fractions", h_1, [F(2), F(3, 2)]),
        line("h_1 with ReLU", "Elman", relu[0, 0], first),
        line("W_h h_1 + W_c c_2", "fractions", h_2, [F(-7, 2), F(27, 8)]),
        line("h_2 with ReLU", "Elman", relu[0, 1], np.maximum(h_2, 0)),
        line("h_1, h_2 with tanh", "Elman", smooth[0], np.stack([smooth_1, smooth_2])),
        line("the same a step at a time", "Elman.by_definition", by_definition[0], smooth[0]),
    ]


# --------------------------------------------------------------------------------- queries, keys and values


def queries_keys_values() -> list[ExampleLine]:
    """q = f(W_q c), k = f(W_k c), v = f(W_v c), with f = tanh, with f = ReLU, and without f."""
    w = whole([[1, -1], [2, 0], [0, 3], [-1, 1], [1, 1], [-2, 1]])         # W_q, W_k and W_v, one above another
    c = np.array([F(1, 2), F(-1)])
    inner = w @ c

    def of(f: str) -> Tensor:
        layer = SelfAttention(2, heads=1, positions="none", f=f).double()
        with torch.no_grad():
            layer.qkv.weight.copy_(tensor(w))
        q, k, v = layer.queries_keys_values(tensor(c)[None, None], torch.zeros(1, dtype=torch.long))
        return torch.cat((q, k, v), -1)

    return [
        line("q, k, v = W c", "SelfAttention", of("none"), inner),
        line("in numbers", "fractions", inner, [F(3, 2), F(1), F(-3), F(-3, 2), F(-1, 2), F(-2)]),
        line("q, k, v = ReLU(W c)", "SelfAttention, f=relu", of("relu"), np.maximum(inner, 0)),
        line("q, k, v = tanh(W c)", "SelfAttention, f=tanh", of("tanh"), np.tanh(inner.astype(float))),
    ]


# ------------------------------------------------------------------------------- recurrent networks set by hand


def adds_words() -> list[ExampleLine]:
    """W_h = W_c = I and f = ReLU: each word is added into the state, h_i = h_{i-1} + w_i."""
    words = [[1, 2], [0, 5], [3, 1]]
    h, _ = set_by_hand("relu", np.eye(2), np.eye(2))(tensor([words]))
    return [line("[1 2], [0 5], [3 1] added up", "Elman", h[0], [[1, 2], [1, 7], [4, 8]])]


def adds_some() -> list[ExampleLine]:
    """Only words of a certain value are added: Bs by their embedding, numbers by a flag that a second unit reads.

    A word (value, flag) goes through g = ReLU(value - 100 (1 - flag)), which is 0 without the flag; the state adds g a
    step later, since both are one layer: h_i = h_{i-1} + g_{i-1}.
    """
    letters = {"A": [1, 0], "B": [0, 1]}
    only_b, _ = set_by_hand("relu", [[1]], [[0, 1]])(tensor([[letters[x] for x in "AABAB"]]))
    words = [[7, 1, 1], [5, 0, 1], [2, 1, 1], [0, 0, 1]]        # value, flag, and a one for the bias
    gated, _ = set_by_hand("relu", [[1, 1], [0, 0]], [[0, 0, 0], [1, 100, -100]])(tensor([words]))
    return [
        line("A A B A B: the Bs so far", "Elman", only_b[0], [0, 0, 1, 1, 2]),
        line("7, (5), 2, of which (5) is not to be added: h", "Elman", gated[0, :, 0], [0, 7, 7, 9]),
        line("what the second unit lets through", "Elman", gated[0, :, 1], [7, 0, 2, 0]),
    ]


EXAMPLES = (
    Example("loss", "The loss: the average over all tokens of a batch", "lectures 000 and 004", the_loss),
    Example("rnn-step", "One step of an RNN, d_h different from d_c", "lecture 004", rnn_step),
    Example("qkv", "Queries, keys and values, with and without f", "lectures 000 and 004", queries_keys_values),
    Example("adds-words", "An RNN set by hand that adds each word into its state", "lecture 001", adds_words),
    Example("adds-some", "An RNN set by hand that adds only words of a certain value", "lecture 001", adds_some),
)
