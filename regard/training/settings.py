"""The settings of training: the [training] table of run.toml."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from regard.config import at_least, one_of, shares
from regard.errors import SettingError

THREADS = 1024                         # torch starts them all at once, and the process ends where that fails


@dataclass(frozen=True)
class TrainingSettings:
    steps: int = 0                     # 0: as many as the tokens or minutes allow
    tokens: int = 0                    # budget in tokens, if given
    minutes: float = 0.0               # budget in minutes, if given; the steps it buys follow the clock
    lead: float = 0.0                  # with minutes: seconds of them that passed before the first step
    plan: tuple[int, ...] = ()         # 0, steps, step, steps ...: at which steps their number was changed, and to what
    epochs: float = 0.0                # with minutes: read the text at most this often, if given
    batch: int = 32                    # rows in a step; of pairs, target tokens with their pads
    micro_batch: int = 0               # rows at once, the rest accumulated; 0: all of them
    reading: str = "auto"              # auto · windows · documents · streams (the state is carried on) · pairs
    optimizer: str = "adamw"           # adamw · muon (matrices of the stack by Muon, the rest by AdamW) · sgd
    learning_rate: float = 3e-3
    muon_rate: float = 0.02
    schedule: str = "cosine"           # cosine · wsd (warm up, stay, decay) · constant
    warmup: float = 0.02               # share of the steps in which the rate rises
    decay: float = 0.3                 # wsd: share of the steps in which it falls to nothing
    final: float = 0.0                 # where it falls to, as a share of the rate
    beta1: float = 0.9
    beta2: float = 0.95
    momentum: float = 0.9              # sgd: share of the last step that is taken again; 0: none
    weight_decay: float = 0.0
    clip: float = 1.0                  # largest gradient norm; 0: no clipping
    label_smoothing: float = 0.0
    ema: float = 0.0                   # decay of the averaged weights, e.g. 0.999; 0: none
    valid_every: int = 0               # steps between validations; 0: chosen
    valid_one_in: int = 0              # measure one held-out batch in so many; 0: chosen, 1 (all) unless it is large
    checkpoint_every: int = 0          # steps between checkpoints; 0: at validations, as far as that costs little time
    keep: int = 2                      # checkpoints kept
    patience: int = 0                  # validations without gain before stopping; 0: never
    log_every: int = 0                 # steps between rows of metrics.jsonl; 0: chosen
    samples: bool = True               # at validations, write down what the model writes now: samples.jsonl
    threads: int = 0                   # of a CPU; 0: all, or one where minutes are given and that is quicker
    precision: str = "auto"            # float32 · bfloat16 · auto (bfloat16 on a GPU)
    widths: int = 0                    # pairs: lengths are padded to multiples of this; 0: as they come
    compile: str = "auto"              # yes · no · capture (CUDA graphs) · graphs (both) · auto (GPU: both, or yes)
    recompute: str = "no"              # no · some · activations · cheap · layers: recomputed in the backward pass
    seed: int = 0
    deterministic: bool = False        # on a GPU: the same bits every time, by slower algorithms

    retired: ClassVar[dict[str, Any]] = {"subword_dropout": 0.0}       # named in the runs of older versions

    def __post_init__(self) -> None:
        one_of("training.reading", self.reading, ("auto", "windows", "documents", "streams", "pairs"))
        one_of("training.optimizer", self.optimizer, ("adamw", "muon", "sgd"))
        one_of("training.schedule", self.schedule, ("cosine", "wsd", "constant"))
        one_of("training.precision", self.precision, ("auto", "float32", "bfloat16"))
        one_of("training.recompute", self.recompute, ("no", "some", "activations", "cheap", "layers"))
        one_of("training.compile", self.compile, ("auto", "yes", "no", "graphs", "capture"))
        check_plan(self.plan, self.steps)
        at_least("training", self, 0, "steps", "tokens", "minutes", "lead", "epochs", "micro_batch", "learning_rate",
                 "muon_rate", "weight_decay", "clip", "final", "valid_every", "valid_one_in", "checkpoint_every",
                 "patience", "log_every", "widths")
        at_least("training", self, 0, "threads", most=THREADS)
        at_least("training", self, 1, "batch", "keep")
        at_least("training", self, -(2**63), "seed")
        at_least("training", self, 0, "learning_rate", "muon_rate", most=1000)
        shares("training", self, "warmup", "decay", "label_smoothing", "ema", "beta1", "beta2", "momentum")


def check_plan(plan: tuple[int, ...], steps: int) -> None:
    """Refuse a plan that no run could have recorded: steps rise, and each number of steps lies behind its step."""
    begins, totals = plan[::2], plan[1::2]
    fits = not plan or (len(begins) == len(totals) and begins[0] == 0 and totals[-1] == steps
                        and all(before < after for before, after in pairwise(begins))
                        and all(begin < total for begin, total in zip(begins, totals, strict=True))
                        and all(after < total for after, total in zip(begins[1:], totals, strict=False)))
    if not fits:
        raise SettingError(f"training.plan = {list(plan)} is no plan of {steps:,} steps: give 0, steps, step, steps, "
                           "... as a run recorded it, with its last number as training.steps")
