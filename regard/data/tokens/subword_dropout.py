"""BPE-dropout: the same text cut into pieces differently each time, so that a small corpus gives more.

Provilkov et al. 2020. A word begins as its bytes. In each round every pair of neighbours that could merge is
dropped with a given probability; of the pairs that remain the one learned first is merged, the leftmost of
equals; the word is finished when none remains. `cut_word` says so for one word. `Recut` does the same to all
words of a shard at once, and each random number is a hash: a cut is a pure function of (shard, share, key).

(The dropout of the tokenizers library takes no seed, and where a pair has gone stale in its queue gives those
dropped before it a second chance in the same round: on our stories it gives 3 to 4% fewer pieces.)

A cut is drawn for a kind of word and not for each occurrence, but up to `DRAWS` times: the occurrences take the
draws in turn, so that a word met no more often than that has its own each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.batching.shuffle import key_of, mix
from regard.data.reading.shards import Shard
from regard.data.tokens.characters import byte_letters
from regard.data.tokens.subwords import CHUNKS, SubwordTokenizer
from regard.data.tokens.vocabulary import EOS, Ids, Tokenizer
from regard.errors import SettingError

DRAWS = 16                       # different cuts of one word at a time
LONGEST = 96                     # bytes; a longer word keeps the tokenizer's own cut
NEVER = np.iinfo(np.int32).max   # the rank of a pair that no merge joins
GONE = -1                        # what a piece leaves behind when its left neighbour takes it up

_INDEX_BITS = 32                 # of a score: its rank stands above, its place below
_NO_SCORE = np.iinfo(np.int64).max
_HASH_BITS = 53                  # of a random number, so that a share is exact as a float

Pair = tuple[int, int]
Positions = NDArray[np.int64]


class Merges:
    """The merges that a `bpe` tokenizer learned: which pairs of pieces join, which first, and what they become."""

    def __init__(self, tokenizer: SubwordTokenizer):
        model = tokenizer.to_dict()["model"]
        vocab: dict[str, int] = model["vocab"]
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        self.made = np.array([vocab[left + right] for left, right in merges], np.int32)            # by rank
        self.of_byte = np.array([vocab[letter] for letter in byte_letters()], np.int32)
        self.rank_of: dict[Pair, int] = {(vocab[left], vocab[right]): rank for rank, (left, right) in enumerate(merges)}
        self._base = len(vocab)
        pairs = sorted((left * self._base + right, rank) for (left, right), rank in self.rank_of.items())
        # One key above all others ends the table, so that a search always lands on something.
        self._keys, ranks = np.array([*pairs, (np.iinfo(np.int64).max, NEVER)], np.int64).T.copy()
        self._ranks = ranks.astype(np.int32)

    def ranks(self, left: Ids, right: Ids) -> Ids:
        """The ranks of many pairs at once; NEVER where there is none."""
        wanted = left.astype(np.int64) * self._base + right
        found = np.searchsorted(self._keys, wanted)
        return np.where(self._keys[found] == wanted, self._ranks[found], np.int32(NEVER))


def cut_word(pieces: Sequence[int], merges: Merges, dropped: Callable[[int, int], bool]) -> list[int]:
    """The definition: one word, from its bytes. `dropped(turn, place)` tells of the pair whose left begins there."""
    pieces, places = list(pieces), list(range(len(pieces)))
    for turn in count():
        left = [(merges.rank_of[pair], i) for i, pair in enumerate(pairwise(pieces))
                if pair in merges.rank_of and not dropped(turn, places[i])]
        if not left:
            break
        rank, i = min(left)
        pieces[i:i + 2] = [int(merges.made[rank])]
        del places[i + 1]
    return pieces


def drops(places: Positions, share: float, key: int) -> NDArray[np.bool_]:
    """True at the places that are dropped in the round with this key."""
    return mix(places.astype(np.uint64), key) >> np.uint64(64 - _HASH_BITS) < np.uint64(share * 2**_HASH_BITS)


class Recut:
    """The documents of a shard as words, ready to be cut anew any number of times.

    A row is one draw of one kind of word; all rows stand one behind the other in `pieces`.
    """

    def __init__(self, tokenizer: Tokenizer, shard: Shard):
        if not isinstance(tokenizer, SubwordTokenizer) or tokenizer.kind != "bpe":
            raise SettingError(f"training.subword_dropout needs tokenizer.kind = 'bpe', and it is {tokenizer.kind!r}: "
                               "change it, or leave training.subword_dropout at 0")
        assert shard.tokenizer in ("", tokenizer.digest()), "the shard was made by another tokenizer"
        self.shard, self.merges = shard, Merges(tokenizer)
        words, sequence, self.word_ends = words_of(tokenizer, shard)
        kinds, finished = first_pieces(words, tokenizer, self.merges)
        met = np.bincount(sequence, minlength=len(words))
        draws = np.where(finished, 1, np.clip(met, 1, DRAWS))
        self.rows = (np.cumsum(draws) - draws)[sequence] + occurrence(sequence, met) % draws[sequence]

        lengths = np.array([len(pieces) for pieces in kinds])
        kind_of_row = np.repeat(np.arange(len(words)), draws)
        self.lengths = lengths[kind_of_row]                                     # of each row
        self.begins = np.cumsum(self.lengths) - self.lengths
        self.pieces = np.concatenate(kinds)[stretches((np.cumsum(lengths) - lengths)[kind_of_row], self.lengths)]
        self.ranks = np.full(len(self.pieces), NEVER, np.int32)                 # of each piece with the next
        self.ranks[:-1] = self.merges.ranks(self.pieces[:-1], self.pieces[1:])
        self.ranks[self.begins + self.lengths - 1] = NEVER

    def cut(self, share: float, key: int) -> Shard:
        """Return the documents cut anew with merges dropped by `share`: 0 cuts as the tokenizer does, 1 into bytes."""
        if not 0 <= share <= 1:
            raise SettingError(f"training.subword_dropout = {share} is not a share: give 0 to 1 (0.1 is usual)")
        pieces = self._cut_rows(share, key)
        there = pieces != GONE
        lengths = np.add.reduceat(there, self.begins, dtype=np.int64)
        pieces, begins = pieces[there], np.cumsum(lengths) - lengths
        lengths = lengths[self.rows]
        tokens = pieces[stretches(begins[self.rows], lengths)].astype(self.shard.tokens.dtype)
        ends = np.concatenate(([0], np.cumsum(lengths)))[self.word_ends].astype(self.shard.ends.dtype)
        return replace(self.shard, path=Path(), tokens=tokens, ends=ends, content="",
                       counts=replace(self.shard.counts, tokens=len(tokens)))

    def _cut_rows(self, share: float, key: int) -> Ids:
        """`cut_word` for every row: their pieces, each where its first byte was, and GONE in between."""
        pieces, ranks, lengths = self.pieces.copy(), self.ranks, self.lengths
        places = np.arange(len(pieces))                              # where the pieces of unfinished rows are
        for turn in count():
            if not len(places):
                break
            best = first_left(ranks, places, lengths, share, key_of(key, turn))
            going = best != _NO_SCORE                            # (rows,)
            merged = best[going] & (2**_INDEX_BITS - 1)          # the left piece of each merge, an index into `at`
            pieces[places[merged]] = self.merges.made[ranks[merged]]
            pieces[places[merged + 1]] = GONE
            stay = np.repeat(going, lengths)
            stay[merged + 1] = False
            merged = np.cumsum(stay)[merged] - 1
            places, ranks, lengths = places[stay], ranks[stay], lengths[going] - 1
            self._rank_again(pieces, places, ranks, lengths, merged)
        return pieces

    def _rank_again(self, pieces: Ids, at: Positions, ranks: Ids, lengths: Positions, merged: Positions) -> None:
        """Look up the two pairs of each row that the new piece is in; a pair never spans two rows."""
        ends = np.cumsum(lengths)
        ranks[merged] = NEVER
        for left in (merged[merged > ends - lengths] - 1, merged[merged < ends - 1]):
            ranks[left] = self.merges.ranks(pieces[at[left]], pieces[at[left + 1]])


def first_left(ranks: Ids, at: Positions, lengths: Positions, share: float, key: int) -> Positions:
    """For each row the least (rank, index) of the pairs that were not dropped, as one number."""
    able = np.flatnonzero(ranks != NEVER)
    able = able[~drops(at[able], share, key)]
    scores = np.full(len(ranks), _NO_SCORE)
    scores[able] = (ranks[able].astype(np.int64) << _INDEX_BITS) + able
    return np.minimum.reduceat(scores, np.cumsum(lengths) - lengths)


def words_of(tokenizer: SubwordTokenizer, shard: Shard) -> tuple[list[str], Positions, Positions]:
    """The distinct words, the documents as numbers of words, and where each document ends; "" stands for <eos>."""
    find = re.compile(CHUNKS).findall
    number = {"": 0}
    sequence: list[int] = []
    word_ends = []
    begin = 0
    for end in shard.ends.tolist():
        document = shard.tokens[begin:end]
        words = find(tokenizer.decode(document))
        if len(document) and document[-1] == EOS:                # all but a text that was cut off
            words.append("")
        sequence += [number.setdefault(word, len(number)) for word in words]
        word_ends.append(len(sequence))
        begin = end
    return list(number), np.array(sequence, np.int64), np.array(word_ends, np.int64)


def first_pieces(
    words: list[str], tokenizer: SubwordTokenizer, merges: Merges
) -> tuple[list[Ids], NDArray[np.bool_]]:
    """The pieces that each word begins with, and True for the words in which nothing merges."""
    raw = [word.encode() for word in words]
    finished = np.array([len(each) > LONGEST or not each for each in raw])
    pieces = [merges.of_byte[np.frombuffer(each, np.uint8)] for each in raw]
    kept = np.flatnonzero(finished).tolist()
    for i, ids in zip(kept, tokenizer.encode_batch([words[i] for i in kept]), strict=True):
        pieces[i] = ids if words[i] else np.array([EOS], np.int32)
    return pieces, finished


def occurrence(sequence: Positions, met: Positions) -> Positions:
    """The number of times that each word of the sequence stood in it before."""
    order = np.argsort(sequence, kind="stable")
    before = np.empty_like(sequence)
    before[order] = np.arange(len(sequence)) - (np.cumsum(met) - met)[sequence[order]]
    return before


def stretches(begins: Positions, lengths: Positions) -> Positions:
    """begin, begin + 1, ... of each stretch, one behind the other."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(begins - (ends - lengths), lengths)
