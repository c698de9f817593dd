"""A pass over several tokens that says what follows each of them: how guesses are checked.

On a GPU the pass is recorded once, as the single step is (see recorded.py), from the tokens read to those chosen, and
replayed. Shapes are static: pads stand behind what there is to read, and rows are set back to what stood within it.
B batch · T time · W guesses and one more · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.contract import CannotCut, State
from regard.decoding.fast.recorded import Steps, weights_at
from regard.decoding.sampling import Sampling, choose, choose_next
from regard.models.neural import NeuralLM


def after_each(
    model: NeuralLM, tokens: Tensor, state: State | None, lengths: Tensor, first: Tensor, width: int
) -> tuple[Tensor, State]:
    """(B, W, V) log-probabilities of what follows the tokens from place `first` (B,) of each row on: W of them.

    What `step` says after each of these tokens; past the end of a row it means nothing. Static shapes throughout.
    """
    h, after = model.encode(tokens, state, lengths)
    assert after is not None, "a pass needs a state: start(batch, capacity)"
    at = (first[:, None] + torch.arange(width, device=first.device)).clamp(max=tokens.shape[1] - 1)
    return model.head(h.gather(1, at[..., None].expand(-1, -1, h.shape[-1]))), after


def can_cut(state: State) -> bool:
    one = next(iter(state.tensors().values()))
    try:
        state.cut(torch.zeros(len(one), dtype=torch.long, device=one.device))
    except CannotCut:
        return False
    return True


def longest_piece(ahead: int, cuts: bool, capacity: int) -> int:
    """The most tokens of a pass: a token and guesses; where nothing can be cut, also those that are read again."""
    return min(capacity, 1 + ahead * (1 if cuts else 2))


def chosen_from(log_probs: Tensor, how: Sampling, banned: Tensor, noise: Tensor, first: Tensor) -> Tensor:
    """(B, W) tokens from (B, W, V), by the noise of each row (B,); they stand at the positions from `first` (B,) on."""
    log_probs.index_fill_(2, banned, -torch.inf)
    positions = first[:, None] + torch.arange(log_probs.shape[1], device=first.device)
    each = noise[:, None].expand_as(positions).flatten()
    return choose_next(log_probs.flatten(0, 1), how, each, positions.flatten()).view_as(positions)


@dataclass(frozen=True)
class Choice:
    """How a token is chosen, and which one ends a row."""

    how: Sampling
    banned: Sequence[int]
    end: int | None

    def __call__(self, log_probs: Tensor, numbers: Tensor, positions: Tensor) -> Tensor:
        """(B, W) tokens from (B, W, V), each with the noise of its own row and position (B, W)."""
        log_probs[..., list(self.banned)] = -torch.inf
        flat = choose(log_probs.flatten(0, 1), self.how, numbers.flatten(), positions.flatten())
        return flat.view(log_probs.shape[:2])

    def before_end(self, tokens: list[int]) -> tuple[list[int], bool]:
        """The tokens before the one that ends a row, and whether there is one."""
        place = next((place for place, token in enumerate(tokens) if token == self.end), len(tokens))
        return tokens[:place], place < len(tokens)


class Passes(Steps):
    """A state that stays where it is, and a pass on it that can be recorded as a step is."""

    def __init__(
        self, model: NeuralLM, batch: int, capacity: int, how: Sampling, banned: Sequence[int], ahead: int
    ):
        device = model.device
        self.model, self.how, self.width = model, how, ahead + 1
        state = model.start(batch, capacity)
        assert state is not None
        self.state: State = state
        self.cuts = can_cut(state)
        self.banned = torch.tensor(list(banned), dtype=torch.long, device=device)
        # What goes in, row by row: length, first place, tokens to forget first, position, and the tokens themselves.
        self.read = torch.zeros(batch, 4 + longest_piece(ahead, self.cuts, capacity), dtype=torch.long, device=device)
        self.noise = torch.zeros(batch, dtype=torch.long, device=device)
        self.chosen = torch.zeros(batch, self.width, dtype=torch.long, device=device)
        self.forgotten = [0] * batch
        self.replay: Any = self.step

    def step(self) -> None:
        """Forget what was wrong, read, and choose what follows each token; what has changed is kept where it was."""
        lengths, first, wrong, position = self.read[:, :4].unbind(1)
        state = self.state.cut(wrong) if self.cuts else self.state
        log_probs, after = after_each(self.model, self.read[:, 4:], state, lengths, first, self.width)
        self.chosen.copy_(chosen_from(log_probs, self.how, self.banned, self.noise, position))
        self._keep(after)

    def begin(self, state: State, ids: Tensor) -> None:
        super().begin(state, ids)
        self.forgotten = [0] * len(self.forgotten)

    def forget(self, wrong: list[int]) -> None:
        """The last tokens of each row that are to be cut off: with the next pass."""
        self.forgotten = wrong

    def settled(self) -> State:
        """The state as it would be now if nothing had to wait for the next pass."""
        return self.state.cut(torch.tensor(self.forgotten, device=self.model.device)) if self.cuts else self.state

    def over(self, pieces: Sequence[Sequence[int]], first: Sequence[int], positions: Sequence[int]) -> list[list[int]]:
        """(B, W): what is chosen after each token from `first` on; `positions` are those of the first chosen."""
        room = self.read.shape[1] - 4
        rows = [[len(piece), *numbers, *piece, *[0] * (room - len(piece))] for piece, *numbers in
                zip(pieces, first, self.forgotten, positions, strict=True)]
        self.read.copy_(torch.tensor(rows))
        self.replay()
        self.forgotten = [0] * len(rows)
        return self.chosen.tolist()


Kind = TypeVar("Kind", bound=Steps)
_kept: WeakKeyDictionary[nn.Module, dict[type, tuple[Hashable, Steps]]] = WeakKeyDictionary()    # the last of each kind
_refused: WeakKeyDictionary[nn.Module, dict[type, str]] = WeakKeyDictionary()


def take(
    kind: type[Kind], model: NeuralLM, batch: int, capacity: int, how: Sampling, banned: Sequence[int], *sizes: int
) -> tuple[Kind | None, str]:
    """Recorded passes, made now or left by the last text, for whoever asks and nobody else; or why there are none."""
    refused = _refused.setdefault(model, {})
    if kind in refused:
        return None, refused[kind]
    key, kept = _key(model, batch, capacity, how, banned, *sizes), _kept.setdefault(model, {}).pop(kind, None)
    if kept is not None and kept[0] == key:
        assert isinstance(kept[1], kind)
        kept[1].how = how
        return kept[1], ""
    passes = kind(model, batch, capacity, how, banned, *sizes)
    try:
        passes.record()
    except RuntimeError as error:                             # of CUDA; a real mistake comes back in the plain way
        torch.cuda.synchronize()
        reason = str(error).splitlines()[0]
        refused[kind] = f"a pass over several tokens cannot be recorded as a CUDA graph ({reason})"
        return None, refused[kind]
    return passes, ""


def give_back(
    passes: Steps, model: NeuralLM, batch: int, capacity: int, how: Sampling, banned: Sequence[int], *sizes: int
) -> None:
    _kept.setdefault(model, {})[type(passes)] = _key(model, batch, capacity, how, banned, *sizes), passes


def _key(model: nn.Module, batch: int, capacity: int, how: Sampling, banned: Sequence[int], *sizes: int) -> Hashable:
    """All that a recording has in it: sizes, how to choose (but for the seed), and where the weights are."""
    return batch, capacity, how.temperature, how.top_k, how.top_p, tuple(banned), sizes, weights_at(model)
