"""A state can be gone back to: `keep` holds it while it is read on from, `cut` forgets the last tokens of each row."""

from dataclasses import dataclass

import pytest
import torch

from regard.contract import CannotCut, State
from regard.laws import LayerReader

from .honest import Decay, DecayState, TranslatorState
from .registered import layer_reader, names

TIME, MORE = 6, 4


class Alone(Exception):
    """A layer without a state."""


def begun(reader):
    """The state after six positions, of each row a different number."""
    state = reader.start(reader.batch, TIME + MORE)
    if state is None:
        raise Alone
    inputs = reader.draw(reader.batch, TIME)
    return reader.read(inputs, state, torch.arange(TIME, TIME - reader.batch, -1, device=inputs.device))[1]


@torch.no_grad()
def check_keep(reader):
    """Reading on, twice, from what was kept gives what it gives at once."""
    state, wrong, right = begun(reader), reader.garbage(reader.batch, MORE), reader.draw(reader.batch, MORE)
    expected, _ = reader.read(right, state.clone())
    for _ in range(2):
        kept = state.keep()
        reader.read(wrong, state)                                          # spends it
        state = kept
    found, _ = reader.read(right, state)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def check_cut(reader):
    """A state that has read too much, in each row another number of tokens, and is cut, goes on as if it had not."""
    state, right = begun(reader), reader.draw(reader.batch, MORE)
    wrong = torch.arange(reader.batch, device=right.device) % (MORE + 1)
    expected, _ = reader.read(right, state.clone())
    _, state = reader.read(reader.garbage(reader.batch, MORE), state, wrong)
    found, _ = reader.read(right, state.cut(wrong))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", names("LAYERS"))
def test_a_state_that_was_kept_is_as_it_was(name):
    try:
        check_keep(layer_reader(name, "float64"))
    except Alone:
        pytest.skip("it has no state")


CAN = {"attention", "rotary-attention", "alibi-attention", "grouped-attention", "nonlinear-attention",
       "wide-value-attention", "location-attention",
       "learned-positions", "sinusoidal-positions", "block", "post-norm-block"}


@pytest.mark.parametrize("name", names("LAYERS"))
def test_a_state_that_can_be_cut_forgets_and_all_others_say_so(name):
    reader = layer_reader(name, "float64")
    try:
        check_cut(reader)
    except (Alone, CannotCut):
        assert name not in CAN
    else:
        assert name in CAN


# ---------------------------------------------------------------------------------------------------- planted bugs


class InPlace(Decay):
    """Writes its state where it stands, as a layer may."""

    shares = False

    def fresh(self, batch):
        return (SharedState if self.shares else DecayState)(**vars(super().fresh(batch)))

    def forward(self, x, state=None, lengths=None):
        y, after = super().forward(x, state, lengths)
        if state is None:
            return y, None
        state.h.copy_(after.h)
        state.count.copy_(after.count)
        return y, state


@dataclass
class SharedState(DecayState):
    def keep(self):
        return SharedState(self.h, self.count)

    def cut(self, tokens):
        return SharedState(self.h, self.count - tokens)                    # as if the count were all there is


def test_states_that_share_what_is_written_over_are_caught():
    torch.manual_seed(0)
    honest, planted = (LayerReader(InPlace().double().eval(), None) for _ in range(2))
    planted.thing.shares = True
    check_keep(honest)
    with pytest.raises(CannotCut, match=r"^DecayState does not know what it was before its last token$"):
        check_cut(honest)
    with pytest.raises(AssertionError):
        check_keep(planted)
    with pytest.raises(AssertionError):
        check_cut(planted)


def test_what_belongs_to_the_source_is_neither_copied_nor_cut():
    keys, lengths = torch.ones(2, 3, 4), torch.tensor([3, 1])

    @dataclass
    class Counted(State):
        count: torch.Tensor

        def cut(self, tokens):
            return Counted(self.count - tokens)

    state = TranslatorState(Counted(torch.tensor([5, 6])), keys, lengths)
    assert state.keep().keys is keys and state.keep().h.count is not state.h.count
    assert state.cut(torch.tensor([1, 2])).h.count.tolist() == [4, 4]
