"""Translation: sentence pairs in, batches of targets with their sources out; loss and BLEU as the measures."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from regard.config import one_of
from regard.data.batching.pair_batches import HeldOutPairs, Pairs, Sentences
from regard.data.pairs.pair_corpus import PairCorpus, PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.tokens.tokenizer_pair import TokenizerPair
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import text_batches
from regard.decoding.special_tokens import pair_special_tokens
from regard.families.translate import TRANSLATE, Vocabularies
from regard.look.copying import spell
from regard.metrics.translation_quality import bleu
from regard.tasks.task import Task, from_table
from regard.tasks.translate import CARD
from regard.tasks.translate.look import build
from regard.tasks.translate.sample import translate_source
from regard.tasks.translate.score import SCORE
from regard.tasks.translate.trained import TrainedTranslator

JUDGED = 500                   # held-out pairs translated at each validation


def batches(corpus: PairCorpus, s: Any, context: int) -> Pairs:
    one_of("training.reading", s.reading, ("pairs",))
    return Pairs(corpus.source_train, corpus.train, budget=s.batch, seed=s.seed, longest=context, widths=s.widths)


def held_out(corpus: PairCorpus, s: Any, context: int) -> HeldOutPairs:
    return HeldOutPairs(corpus.source_valid, corpus.valid, budget=2 * s.batch, context=context)


def vocabularies(tokenizer: TokenizerPair) -> Vocabularies:
    return Vocabularies(tokenizer.source.vocab_size, tokenizer.target.vocab_size, tokenizer.shared)


def judge(model: Any, corpus: PairCorpus, context: int) -> dict[str, float]:
    """BLEU of the first held-out pairs, each written word after likeliest word."""
    if find_spec("sacrebleu") is None:                 # where it cannot be measured, the loss must do
        return {}
    pairs = corpus.held_out(JUDGED)
    lang = corpus.langs.partition("-")[2]
    return {"valid_bleu": bleu(written(model, corpus, len(pairs), context), [pair.target for pair in pairs], lang=lang)}


def written(model: Any, corpus: PairCorpus, number: int, context: int) -> list[str]:
    """Return the first held-out sources, translated; one of more tokens than the run's context is left empty.

    A model's own context is another number: None of a recurrent one, source and target together of a prefix one.
    """
    side, texts, t = Sentences(corpus.source_valid), [""] * number, corpus.tokenizer
    fits = [n for n in range(number) if side.lengths[n] <= context]
    sources = [side.data[side.starts[n]:side.starts[n] + side.lengths[n]].tolist() for n in fits]
    batches = text_batches(model, sources, context, beams=1)
    found = search_batches(model, batches, pair_special_tokens(t, model), BeamOptions(width=1))
    pairs = corpus.held_out(number)
    pieces = spell(model, t, [pairs[n].source for n in fits], sources, found)
    for n, best in zip(fits, pieces, strict=True):
        texts[n] = "".join(best[0])
    return texts


TASK = Task(
    CARD, TrainedTranslator, families=TRANSLATE, family=from_table(TRANSLATE), batches=batches, held_out=held_out,
    look=build, sample=translate_source, data=PairSettings, tokenizer=PairTokenizerSettings, prepare=prepare_pairs,
    load_tokenizer=TokenizerPair.load, vocab=vocabularies, judge=judge, score=SCORE)
