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
from regard.models.mixture import Mixture, fit_numbers, mix_by, score_and_top
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.models.ngram.model import Contexts
from regard.run_folder import MIXTURE, RunFolder
from regard.tasks.task import Mixing

FITTED = 2**16             # held-out tokens that a mixture is fitted on, about: it has some ten numbers


@dataclass(frozen=True)
class PartScores:
    """The log-probabilities (N,) of a text's tokens by the network and by the n-gram, and what the shares follow."""

    network: Tensor
    ngram: Tensor
    top: Tensor              # the network's largest log-probability at each token
    contexts: Contexts       # what the n-gram has seen before each

    def mix(self, mixture: Mixture) -> Tensor:
        """Return the log-probabilities of the mixture."""
        return mix_by(mixture.share(self.top, self.contexts), self.network, self.ngram)

    def losses(self, mixture: Mixture) -> dict[str, float]:
        """Return the mean loss of each, in nats a token."""
        scores = {"network": self.network, "n-gram": self.ngram, "mixture": self.mix(mixture)}
        return {name: -float(each.double().mean()) for name, each in scores.items()}


@torch.no_grad()
def score_parts(model: Mixture, shard: Shard, held_out: Any, one_in: int = 1) -> PartScores:
    """Return the scores of a shard, whose batches are `held_out`; of one batch in so many."""
    model.eval()
    scores, tops, used = [], [], torch.zeros(len(shard.tokens), dtype=torch.bool)
    first = 0
    for number, batch in enumerate(held_out):
        after = first + batch.real
        if number % one_in == 0:
            used[first:after] = True
            here, real = batch.to(model.device), batch.is_real().to(model.device)
            h, _ = model.network.encode(here.tokens, None, here.lengths)
            score, top = score_and_top(model.network.head, h, here.targets)
            scores.append(score[real])
            tops.append(top[real])
        first = after
    network = torch.cat(scores)
    ngram, contexts = model.ngram.score_text_in_context(shard.tokens, shard.ends if held_out.documents else None)
    return PartScores(network, ngram[used].to(network), torch.cat(tops), Contexts(*(each[used] for each in contexts)))


def count_beside(settings: NGramSettings, corpus: Corpus, training: Any) -> NGram:
    """Return the n-gram of the text that a network learns from."""
    ends = corpus.train.ends if training.reading == "documents" else None
    return count_ngram(settings, corpus.tokenizer.vocab_size, corpus.train.tokens, ends)


def load_mixture(network: NeuralLM, folder: RunFolder, tables: dict[str, dict[str, Any]]) -> Mixture | NeuralLM:
    """Return the network with its n-gram; alone, with a note, while the mixture is not fitted."""
    settings, numbers = fill(NGramSettings, tables["ngram"], "ngram"), folder.read_mixture()
    if numbers is None:
        note(f"{folder.path} has no {MIXTURE} yet, which is fitted at the end of training: the network is used alone")
        return network
    if len(numbers) != settings.order or any(len(row) != 2 for row in numbers):
        raise RunError(f"{folder.path / MIXTURE} does not fit a {settings.order}-gram: take it from a copy of the run")
    return Mixture(network, restore_ngram(settings, network.vocab, folder.read_ngram()), torch.tensor(numbers))


def mix_beside(trained: Any, corpus: Corpus, training: Any) -> Mixture:
    """Return a trained network mixed with an n-gram of its text, as `--mix` would have it; nothing is saved."""
    mixture = Mixture(trained.learner, count_beside(NGramSettings(), corpus, training))
    return fit_parts(mixture, trained, corpus)[0]


def fit_parts(mixture: Mixture, trained: Any, corpus: Corpus) -> tuple[Mixture, PartScores]:
    """Return the mixture with numbers that were fitted on held-out text, and the scores they were fitted on."""
    one_in = -(-len(corpus.valid.tokens) // FITTED)
    parts = score_parts(mixture, corpus.valid, trained.held_out(corpus.valid), one_in)
    numbers = fit_numbers(parts.network, parts.ngram, parts.top, parts.contexts)
    return Mixture(mixture.network, mixture.ngram, numbers).to(mixture.device), parts


def fit_mixture(trained: Any, corpus: Corpus, folder: RunFolder) -> dict[str, float]:
    """Fit the mixture on held-out text, save it, and make it the trained model; return the losses of all three."""
    settings, network = fill(NGramSettings, trained.tables["ngram"], "ngram"), trained.learner
    ngram = restore_ngram(settings, network.vocab, folder.read_ngram())
    trained.model, parts = fit_parts(Mixture(network, ngram), trained, corpus)
    losses = parts.losses(trained.model)
    folder.save_mixture(trained.model.numbers.tolist(), losses)
    return losses


MIXING = Mixing(NGramSettings, count_beside, load_mixture, fit_mixture, FITTED)
