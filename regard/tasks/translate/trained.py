"""A trained translator, ready to use: it translates lines, measures its quality, and shows its attention.

    model = regard.load("runs/fr-en")
    for line in model.translate(["Le chat noir dort.", "Où est la gare ?"], alignments=True):
        print(line.text, sorted(line.links))
    print(model.quality(sources, references))

One line goes in and one comes out. A blank line stays empty. A line too long for the model is cut
into sentences, each is translated, and they are joined with the space that was between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.contract import Source
from regard.data.batching.pair_batches import HeldOutPairs
from regard.data.reading.sentences import Sentence, fit, join, split
from regard.data.reading.shards import Counts, Shard
from regard.data.tokens.vocabulary import Tokenizer, TokenizerPair
from regard.decoding.beam import Hypothesis
from regard.decoding.sampled_targets import sample_batches
from regard.decoding.source_attention import NO_ATTENTION, reads_source
from regard.decoding.source_batches import budget, longest, text_batches
from regard.decoding.special_tokens import SpecialTokens, pair_special_tokens
from regard.decoding.stream import padded
from regard.errors import DataError, RegardError, RunError
from regard.laws.check import Report, check_model
from regard.laws.encoder_laws import check_encoder
from regard.laws.reader import TIME
from regard.look.attention_alignment import AttentionErrors, each_read, spell
from regard.look.opening import Opening
from regard.metrics.alignment_error import Gold
from regard.metrics.perplexity import Surprise
from regard.metrics.translation_quality import Quality, measure
from regard.models.neural import NeuralLM
from regard.tasks.laws import draw_source, join_reports
from regard.tasks.trained_model import TrainedModel
from regard.tasks.translate.alignment import align_translation, measure_errors
from regard.tasks.translate.engine import SearchEngine, refuse_options, search_sources
from regard.tasks.translate.translations import (
    Candidate,
    Notices,
    Say,
    TranslatedSentence,
    TranslateOptions,
    Translation,
    Weights,
)

FIRST_CHUNK, CHUNK = 32, 512               # lines taken at once from a stream: few at first, so that something appears


@dataclass
class TrainedTranslator(TrainedModel):
    """A translator with everything needed to use it on lines of text."""

    model: NeuralLM
    tokenizer: TokenizerPair
    engine: SearchEngine | None = None         # searches in the place of Regard

    @property
    def languages(self) -> tuple[str, str]:
        """The names of both languages, empty where they are not known."""
        source, _, target = str(self.tables.get("data", {}).get("langs", "")).partition("-")
        return source, target

    @property
    def attends(self) -> bool:
        """True where the attention of each target word to the source can be seen."""
        return reads_source(self.model)

    @property
    def special_tokens(self) -> SpecialTokens:
        return pair_special_tokens(self.tokenizer, self.model)

    @property
    def writes(self) -> Tokenizer:
        return self.tokenizer.target

    @property
    def titles(self) -> tuple[str, str]:
        """The names of source and target, for people."""
        source, target = self.languages
        return source or "source", target or "target"

    def open(self, given: Any, *, new_tokens: int = 0, whole: bool = False) -> Opening:
        """A source; of one too long for the model the first part is read, or with `whole` it is refused."""
        notes: tuple[str, ...] = ()
        if whole:
            if not isinstance(given, str) or not given.strip():
                raise DataError("there is nothing to go on with: give a text to translate or to summarise")
            text = given
        else:
            parts = self.sentences(given)
            if not parts:
                raise DataError("there is nothing to translate: the text is blank")
            text = parts[0].text
            if len(parts) > 1:
                notes = (f"the text is longer than the {self.context} tokens that the model reads: this is its first "
                         f"part of {len(parts)}",)
        (ids,) = self.encode([text])
        if len(ids) > self.context:
            raise DataError(f"the source has {len(ids):,} tokens with its end and the model reads at most "
                            f"{self.context:,}: give a shorter one")
        items, lengths = padded([ids], self.model.device)
        return Opening(self.model, self.writes, self.special_tokens, (self.special_tokens.begin,),
                       longest(len(ids), self.context, self.model), Source(items, lengths),
                       tuple(map(self.tokenizer.source.token, ids)), text, notes)

    def spell(self, opening: Opening, best: Hypothesis) -> list[str]:
        assert opening.source is not None
        (part,) = self.spell_sentences([opening.text], opening.source.items.tolist(), [[best]])
        return part.pieces[0]

    def check_laws(self) -> Report:
        """The laws of models, and those of its encoder; one that is decoder-only has none."""
        model, vocab = self.model, self.tokenizer.source.vocab_size
        source = draw_source(vocab, self.context)
        room = self.context - (source.items.shape[1] if model.one_text else 0)
        report = check_model(model, source=source, time=max(1, min(TIME, room)))
        encoder = getattr(model, "encoder", None)
        return report if encoder is None else join_reports(report, check_encoder(encoder, vocab=vocab, dtype=None))

    # ---------------------------------------------------------------------------------- translating

    def translate(
        self, lines: Sequence[str], *, notice: Say | None = None, first: int = 0,
        on_progress: Callable[[int, int], None] | None = None, options: TranslateOptions | None = None, **named: Any,
    ) -> list[Translation]:
        """Return each line's translation, in order. Options may be named: beam, n_best, alignments ... (see
        `TranslateOptions.of`).

        `notice` hears of lines cut into sentences and of those that came to no end; `on_progress` how many sentences
        of how many are done. `first` is the number of the first line in a longer text, by which samples are drawn.
        """
        if isinstance(lines, str):
            raise DataError("give a list of lines, not a single one: translate([line])")
        notices = Notices(notice)
        results = self._translate(list(lines), options or TranslateOptions.of(**named), first, on_progress)
        notices.count(results)
        notices.tell(self.context)
        return results

    def stream(
        self, lines: Iterable[str], *, notice: Say | None = None, at_a_time: int = CHUNK,
        options: TranslateOptions | None = None, **named: Any,
    ) -> Iterator[Translation]:
        """Yield translations of lines as they come, some hundreds at a time, in bounded memory; the first come early.
        Options are those of `translate`."""
        options, coming = options or TranslateOptions.of(**named), iter(lines)
        notices, number = Notices(notice), 0
        mistake: RegardError | None = None
        while mistake is None:
            some, mistake = take_lines(coming, at_a_time if number else min(FIRST_CHUNK, at_a_time))
            if not some and mistake is None:
                break
            results = self._translate(some, options, number, None)
            notices.count(results)
            yield from results
            number += len(some)
        notices.tell(self.context)
        if mistake is not None:
            raise mistake

    def _translate(
        self, lines: list[str], options: TranslateOptions, number: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> list[Translation]:
        """Translate lines, of which the first is line `number` of a stream."""
        if self.engine is not None:
            refuse_options(options, self.engine.name)
        if options.alignments and not self.attends:
            raise RunError(NO_ATTENTION.format(cure="leave --alignments out, or train a family with attention, e.g. "
                                                    "rnn-attention"))
        cut = [self.sentences(line) for line in lines]
        texts = [piece.text for pieces in cut for piece in pieces]
        ids = self.encode(texts)
        on_batch = None if on_progress is None else lambda done: on_progress(done, len(texts))
        model, special_tokens, search = self.model, self.special_tokens, options.search
        if options.sampling is None:
            hypotheses = search_sources(model, ids, special_tokens, self.context, options, self.engine, on_batch)
        else:
            # Noise belongs to the line and the place in it, so that no other line can change it.
            noise = [(number + row) * 2**20 + place for row, pieces in enumerate(cut) for place in range(len(pieces))]
            batches = text_batches(model, ids, self.context, search.n_best, options.batch)
            hypotheses = sample_batches(model, batches, special_tokens, search, options.sampling, noise, on_batch)
        parts = iter(self.spell_sentences(texts, ids, hypotheses))
        return [self._join_sentences(line, pieces, list(islice(parts, len(pieces))), options)
                for line, pieces in zip(lines, cut, strict=True)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*ids.tolist(), self.tokenizer.eos] for ids in self.tokenizer.source.encode_batch(texts)]

    def sentences(self, line: str) -> list[Sentence]:
        """Return the parts in which a line is read: none if blank, one if it fits, else sentences, cut further if need
        be."""

        def size(text: str) -> int:
            return len(self.tokenizer.source.encode(text)) + 1

        if not line.strip():
            return []
        if size(line) <= self.context:
            return [Sentence(line)]
        lang = self.languages[0]
        return [piece for piece in fit(split(line, lang), size, self.context, lang) if piece.text]

    def spell_sentences(self, texts: Sequence[str], ids: Sequence[list[int]],
                found: Sequence[list[Hypothesis]]) -> list[TranslatedSentence]:
        """Return sentences with the pieces of all their targets, each <unk> spelled as the source word read most."""
        pieces = spell(self.model, self.tokenizer, texts, ids, found)
        return [TranslatedSentence(*each) for each in zip(texts, ids, found, pieces, strict=True)]

    def _join_sentences(
        self, line: str, cut: Sequence[Sentence], parts: Sequence[TranslatedSentence], options: TranslateOptions
    ) -> Translation:
        """Return one line again from its sentences; its n-th best has the n-th best of each."""
        if not parts:
            return Translation(line, n_best=(Candidate("", 0.0, 0.0, 0),))
        candidates = []
        for number in range(max(len(part.found) for part in parts)):
            numbers = [min(number, len(part.found) - 1) for part in parts]
            best = [part.found[n] for part, n in zip(parts, numbers, strict=True)]
            tokens = sum(len(each.tokens) + each.finished for each in best)
            log_prob = sum(each.log_prob for each in best)
            texts = [part.spell(n) for part, n in zip(parts, numbers, strict=True)]
            candidates.append(Candidate(
                join(cut, texts, self.languages[1]).replace("\n", " "),
                best[0].score if len(best) == 1 else options.search.score(log_prob, tokens), log_prob, tokens,
                all(each.finished for each in best)))
        first = candidates[0]
        translation = Translation(line, first.text, first.score, first.log_prob, tuple(candidates), len(parts))
        return align_translation(self, translation, parts, options.words) if options.alignments else translation

    # --------------------------------------------------------------------------------------- attention

    def reads(self, sources: Sequence[list[int]], targets: Sequence[Sequence[int]]) -> list[Weights]:
        """Return the weights by which each token of a given target reads its source, the ends of both left out."""
        read = dict(each_read(self.model, sources, targets))
        return [read[number] for number in range(len(sources))]

    # -------------------------------------------------------------------------------------- measuring

    def score_pairs(self, sources: Sequence[str], targets: Sequence[str], notice: Say | None = None) -> Surprise:
        """Return the loss on given targets, ends included; pairs too long for the model are left out, with a notice."""
        return self.score_held_out(self.hold_out(sources, targets), targets, "pair", "reads", notice)

    def hold_out(self, sources: Sequence[str], targets: Sequence[str]) -> HeldOutPairs:
        """Return given pairs as batches to be scored."""
        check_pairs(sources, targets)
        return HeldOutPairs(shard_of(self.tokenizer.source, sources), shard_of(self.tokenizer.target, targets),
                            budget=budget(self.model, None), bos=self.tokenizer.bos, context=self.context)

    def quality(self, sources: Sequence[str], references: Sequence[str], **options: Any) -> Quality:
        """Return BLEU, chrF and exact match of its translations; options are those of `translate`."""
        check_pairs(sources, references)
        return measure([each.text for each in self.translate(sources, **options)], references, lang=self.languages[1])

    def alignment_error(
        self, sources: Sequence[str], targets: Sequence[str], golds: Sequence[Gold], words: str = "word",
        notice: Say | None = None,
    ) -> AttentionErrors:
        """Return the alignment error of the attention over `words`, as it reads the sources to write the targets."""
        if not self.attends:
            raise RunError(NO_ATTENTION.format(cure="an alignment error is of a family with attention, e.g. "
                                                    "rnn-attention"))
        check_pairs(sources, targets)
        return measure_errors(self, sources, targets, golds, words, notice)


# ------------------------------------------------------------------------------------------------ parts


def take_lines(coming: Iterator[str], number: int) -> tuple[list[str], RegardError | None]:
    """Return the next lines, as many as there are, and the mistake that ended them, if any."""
    some: list[str] = []
    try:
        for line in islice(coming, number):
            some.append(line)
    except RegardError as mistake:
        return some, mistake
    return some, None


def check_pairs(sources: Sequence[str], targets: Sequence[str]) -> None:
    if len(sources) != len(targets):
        raise DataError(f"{len(sources):,} sources and {len(targets):,} targets are no pairs: give one for each")
    if not sources:
        raise DataError("there are no pairs to score")


def shard_of(tokenizer: Tokenizer, texts: Sequence[str]) -> Shard:
    """Return lines as a shard that is nowhere on disk."""
    tokens, ends = tokenizer.encode_lines(texts)
    return Shard(Path(), tokens, ends, Counts(tokens=len(tokens), documents=len(ends)), "", "")
