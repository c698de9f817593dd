"""A translator's search in CTranslate2: exported once, kept in the cache, used while it is of these weights.

    model = regard.load("runs/fr-en")
    model.engine = open_engine(model)
    print(model.translate(["Le chat noir dort."])[0].text)

The export lies in the cache of Regard (`regard data cache`) under a hash of the weights, the settings, the tokenizers
and CTranslate2's version, and is sealed: one of other weights has another name, and a damaged one is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.reading.seals import check_folder, write_folder
from regard.data.reading.text_cache import Cache, key_of
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.beam import BeamOptions, Hypothesis
from regard.errors import RunError, SettingError
from regard.interop.checking import check_export, find_lines
from regard.interop.target import ExportSubject
from regard.interop.target_ids import Counting
from regard.interop.to_ct2 import INSTALL, compute_type, is_installed, names_of, open_written, tolerance, write
from regard.run_folder import WEIGHTS
from regard.tasks.translate.trained import TrainedTranslator

FORMAT = 1                             # of what `write` writes: raise it when that changes
NEARLY_ZERO = 1e-9                     # with a length penalty of 0 it ends a search by another rule
CHECKED = 20                           # lines that a fresh export is compared on
PRECISIONS = {"ct2": "float32", "ct2-float16": "float16", "ct2-int8": "int8"}

Say = Callable[[str], None]


class CT2Engine:
    """CTranslate2's beam search over one exported translator."""

    def __init__(self, trained: TrainedTranslator, folder: Path, name: str):
        import ctranslate2
        import torch

        self.name, self.before_each = name, lambda: None
        device = trained.model.device
        self.translator: Any = ctranslate2.Translator(
            str(folder), device=device.type, device_index=device.index or 0, intra_threads=torch.get_num_threads(),
            compute_type=compute_type(PRECISIONS[name]) if device.type == "cpu" else "default")
        pair = trained.tokenizer
        self.sources = our_pieces(pair.source, pair.source.vocab_size)
        self.targets = our_pieces(pair.target, trained.model.vocab)
        self.ids = {piece: id for id, piece in self.targets.items() if id not in pair.missing}
        self.end = trained.special_tokens.end
        self.banned = [[self.targets[id]] for id in trained.special_tokens.banned if id not in pair.missing]

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], options: BeamOptions
    ) -> list[list[Hypothesis] | None]:
        """Return the best targets of each source, best first; None where one of all that it found has no end."""
        given = [[self.sources[id] for id in source[:-1]] for source in sources]       # it adds the end itself
        results = self.translator.translate_batch(
            given, beam_size=options.width, num_hypotheses=options.width, length_penalty=options.length or NEARLY_ZERO,
            suppress_sequences=self.banned, return_end_token=True, max_input_length=0, max_decoding_length=max(limits),
            min_decoding_length=0)
        found = [[[self.ids[piece] for piece in pieces] for pieces in result.hypotheses] for result in results]
        whole = [all(ids[-1] == self.end and len(ids) <= limit for ids in targets)
                 for targets, limit in zip(found, limits, strict=True)]
        rows = [(n, ids[:-1]) for n, targets in enumerate(found) if whole[n] for ids in targets[:options.n_best]]
        best: list[list[Hypothesis] | None] = [[] if good else None for good in whole]
        for (n, ids), total in zip(rows, self.log_probs([(given[n], ids) for n, ids in rows]), strict=True):
            best[n].append(Hypothesis(tuple(ids), total, options.score(total, len(ids) + 1)))    # type: ignore[union-attr]
        return [each and sorted(each, key=lambda one: -one.score) for each in best]

    def log_probs(self, pairs: Sequence[tuple[list[str], list[int]]]) -> list[float]:
        """Return log p of each target with its end. Its search tells another: it leaves the tokens that are never
        written out of the softmax."""
        if not pairs:
            return []
        scored = self.translator.score_batch(
            [source for source, _ in pairs], [[self.targets[id] for id in ids] for _, ids in pairs], max_input_length=0)
        return [float(sum(each.log_probs)) for each in scored]


def our_pieces(tokenizer: Tokenizer, vocab: int) -> dict[int, str]:
    """Return the piece of each of our ids, as the export spells it."""
    counting = Counting(tokenizer, vocab)
    names = names_of(tokenizer, counting)
    return {id: names[own] for id in range(vocab) if (own := counting.of(id)) is not None}


def open_engine(trained: Any, name: str = "ct2", say: Say = lambda text: None) -> CT2Engine:
    """Return an engine for a trained translator; at first it is exported, checked and kept. `say` hears of that."""
    if name not in PRECISIONS:
        raise SettingError(f"--engine {name}: choose one of {', '.join(PRECISIONS)}")
    if not isinstance(trained, TrainedTranslator):
        raise SettingError(f"--engine {name}: CTranslate2 searches for translators, and this is a {trained.task.name} "
                           "model; leave --engine out")
    if not is_installed():
        raise SettingError(f"--engine {name}: {INSTALL}, or leave --engine out")
    return CT2Engine(trained, find_export(trained, name, say), name)


def find_export(trained: TrainedTranslator, name: str, say: Say) -> Path:
    """Return the folder of the export, made now if there is none of these weights."""
    import ctranslate2

    if trained.path is None:
        raise RunError(f"--engine {name}: the model has no run folder; save it, and load it from there")
    weights = storage.file_digest(trained.path / WEIGHTS)
    key = key_of("ct2", FORMAT, PRECISIONS[name], ctranslate2.__version__, weights, trained.tokenizer.digest(),
                 trained.tables["run"], trained.tables["model"])

    def make(path: Path) -> Path:
        return write_folder(path, lambda part: fill(trained, part, name, say), check_folder)

    folder, _ = Cache().entry("exports", key, check_folder, make)
    return folder


def fill(trained: TrainedTranslator, part: Path, name: str, say: Say) -> None:
    """Export into a folder, open it in CTranslate2, and compare."""
    subject = ExportSubject(trained, PRECISIONS[name], part.name)
    kind = write(subject, part)
    opened = open_written(subject, part)
    lines, of = find_lines(subject, held_out=False)
    checked = check_export(subject, opened, tolerance(subject, kind), lines[:CHECKED], of)
    for path in part.iterdir():
        storage.sync_file(path)
    say(f"exported for CTranslate2, in the cache of Regard: {checked.describe()}")
