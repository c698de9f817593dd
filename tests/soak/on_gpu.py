"""What the campaigns for a GPU share: small runs that train there with ordered algorithms, eager and recorded.

A process that has used a GPU cannot be forked. So the process that lives are forked from never asks for one, and each
life begins its own. `place()` is the GPU, or a CPU where REGARD_SOAK_ON=cpu tries the campaigns without one.
"""

import os
from dataclasses import replace
from importlib.util import find_spec

from tests.soak.campaign import place_of

NEEDS = {"translate": "sacrebleu", "summarise": "sacrebleu", "caption": "PIL"}       # which such a machine may lack
STEPS = dict(steps=10, valid_every=4, checkpoint_every=3)
LACKING = "torch has no ordered algorithm for"


def place():
    return place_of("cuda")


def begin():
    """Before anything else: a GPU is looked for without beginning to use it, and a first life may compile kernels."""
    os.environ |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                   "REGARD_SOAK_LONGEST": "240"}


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def variants(compiles=("capture", "no")):
    """The variants of the campaigns on a CPU, with ordered algorithms; recorded as CUDA graphs and not, by turns."""
    from tests.soak.lives import FIRST, every_variant

    learned = [each for each in (*FIRST, *every_variant())
               if not each.family.startswith("ngram") and find_spec(NEEDS.get(each.task, "torch"))]
    return [on_device(each, compiles[at % len(compiles)]) for at, each in enumerate(learned)]


def on_device(variant, compile):
    training = {**variant.settings["training"], **STEPS, "deterministic": True,
                "compile": compile if place() == "cuda" else "no"}
    return replace(variant, name=f"{variant.name}, {compile}", device=place(),
                   settings={**variant.settings, "training": training})


def refused_by_name(ended):
    """Whether a model is refused as the design states it: by an operation that has no ordered algorithm on a GPU."""
    return ended.how == "refused" and LACKING in ended.line and "\n" not in ended.line


class Known:
    """Undisturbed runs, as `lives.Undisturbed` makes them; of a model that is refused by name there is none."""

    def __init__(self, folder):
        from tests.soak.lives import Undisturbed

        self.undisturbed, self.refused = Undisturbed(folder), set()

    def __call__(self, variant):
        from tests.soak.lives import live

        if variant.name not in {*self.refused, *self.undisturbed.known}:
            ended = live(variant, self.undisturbed.folder / f"tried-{len(self.refused)}-{len(self.undisturbed.known)}")
            if refused_by_name(ended):
                self.refused.add(variant.name)
        return None if variant.name in self.refused else self.undisturbed(variant)
