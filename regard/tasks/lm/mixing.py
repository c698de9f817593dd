"""A network mixed with an n-gram: counted first, fitted on held-out text at the end, loaded as one model.

The network scores windows, as in training; the n-gram scores the whole text. N tokens of the text
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.config import fill
from regard.data.reading.corpus import Corpus
from regard.data.reading.shards import Shard
from regard.errors import RunError, note
from regard.families.ngram import NGramSettings, count_ngram, restore_ngram
from regard.models.mixture import Mixture, fit_shares, mix_by, score_and_top
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.run_folder import MIXTURE, RunFolder
from regard.tasks.task import Mixing


@dataclass(frozen=True)
class PartScores:
    """The log-probabilities (N,) of a text's tokens by the network and by the n-gram, and what their shares follow."""

    network: Tensor
    ngram: Tensor
    top: Tensor              # the network's largest log-probability at each token
    known: Tensor            # the length of the longest context that the n-gram has seen

    def mix(self, mixture: Mixture) -> Tensor:
        """Return the log-probabilities of the mixture."""
        return mix_by(mixture.shares_of(self.top, self.known.to(self.top.device).long()), self.network, self.ngram)

    def fit(self, order: int) -> Tensor:
        return fit_shares(self.network.cpu(), self.ngram.cpu(), self.top.cpu(), self.known.cpu(), order)


@torch.no_grad()
def score_parts(model: Mixture, shard: Shard, held_out: Any) -> PartScores:
    """Return the scores of a shard, whose batches are `held_out`."""
    model.eval()
    scores, tops = [], []
    for batch in held_out:
        here = batch.to(model.device)
        h, _ = model.network.encode(here.tokens, None, here.lengths)
        real = batch.is_real().to(model.device)
        for found, kept in zip(score_and_top(model.network.head, h, here.targets), (scores, tops), strict=True):
            kept.append(found[real])
    network = torch.cat(scores)
    ngram, known = model.ngram.score_text_in_context(shard.tokens, shard.ends if held_out.documents else None)
    return PartScores(network, ngram.to(network), torch.cat(tops), known)


def count_beside(settings: NGramSettings, corpus: Corpus, training: Any) -> NGram:
    """Return the n-gram of the text that a network learns from."""
    ends = corpus.train.ends if training.reading == "documents" else None
    return count_ngram(settings, corpus.tokenizer.vocab_size, corpus.train.tokens, ends)


def load_mixture(network: NeuralLM, folder: RunFolder, tables: dict[str, dict[str, Any]]) -> Mixture | NeuralLM:
    """Return the network with its n-gram; alone, with a note, while the shares are not fitted."""
    settings = fill(NGramSettings, tables["ngram"], "ngram")
    shares = folder.read_shares()
    if shares is None:
        note(f"{folder.path} has no {MIXTURE} yet, which is fitted at the end of training: the network is used alone")
        return network
    if len(shares) != settings.order or any(len(row) != 2 for row in shares):
        raise RunError(f"{folder.path / MIXTURE} has shares that do not fit a {settings.order}-gram: take it from a copy "
                       "of the run")
    return Mixture(network, restore_ngram(settings, network.vocab, folder.read_ngram()), torch.tensor(shares))


def fit_mixture(trained: Any, corpus: Corpus, folder: RunFolder) -> dict[str, float]:
    """Fit the shares on the held-out text, save them, and make the trained model a mixture; return the losses."""
    settings = fill(NGramSettings, trained.tables["ngram"], "ngram")
    network = trained.learner
    mixture = Mixture(network, restore_ngram(settings, network.vocab, folder.read_ngram()))
    parts = score_parts(mixture, corpus.valid, trained.held_out(corpus.valid))
    shares = parts.fit(settings.order)
    trained.model = Mixture(network, mixture.ngram, shares).to(network.device)
    losses = part_losses(parts, trained.model)
    folder.save_shares(shares.tolist(), losses)
    return losses


def part_losses(parts: PartScores, mixture: Mixture) -> dict[str, float]:
    """Return the mean loss of each, in nats a token."""
    scores = {"network": parts.network, "ngram": parts.ngram, "mixture": parts.mix(mixture)}
    return {name: -float(each.double().mean()) for name, each in scores.items()}


MIXING = Mixing(NGramSettings, count_beside, load_mixture, fit_mixture)
