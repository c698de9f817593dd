"""Looking at a trained model: one run on one input, whatever its family or task.

    seen = look(regard.load("runs/stories"), Request(text="the cat sat"))
    seen.track("self").values                    # (N, H, R, C) weights of every layer and head
    seen.track("influence-gradient").values      # worked out now, when first asked for
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

import torch

from regard.look.parts import Look, Request

SAMPLE = 2**14                       # bytes of each tensor that its identity is made from


def look(trained: Any, request: Request | str, model: str = "") -> Look:
    """Run a model once and return what it reads and says; a plain string is a text, or the source of a translator.

    `model` is the name under which a server keeps it. Whoever shares the model keeps others off it meanwhile, and while
    a track that is still `lazy` is worked out.
    """
    task = trained.task
    if isinstance(request, str):
        request = Request(text=request) if task.card.reads == "text" else Request(source=request)
    seen = task.look(trained, request)
    seen.id, seen.model = look_id(trained, request, model), model
    return seen


def look_id(trained: Any, request: Request, model: str = "") -> str:
    """A hash of the request and the weights: equal on any day and any machine."""
    asked = asdict(request)
    if request.image is not None:
        asked["image"] = hashlib.sha256(request.image).hexdigest()
    told = json.dumps([model, identity(trained), asked], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def identity(trained: Any) -> str:
    """A name for the weights and the tokenizer: from a part of every tensor, as no training leaves one as it was."""
    known = trained.__dict__.get("_identity")
    if known is None:
        digest = hashlib.sha256(trained.tokenizer.digest().encode())
        for name, tensor in trained.model.saved_tensors().items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            part = tensor.detach().flatten()[:SAMPLE // tensor.element_size()].cpu()
            part = part.clone(memory_format=torch.contiguous_format)
            digest.update(part.view(torch.uint8).numpy().tobytes())
        known = trained.__dict__["_identity"] = digest.hexdigest()
    return known
