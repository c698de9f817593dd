"""Tokens that a search may not write: banned ones, those that repeat an n-gram, and all but a forced one.

S sources · k beams · T time so far · V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import SettingError


def forbid(
    log_probs: Tensor, written: NDArray[np.int64], banned: Tensor, no_repeat: int, force: Sequence[int]
) -> Tensor:
    """Set log-probabilities (S k, V) to -inf where a token may not be written, and return them.

    `written` (S, k, T) are the tokens of every beam. No n-gram of `no_repeat` tokens comes twice; 0: any may.
    """
    log_probs = log_probs.index_fill_(1, banned, -torch.inf)
    time = written.shape[-1]
    if time < len(force):
        only = torch.full_like(log_probs, -torch.inf)
        only[:, force[time]] = log_probs[:, force[time]]
        return only
    if no_repeat and time >= no_repeat:
        texts = written.reshape(len(log_probs), -1)
        grams = np.lib.stride_tricks.sliding_window_view(texts, no_repeat, axis=1)     # (S k, positions, n)
        last = texts[:, texts.shape[1] - no_repeat + 1:]
        rows, positions = (grams[:, :, :-1] == last[:, None]).all(-1).nonzero()        # these tokens came before
        again = torch.from_numpy(np.stack((rows, grams[rows, positions, -1]))).to(log_probs.device)
        log_probs[again[0], again[1]] = -torch.inf
    return log_probs


def check_forced(force: Sequence[int], limits: Sequence[int], end: int, banned: Sequence[int], vocab: int) -> None:
    """Refuse a forced prefix that is too long, ends, or has a token that does not exist or may not be written."""
    if force and len(force) >= min(limits, default=0):
        raise SettingError(f"a forced prefix of {len(force)} tokens leaves no room for more, as a target may have "
                           f"{min(limits, default=0)}: force fewer")
    if end in force:
        raise SettingError(f"a forced prefix has the end (token {end}) in it, which nothing may follow: leave it out")
    if strange := [token for token in force if not 0 <= token < vocab]:
        raise SettingError(f"a forced prefix has token {strange[0]} in it: tokens go from 0 to {vocab - 1}")
    if wrong := sorted(set(force) & set(banned)):
        raise SettingError(f"a forced prefix has token {wrong[0]} in it, which may not be written: leave it out")
