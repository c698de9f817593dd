"""Translation: sentence pairs in, batches of targets with their sources out; loss and BLEU as the measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from regard.config import one_of
from regard.data.batching.pair_batches import HeldOutPairs, Pairs, Sentences
from regard.data.pairs.pair_corpus import PairCorpus, PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.tokens.vocabulary import TokenizerPair
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import text_batches
from regard.decoding.special_tokens import pair_special_tokens
from regard.families.translate import TRANSLATE, Vocabularies
from regard.look.attention_alignment import spell
from regard.metrics.perplexity import score_targets
from regard.metrics.resampling import Interval
from regard.metrics.text_units import FEW
from regard.metrics.translation_quality import bleu, measure
from regard.ranks import ALONE, Ranks
from regard.tasks.last_measure import LastFigures, LastMeasure, say_number
from regard.tasks.task import Task
from regard.tasks.translate import CARD
from regard.tasks.translate.answer import ANSWER
from regard.tasks.translate.look import build
from regard.tasks.translate.sample import translate_source
from regard.tasks.translate.score import SCORE
from regard.tasks.translate.trained import TrainedTranslator

JUDGED = 500                   # held-out pairs translated at each validation


def batches(corpus: Any, s: Any, context: int) -> Pairs:
    one_of("training.reading", s.reading, ("pairs",))
    return Pairs(corpus.source_train, corpus.train, budget=s.batch, seed=s.seed, longest=context, widths=s.widths)


def held_out(corpus: Any, s: Any, context: int) -> HeldOutPairs:
    return HeldOutPairs(corpus.source_valid, corpus.valid, budget=2 * s.batch, context=context)


def vocabularies(tokenizer: TokenizerPair) -> Vocabularies:
    return Vocabularies(tokenizer.source.vocab_size, tokenizer.target.vocab_size, tokenizer.shared)


@dataclass(frozen=True)
class WritingMeasure:
    """The measure of what a model writes, by its key and its name; there is none where a package is missing."""

    key: str
    name: str
    measure: Callable[[list[str], list[str], str], float]              # (texts, references, their language)
    interval: Callable[[list[str], list[str], str], Interval | None]   # 95%, the texts drawn again
    package: str = ""

    @property
    def there(self) -> bool:
        return not self.package or find_spec(self.package) is not None

    def judge(self, model: Any, corpus: PairCorpus, context: int, ranks: Ranks = ALONE) -> dict[str, float]:
        """Return the measure of the first held-out pairs, each written word after likeliest word."""
        if not self.there:                             # where it cannot be measured, the loss must do
            return {}
        pairs = corpus.held_out(JUDGED)
        texts, references = written(model, corpus, len(pairs), context, ranks), [pair.target for pair in pairs]
        return {f"valid_{self.key}": self.measure(texts, references, corpus.langs.partition("-")[2])}

    def measure_test(self, trained: Any, corpus: PairCorpus) -> LastFigures:
        """Return the measure and the loss of the first test pairs; where all are too long for the model, without it."""
        pairs, whole = corpus.judged(JUDGED), corpus.test_counts()
        assert whole is not None, "there is a test part"
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        texts = [each.text for each in trained.translate(sources, beam=1)]
        held_out, values, lines = trained.hold_out(sources, references), dict[str, Any](), []
        if self.there:
            values[f"test_{self.key}"] = self.measure(texts, references, trained.languages[1])
            if len(texts) >= FEW and (between := self.interval(texts, references, trained.languages[1])):
                values |= {f"test_{self.key}_interval": list(between), "test_interval_over": "pairs"}
            lines.append(f"{self.name} {values[f'test_{self.key}']:.2f}")
        if held_out.fits.any():
            values["test_loss"] = score_targets(trained.model, held_out, references).loss
            lines.append(f"loss {values['test_loss']:.4f}")
        values["test_pairs"] = len(pairs)
        number = say_number(len(pairs), whole.documents, "pairs")
        return LastFigures(values, f"{' · '.join(lines) or 'nothing measured'}, on {number}")


BLEU = WritingMeasure(
    "bleu", "BLEU", lambda texts, references, lang: bleu(texts, references, lang=lang),
    lambda texts, references, lang: measure(texts, references, lang=lang).bleu_interval, "sacrebleu")


def written(model: Any, corpus: PairCorpus, number: int, context: int, ranks: Ranks = ALONE) -> list[str]:
    """Return the first held-out sources, each translated by one of the ranks; one of more tokens than the run's context
    is left empty.

    A model's own context is another number: None of a recurrent one, source and target together of a prefix one.
    """
    side, texts, t = Sentences(corpus.source_valid), [""] * number, corpus.tokenizer
    fits = [n for n in range(number) if side.lengths[n] <= context]
    mine = list(ranks.deal(fits))
    sources = [side.data[side.starts[n]:side.starts[n] + side.lengths[n]].tolist() for n in mine]
    batches = text_batches(model, sources, context, beams=1)
    found = search_batches(model, batches, pair_special_tokens(t, model), BeamOptions(width=1))
    pairs = corpus.held_out(number)
    pieces = spell(model, t, [pairs[n].source for n in mine], sources, found)
    for n, text in zip(fits, ranks.collect(["".join(best[0]) for best in pieces]), strict=True):
        texts[n] = text
    return texts


TASK = Task(
    CARD, TrainedTranslator, families=TRANSLATE, batches=batches, held_out=held_out,
    look=build, sample=translate_source, data=PairSettings, tokenizer=PairTokenizerSettings, prepare=prepare_pairs,
    load_tokenizer=TokenizerPair.load, vocab=vocabularies, judge=BLEU.judge, score=SCORE, answer=ANSWER,
    test=LastMeasure(BLEU.measure_test, tokens=None), columns=PairSettings.columns)
