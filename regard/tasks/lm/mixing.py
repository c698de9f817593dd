"""A network mixed with an n-gram and a cache: counted first, fitted on held-out text at the end, loaded as one model.

The network scores windows, as in training; the n-gram and the cache read the whole text. N tokens of the text
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import as_values, at_least, fill
from regard.data.reading.corpus import Corpus
from regard.data.reading.shards import Shard
from regard.errors import RunError, note
from regard.families.ngram import NGramSettings, count_ngram, restore_ngram
from regard.models.mixture import Mixture, fit_numbers, mix_by, score_and_top
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.models.ngram.model import Contexts
from regard.models.word_cache import ORDERS, REMEMBERED, CacheCounts, add_to_targets, count_text
from regard.run_folder import MIXTURE, RunFolder
from regard.tasks.task import Mixing


@dataclass(frozen=True)
class MixtureSettings(NGramSettings):
    """The [ngram] table of a mixture: the n-gram, and the words that the cache remembers; 0: there is no cache."""

    cache: int = REMEMBERED

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("ngram", self, 0, "cache", most=2**20)

    @property
    def counted(self) -> NGramSettings:
        """The settings of the n-gram alone."""
        return NGramSettings(**{name: value for name, value in as_values(self).items() if name != "cache"})


FITTED = 2**16             # held-out tokens that a mixture is fitted on, about: it has some ten numbers


@dataclass(frozen=True)
class PartScores:
    """The log-probabilities (N,) of a text's tokens by the network and by the n-gram, and what the shares follow."""

    network: Tensor
    ngram: Tensor
    top: Tensor              # the network's largest log-probability at each token
    contexts: Contexts       # what the n-gram has seen before each
    counts: CacheCounts | None = None                  # of the cache

    def mix(self, mixture: Mixture) -> Tensor:
        """Return the log-probabilities of the mixture."""
        mixed = mix_by(mixture.share(self.top, self.contexts), self.network, self.ngram)
        if mixture.cache is None or self.counts is None:
            return mixed
        return add_to_targets(mixture.cache, mixed, CacheCounts(*(each.to(mixed.device) for each in self.counts)))

    def by_name(self, mixture: Mixture) -> dict[str, Tensor]:
        """Return the log-probabilities of all three."""
        return {"network": self.network, "n-gram": self.ngram, "mixture": self.mix(mixture)}


@torch.no_grad()
def score_parts(model: Mixture, shard: Shard, held_out: Any, one_in: int = 1) -> PartScores:
    """Return the scores of a shard, whose batches are `held_out`; of one batch in so many."""
    ends = shard.ends if held_out.documents else None
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
    ngram, contexts = model.ngram.score_text_in_context(shard.tokens, ends)
    counts = None if not model.remembered else CacheCounts(
        *(each[used] for each in count_text(np.asarray(shard.tokens), ends, model.remembered)))
    return PartScores(network, ngram[used].to(network), torch.cat(tops), Contexts(*(each[used] for each in contexts)),
                      counts)


def count_beside(settings: MixtureSettings, corpus: Corpus, training: Any) -> NGram:
    """Return the n-gram of the text that a network learns from."""
    ends = corpus.train.ends if training.reading == "documents" else None
    return count_ngram(settings.counted, corpus.tokenizer.vocab_size, corpus.train.tokens, ends)


def load_mixture(network: NeuralLM, folder: RunFolder, tables: dict[str, dict[str, Any]]) -> Mixture | NeuralLM:
    """Return the network with its n-gram; alone, with a note, while the mixture is not fitted."""
    settings, numbers = fill(MixtureSettings, tables["ngram"], "ngram"), folder.read_mixture()
    if numbers is None:
        note(f"{folder.path} has no {MIXTURE} yet, which is fitted at the end of training: the network is used alone")
        return network
    shares, cache = numbers["numbers"], numbers["cache"]
    if len(shares) != settings.order or len(cache) not in (0, ORDERS) or any(len(row) != 2 for row in shares + cache):
        raise RunError(f"{folder.path / MIXTURE} does not fit a {settings.order}-gram: take it from a copy of the run")
    return Mixture(network, restore_ngram(settings.counted, network.vocab, folder.read_ngram()), torch.tensor(shares),
                   torch.tensor(cache) if cache else None, settings.cache if cache else 0)


def mix_beside(trained: Any, corpus: Corpus, training: Any) -> Mixture:
    """Return a trained network mixed with an n-gram of its text, as `--mix` would have it; nothing is saved."""
    mixture = Mixture(trained.learner, count_beside(MixtureSettings(), corpus, training))
    return fit_parts(mixture, trained, corpus)[0]


def fit_parts(mixture: Mixture, trained: Any, corpus: Corpus) -> tuple[Mixture, PartScores]:
    """Return the mixture with numbers that were fitted on held-out text, and the scores they were fitted on."""
    one_in = -(-len(corpus.valid.tokens) // FITTED)
    parts = score_parts(mixture, corpus.valid, trained.held_out(corpus.valid), one_in)
    fitted = fit_numbers(parts.network, parts.ngram, parts.top, parts.contexts, parts.counts)
    return Mixture(mixture.network, mixture.ngram, *fitted, mixture.remembered).to(mixture.device), parts


def fit_mixture(trained: Any, corpus: Corpus, folder: RunFolder) -> dict[str, float]:
    """Fit the mixture on held-out text, save it, and make it the trained model; return the losses of all three."""
    settings, network = fill(MixtureSettings, trained.tables["ngram"], "ngram"), trained.learner
    ngram = restore_ngram(settings.counted, network.vocab, folder.read_ngram())
    trained.model, parts = fit_parts(Mixture(network, ngram, remembered=settings.cache), trained, corpus)
    cache, scores = trained.model.cache, parts.by_name(trained.model)
    losses = {name: -float(each.double().mean()) for name, each in scores.items()}
    folder.save_mixture(trained.model.numbers.tolist(), [] if cache is None else cache.tolist(), losses)
    return losses


MIXING = Mixing(MixtureSettings, count_beside, load_mixture, fit_mixture, FITTED)
