"""The parts of the code, and which mutants a seed draws from them.

Every fault of every part has an id that does not change when lines move. A seed sorts the faults of each part and
operator by a hash; one is taken from each part in turn, from its operators in turn. So a larger count adds to a
smaller one, and a change of one file leaves the draw from the others as it was.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mutants.operators import Change, find_changes

ROOT = Path(__file__).parent.parent
SEED = 7

# Left out: what runs on a GPU only, which the tests of a plain machine skip or imitate.
WITH_GPU = {f"regard/decoding/fast/{name}.py" for name in ("recorded_stream", "recorded_beam")}
PARTS = {
    "layers": ["regard/contract.py", "regard/watching.py", "regard/layers/*.py"],
    "models": ["regard/models/encoders.py", "regard/models/masked.py", "regard/models/neural.py",
               "regard/models/seq2seq.py", "regard/models/vision.py", "regard/models/ngram/*.py"],
    "kernels": [f"regard/kernels/{name}.py" for name in
                ("add_norm", "attend_next", "attend_source", "attention", "cpu/packing", "sample", "dropout",
                 "feed_forward", "host", "in_blocks", "linear", "log_softmax", "norm", "precision", "fused_recurrence",
                 "rotary", "scan", "selective_scan", "state_space_dual", "grouped_dual")],
    "losses": ["regard/models/head.py", "regard/kernels/cross_entropy.py",
               "regard/tasks/*.py", "regard/tasks/*/task.py", "regard/tasks/lm/batches.py",
               "regard/tasks/masked/hiding.py", "regard/data/batching/text_batches.py",
               "regard/data/batching/pair_batches.py", "regard/training/step.py",
               "regard/training/optim.py", "regard/training/schedule.py"],
    "decoding": ["regard/decoding/*.py", "regard/decoding/fast/*.py"],
    "metrics": ["regard/metrics/*.py"],
    "splits": ["regard/data/reading/split.py", "regard/data/batching/shuffle.py", "regard/data/reading/corpus.py",
               "regard/data/pairs/pair_corpus.py", "regard/data/pictures/picture_corpus.py",
               "regard/data/reading/shards.py"],
    "checkpoints": ["regard/run_folder.py", "regard/storage.py", "regard/manifest.py", "regard/run_lock.py",
                    "regard/training/checkpoint.py", "regard/training/request.py", "regard/training/averaging.py"],
    "security": ["regard/serve/security.py", "regard/serve/limits.py", "regard/serve/refusals.py",
                 "regard/kernels/cpu/private.py", "regard/kernels/cpu/compiled_code.py"],
}


@dataclass(frozen=True)
class Mutant:
    id: str
    part: str
    path: str                    # of the file, from the root
    change: Change

    def write(self, root: Path) -> None:
        (root / self.path).write_text(self.change.apply((root / self.path).read_text("utf-8")), "utf-8")


def find_files(part: str, root: Path = ROOT) -> list[str]:
    found = [path.relative_to(root).as_posix() for pattern in PARTS[part] for path in sorted(root.glob(pattern))]
    return [path for path in found if path not in WITH_GPU]


def find_mutants(part: str, root: Path = ROOT) -> list[Mutant]:
    """All mutants of a part. An id is made of what changes and where, by name: of two alike, the second is counted."""
    found = []
    for path in find_files(part, root):
        alike: Counter[str] = Counter()
        for change in find_changes((root / path).read_text("utf-8")):
            key = "\0".join((path, change.scope, change.operator, change.before, change.after))
            found.append(Mutant(_hash(f"{key}\0{alike[key]}"), part, path, change))
            alike[key] += 1
    return found


def draw(count: int, seed: int = SEED, root: Path = ROOT) -> list[Mutant]:
    """The first `count` mutants of a seed, spread evenly over parts and operators."""
    orders = [_in_turn(_by_operator(find_mutants(part, root), seed)) for part in PARTS]
    return list(islice(_in_turn(orders), count))


def _by_operator(mutants: list[Mutant], seed: int) -> list[Iterator[Mutant]]:
    drawn = sorted(mutants, key=lambda each: _hash(f"{seed} {each.id}"))
    operators = sorted({each.change.operator for each in drawn})
    return [iter([each for each in drawn if each.change.operator == operator]) for operator in operators]


def _in_turn(orders: list[Iterator[Mutant]]) -> Iterator[Mutant]:
    """One from each, again and again, until all are empty."""
    while orders:
        left = []
        for order in orders:
            first = next(order, None)
            if first is not None:
                left.append(order)
                yield first
        orders = left


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
