"""Trained models without training: small networks whose random weights hide nothing, with a tokenizer each."""

from typing import Any

import torch
from torch import nn

from regard.config import as_values
from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import TokenizerPair
from regard.families.translate import Vocabularies
from regard.tasks import task_named

TEXT = ("Once upon a time a small fox sat by the sea. The fox saw a red kite!\n"
        "« Été », dit-elle: 12 œufs, naïve café – 漢字 and 🙂 emoji.\n"
        "The boat sat by the sea, and the kite flew up, up and away.\n") * 8


def draw_weights(model: nn.Module, seed: int = 0) -> None:
    """Weights of standard deviation 0.3, norms near one: nothing is zero, and nothing saturates."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            draw = torch.randn(weight.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                weight.copy_(1 + 0.3 * draw.clamp(-2, 2))
            elif name.endswith(("log_rate", "step_bias")):
                weight.add_(0.1 * draw)
            else:
                weight.copy_(0.3 * draw)


def make_trained(task_name: str = "lm", family: str = "transformer", kind: str = "bpe", vocab: int = 300,
                 shared: bool = True, **settings: Any) -> Any:
    """A trained model as `regard.load` gives it; its run does not exist, and neither do its data."""
    task = task_named(task_name)
    tokenizer: Any = train_tokenizer(kind, [TEXT], vocab)
    chosen = {"layers": 2, "width": 32, "context": 48, **settings}
    if task_name == "translate":
        other = tokenizer if shared else train_tokenizer(kind, [TEXT], vocab - 20)
        tokenizer = TokenizerPair(tokenizer, other)
        size: Any = Vocabularies(tokenizer.source.vocab_size, tokenizer.target.vocab_size, shared)
    else:
        size = task.vocab(tokenizer)
    row = task.family(family)
    filled = row.settings(**chosen)
    model = row.build(filled, size)
    draw_weights(model)
    tables = {"run": {"format": 1, "task": task_name, "family": family}, "data": {"files": ["nowhere.txt"]},
              "model": as_values(filled), "training": {"seed": 0, "reading": "documents"}}
    return task.trained(model.eval(), tokenizer, tables, None)
