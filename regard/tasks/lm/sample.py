"""A sample of a language model in training: how it goes on with the first held-out text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.contract import LanguageModel
from regard.decoding.sampling import Sampling
from regard.decoding.special_tokens import text_special_tokens
from regard.decoding.stream import generate_tokens
from regard.look.next_token import written
from regard.look.small_map import MOST, NEW, PROMPT, Sample, first_text, read_of_itself, small_map


def continue_text(model: LanguageModel, corpus: Any, _: int | None) -> Callable[[], Sample]:
    """The first held-out text, its beginning given and the rest drawn with seed 0."""
    t, whole = corpus.tokenizer, first_text(corpus)
    prompt = whole[:max(1, min(PROMPT, len(whole) // 2))]
    begun = [t.bos, *prompt]
    read = [t.bos, *whole][:min(MOST, model.context or MOST)]
    pieces = written(t, read)

    def write() -> Sample:
        steps = generate_tokens(model, [begun], new_tokens=NEW, sampling=Sampling(seed=0), end=t.eos,
                                banned=text_special_tokens(t).banned)
        said = [step[0] for step in steps if step[0] is not None]
        stream = t.stream(after=prompt)
        text = "".join(stream.push(id) for id in said) + stream.flush()
        return {"prompt": t.decode(prompt), "text": text, "reference": t.decode(whole[len(prompt):][:NEW]),
                "map": small_map(pieces, pieces, *read_of_itself(model, torch.tensor([read], device=model.device)))}

    return write
