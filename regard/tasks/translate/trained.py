"""A trained translator, ready to use: it translates lines, says how good it is, and shows what it read.

    model = regard.load("runs/fr-en")
    for line in model.translate(["Le chat noir dort.", "Où est la gare ?"], alignments=True):
        print(line.text, sorted(line.links))
    print(model.quality(sources, references))

One line goes in and one comes out, whatever is in it. A blank line stays empty. A line too long for the model is cut
into sentences, each is translated, and they are put together with the space that stood between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.contract import Source
from regard.data.batching.pair_batches import HeldOutPairs
from regard.data.reading.sentences import Piece, fit, join, split
from regard.data.reading.shards import Counts, Shard
from regard.data.tokens.tokenizer_pair import TokenizerPair
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.marks import Marks, pair_marks
from regard.decoding.reading import NO_ATTENTION, reads_source
from regard.decoding.stream import padded
from regard.decoding.translate import budget, longest, translate_tokens
from regard.decoding.translations import Candidate, Notices, Part, Say, Translation, Way, Weights
from regard.errors import DataError, RegardError, RunError
from regard.laws.check import Report, check_model
from regard.laws.encoder_laws import check_encoder
from regard.laws.reader import TIME
from regard.look.opening import Opening
from regard.metrics.alignment import Gold
from regard.metrics.perplexity import Surprise, score_targets
from regard.metrics.translation import Quality, measure
from regard.models.neural import NeuralLM
from regard.probe.alignment import AttentionErrors
from regard.probe.copying import each_read, spell
from regard.tasks.laws import draw_source, join_reports
from regard.tasks.trained_model import TrainedModel
from regard.tasks.translate.alignment import align_translation, measure_errors

FIRST_CHUNK, CHUNK = 32, 512               # lines taken at once from a stream: few at first, so that something appears


@dataclass
class TrainedTranslator(TrainedModel):
    """A translator with everything needed to use it on lines of text."""

    model: NeuralLM
    tokenizer: TokenizerPair

    @property
    def languages(self) -> tuple[str, str]:
        """The names of both languages, empty where they are not known."""
        source, _, target = str(self.tables.get("data", {}).get("langs", "")).partition("-")
        return source, target

    @property
    def attends(self) -> bool:
        """Whether it can be seen what each target word read."""
        return reads_source(self.model)

    @property
    def marks(self) -> Marks:
        return pair_marks(self.tokenizer, self.model)

    @property
    def writes(self) -> Tokenizer:
        return self.tokenizer.target

    @property
    def titles(self) -> tuple[str, str]:
        """The names of what is read and of what is written, for people."""
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
        return Opening(self.model, self.writes, self.marks, (self.marks.begin,),
                       longest(len(ids), self.context, self.model), Source(items, lengths),
                       tuple(map(self.tokenizer.source.token, ids)), text, notes)

    def spell(self, opening: Opening, found: Hypothesis) -> list[str]:
        assert opening.source is not None
        (part,) = self.spelled([opening.text], opening.source.items.tolist(), [[found]])
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
        self, lines: Sequence[str], *, notice: Say | None = None,
        on_progress: Callable[[int, int], None] | None = None, **how: Any,
    ) -> list[Translation]:
        """Each line's translation, in order; `how` is what `Way` has: beam, length_penalty, n_best, alignments ...

        `notice` hears of lines cut into sentences and of those that came to no end; `on_progress` how many sentences
        of how many are done.
        """
        if isinstance(lines, str):
            raise DataError("give a list of lines, not a single one: translate([line])")
        notices = Notices(notice)
        results = self._translate(list(lines), Way(**how), 0, on_progress)
        notices.count(results)
        notices.tell(self.context)
        return results

    def stream(
        self, lines: Iterable[str], *, notice: Say | None = None, at_a_time: int = CHUNK, **how: Any
    ) -> Iterator[Translation]:
        """Translations of lines as they come, some hundreds at a time, in bounded memory; the first ones come early."""
        way, coming, notices, number = Way(**how), iter(lines), Notices(notice), 0
        mistake: RegardError | None = None
        while mistake is None:
            some, mistake = taken(coming, at_a_time if number else min(FIRST_CHUNK, at_a_time))
            if not some and mistake is None:
                break
            results = self._translate(some, way, number, None)
            notices.count(results)
            yield from results
            number += len(some)
        notices.tell(self.context)
        if mistake is not None:
            raise mistake

    def _translate(
        self, lines: list[str], way: Way, number: int, on_progress: Callable[[int, int], None] | None
    ) -> list[Translation]:
        if way.alignments and not self.attends:
            raise RunError(NO_ATTENTION.format(cure="leave --alignments out, or train a family with attention, e.g. "
                                                    "rnn-attention"))
        cut = [self.sentences(line) for line in lines]
        texts = [piece.text for pieces in cut for piece in pieces]
        # Noise belongs to the line and the place in it, so that no other line can change it.
        numbers = [(number + at) * 2**20 + place for at, pieces in enumerate(cut) for place in range(len(pieces))]
        ids = self.encode(texts)
        found = translate_tokens(
            self.model, ids, marks=self.marks, context=self.context, how=way.search(), sampling=way.sampling,
            numbers=numbers, at_once=way.batch,
            on_batch=None if on_progress is None else lambda done: on_progress(done, len(texts)))
        parts = iter(self.spelled(texts, ids, found))
        return [self._joined(line, pieces, list(islice(parts, len(pieces))), way)
                for line, pieces in zip(lines, cut, strict=True)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*ids.tolist(), self.tokenizer.eos] for ids in self.tokenizer.source.encode_batch(texts)]

    def sentences(self, line: str) -> list[Piece]:
        """In which parts a line is read: none if blank, one if it fits, else sentences, cut further if need be."""

        def size(text: str) -> int:
            return len(self.tokenizer.source.encode(text)) + 1

        if not line.strip():
            return []
        if size(line) <= self.context:
            return [Piece(line)]
        lang = self.languages[0]
        return [piece for piece in fit(split(line, lang), size, self.context, lang) if piece.text]

    def spelled(self, texts: Sequence[str], ids: Sequence[list[int]], found: Sequence[list[Hypothesis]]) -> list[Part]:
        """The pieces of all that was found, each <unk> spelled as what was read most for it."""
        pieces = spell(self.model, self.tokenizer, texts, ids, found)
        return [Part(*each) for each in zip(texts, ids, found, pieces, strict=True)]

    def _joined(self, line: str, cut: Sequence[Piece], parts: Sequence[Part], way: Way) -> Translation:
        """One line again from its sentences; its n-th best has the n-th best of each."""
        if not parts:
            return Translation(line, n_best=(Candidate("", 0.0, 0.0, 0),))
        candidates = []
        for place in range(max(len(part.found) for part in parts)):
            places = [min(place, len(part.found) - 1) for part in parts]
            own = [part.found[at] for part, at in zip(parts, places, strict=True)]
            tokens, log_prob = sum(len(each.tokens) + each.finished for each in own), sum(each.log_prob for each in own)
            texts = [part.spelled(at) for part, at in zip(parts, places, strict=True)]
            candidates.append(Candidate(
                join(cut, texts, self.languages[1]).replace("\n", " "),
                own[0].score if len(own) == 1 else way.search().score(log_prob, tokens), log_prob, tokens,
                all(each.finished for each in own)))
        best = candidates[0]
        told = Translation(line, best.text, best.score, best.log_prob, tuple(candidates), len(parts))
        return align_translation(self, told, parts, way.words) if way.alignments else told

    # ----------------------------------------------------------------------------------- what was read

    def reads(self, sources: Sequence[list[int]], targets: Sequence[Sequence[int]]) -> list[Weights]:
        """The weights by which each token of a given target reads its source, the ends of both left out."""
        read = dict(each_read(self.model, sources, targets))
        return [read[at] for at in range(len(sources))]

    # -------------------------------------------------------------------------------------- measuring

    def score_pairs(self, sources: Sequence[str], targets: Sequence[str], notice: Say | None = None) -> Surprise:
        """The loss on given targets, each with its end; pairs too long for the model are left out, with a notice."""
        check_pairs(sources, targets)
        held_out = HeldOutPairs(shard_of(self.tokenizer.source, sources), shard_of(self.tokenizer.target, targets),
                                budget=budget(self.model, None), bos=self.tokenizer.bos, context=self.context)
        if held_out.too_long and notice is not None:
            notice(f"{held_out.too_long:,} of {len(sources):,} pairs are longer than the {self.context} tokens that "
                   "the model reads, and not in the loss")
        if not held_out.fits.any():
            raise DataError(f"every pair is longer than the {self.context} tokens that the model reads")
        return score_targets(self.model, held_out, targets)

    def quality(self, sources: Sequence[str], references: Sequence[str], **how: Any) -> Quality:
        """BLEU, chrF and exact match of its translations; `how` as in `translate`."""
        check_pairs(sources, references)
        return measure([each.text for each in self.translate(sources, **how)], references, lang=self.languages[1])

    def alignment_error(
        self, sources: Sequence[str], targets: Sequence[str], golds: Sequence[Gold], words: str = "word",
        notice: Say | None = None,
    ) -> AttentionErrors:
        """The alignment error of the attention over `words`, as it reads the sources to write the targets."""
        if not self.attends:
            raise RunError(NO_ATTENTION.format(cure="an alignment error is of a family with attention, e.g. "
                                                    "rnn-attention"))
        check_pairs(sources, targets)
        return measure_errors(self, sources, targets, golds, words, notice)


# ------------------------------------------------------------------------------------------------ parts


def taken(coming: Iterator[str], number: int) -> tuple[list[str], RegardError | None]:
    """The next lines, as many as there are; what is wrong with one of them does not lose those before it."""
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
    """Lines as a shard that is nowhere on disk."""
    tokens, ends = tokenizer.encode_lines(texts)
    return Shard(Path(), tokens, ends, Counts(tokens=len(tokens), documents=len(ends)), "", "")
