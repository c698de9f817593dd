"""Exercise 5. The loss of a language model: the average negative log-likelihood of the true next word.

A row of `tokens` is <bos> w1 ... wn <eos> and then pads. `logits[b, t]` are the scores, before the softmax, of
the word that follows `tokens[b, t]`. So w1 ... wn and <eos> are predicted, and <bos> is not.

    L = - (sum over all predicted words of log P(word | the words before it)) / (number of predicted words)

The average is over all words of the batch: each word counts the same, whatever the length of its row. Pads
count nothing.
B batch · T time · V vocabulary
"""

from __future__ import annotations

from torch import Tensor


def language_model_loss(logits: Tensor, tokens: Tensor, pad: int) -> Tensor:
    """Return the loss, one number, in nats a word.   (B, T, V), (B, T) -> ()"""
    raise NotImplementedError
