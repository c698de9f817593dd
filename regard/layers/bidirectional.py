"""Reading in both directions: one layer reads from the left, another from the right, and both are heard.

Schuster and Paliwal 1997.   B batch · T time · D width

Each row is turned round within its own length, so that its pads stay at the right, where they change nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contract import SequenceLayer, last_real
from regard.layers.whole import WholeLayer


class Bidirectional(WholeLayer):
    """y[t] = (left[t], right[t]): what the one knows of x[1..t] beside what the other knows of x[t..T]."""

    def __init__(self, left: SequenceLayer, right: SequenceLayer):
        super().__init__()
        assert left.d_in == right.d_in, "both read the same sequence"
        self.left, self.right = left, right
        self.d_in, self.d_out = left.d_in, left.d_out + right.d_out

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        forward, _ = self.left(x, None, lengths)
        backward, _ = self.right(turned(x, lengths), None, lengths)
        return torch.cat((forward, turned(backward, lengths)), -1), None              # (B, T, d_out)

    def ends(self, y: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, d_out): what each of the two says when it has read everything; zeros for an empty row."""
        forward, backward = y.split((self.left.d_out, self.right.d_out), -1)
        both = torch.cat((last_real(forward, lengths), backward[:, 0]), -1)
        return both if lengths is None else torch.where((lengths > 0)[:, None], both, 0.0)


def turned(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Each row of (B, T, D) from its last real position to its first; pads stay where they are."""
    if lengths is None:
        return x.flip(1)
    at = torch.arange(x.shape[1], device=x.device)
    order = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)         # (B, T)
    return x.gather(1, order[..., None].expand_as(x))
