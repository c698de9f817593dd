"""Label models: an encoder reads a text, and a head gives it a label, or a label to each of its tokens.

    P(label | w) = softmax(W g(mean of h)),  P(label[t] | w) = softmax(W h[t]),  h = encoder(w)

Targets hold a label's id and one, and <pad> wherever nothing is asked. A label model is no LanguageModel: it writes
nothing.   B batch · T time · D width · N answers a row: one, or one a position · L labels
"""

from __future__ import annotations

from torch import Tensor

from regard.contract import SequenceLayer
from regard.errors import RunError
from regard.layers.whole import mean_of_real
from regard.models.encoders import TokenEncoder
from regard.models.head import Head
from regard.models.masked import EncoderModel

ENCODER = "encoder."           # before the names of its tensors


class LabelModel(EncoderModel):
    """An encoder of tokens below `vocab` with a head over `labels`."""

    least_target = 1

    def __init__(self, encoder: TokenEncoder, *, vocab: int, labels: int, d_head: int | None = None,
                 context: int | None = None):
        super().__init__(encoder, Head(d_head or encoder.d_out, labels), vocab=vocab, context=context)
        self.labels = labels

    def predict(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return (B, N, L): log-probabilities of the labels."""
        return self.head(self.vectors(tokens, lengths))

    def load_encoder(self, tensors: dict[str, Tensor]) -> None:
        """Take up the encoder of a masked model; the head stays as it is."""
        own = self.saved_tensors()
        taken = {name: tensors.get(name, tensor) for name, tensor in own.items() if name.startswith(ENCODER)}
        if missing := [name for name in taken if name not in tensors]:
            raise RunError(f"the weights to begin with have no {missing[0]}: begin with a run of the task masked")
        self.load_tensors({**own, **taken})


class TextLabelModel(LabelModel):
    """One label a text: the head reads the mean of the vectors, through a `readout` of its own where there is one."""

    def __init__(self, encoder: TokenEncoder, *, vocab: int, labels: int, readout: SequenceLayer | None = None,
                 context: int | None = None):
        super().__init__(encoder, vocab=vocab, labels=labels, d_head=readout.d_out if readout else None,
                         context=context)
        self.readout = readout

    def vectors(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        mean = mean_of_real(self.encode(tokens, lengths).vectors, lengths)[:, None]            # (B, 1, D)
        return mean if self.readout is None else self.readout(mean)[0]


class TokenLabelModel(LabelModel):
    """One label a token: the head reads each position's own vector."""
