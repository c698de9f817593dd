"""EuroBERT as a masked model of ours: the names of Llama, and attention in both directions.

H heads of K channels
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.interop.from_hf import Converted, LlamaNames
from regard.interop.hf_folder import Config, FoundWeights

ENCODER = ("embedding.", "stack.", "norm.")        # what of a decoder's tensors an encoder has
ONLY_DECODERS = ("kv_heads", "qk_norm", "window")  # settings


def convert_eurobert(config: Config, weights: FoundWeights) -> Converted:
    """Our encoders have keys and values for every head: where several share theirs, each gets a copy."""
    found = LlamaNames(usual_eps=1e-5)(config, weights)
    model = dict(found.model)
    kv_heads = model["kv_heads"] or model["heads"]
    tensors = {("encoder." if name.startswith(ENCODER) else "") + name: tensor
               for name, tensor in found.tensors.items()}
    for name in [name for name in tensors if ".mixer.qkv." in name]:
        tensors[name] = shared_written_out(tensors[name], model["heads"], kv_heads)
    for name in ONLY_DECODERS:
        model.pop(name)
    return Converted("transformer", model, tensors, "masked", fills_blanks=True)


def shared_written_out(qkv: Tensor, heads: int, kv_heads: int) -> Tensor:
    """Queries, keys and values on one another ((H + 2 H') K, ...), with as many keys and values as queries."""
    parts = qkv.unflatten(0, (heads + 2 * kv_heads, -1))
    counts = torch.tensor([1] * heads + [heads // kv_heads] * (2 * kv_heads))
    return parts.repeat_interleave(counts, 0).flatten(0, 1)
