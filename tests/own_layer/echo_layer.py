"""A layer as a user would write one, and some that will not do."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard import SequenceLayer, State


@dataclass
class Last(State):
    x: Tensor


class Echo(SequenceLayer):
    """Each position hears itself and, more softly, the one before."""

    def __init__(self, width):
        super().__init__()
        self.d_in = self.d_out = width
        self.soft = nn.Parameter(torch.full((width,), 0.5))

    def start(self, batch, capacity=None, memory=None):
        return None if capacity is None else Last(self.soft.new_zeros(batch, self.d_in))

    def forward(self, x, state=None, lengths=None):
        first = torch.zeros_like(x[:, :1]) if state is None else state.x[:, None].to(x.dtype)
        heard = torch.cat((first, x), 1)
        y = x + self.soft * heard[:, :-1]
        if state is None:
            return y, None
        after = lengths if lengths is not None else torch.full((len(x),), x.shape[1], device=x.device)
        return y, Last(heard[torch.arange(len(x), device=x.device), after])


class Narrow(Echo):
    def __init__(self, width):
        super().__init__(width)
        self.d_out = width - 1


class Strange(Echo):
    def __init__(self, width, flavour):
        super().__init__(width)


class NotALayer:
    pass
