"""Regard: every sequence model trained, compared, used and seen the same way.

The public names load on first use, so that `import regard` and `regard --help` stay fast: none of them
imports torch before it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:                                            # the same names for a type checker, which runs nothing
    from regard.contract import Encoder as Encoder
    from regard.contract import LanguageModel as LanguageModel
    from regard.contract import Memory as Memory
    from regard.contract import SequenceLayer as SequenceLayer
    from regard.contract import Source as Source
    from regard.contract import State as State
    from regard.errors import RegardError as RegardError
    from regard.inference.answer_files import answer_files as answer_files
    from regard.interop.export import export as export
    from regard.interop.importing import import_model as import_model
    from regard.interop.pulling import pull as pull
    from regard.interop.pushing import push as push
    from regard.look.influence import influence as influence
    from regard.notebook import show as show
    from regard.planning.run_plan import plan_training as plan_training
    from regard.tasks.caption.trained import TrainedCaptioner as TrainedCaptioner
    from regard.tasks.classify.trained import TrainedClassifier as TrainedClassifier
    from regard.tasks.lm.trained import Trained as Trained
    from regard.tasks.masked.trained import TrainedMasked as TrainedMasked
    from regard.tasks.summarise.trained import TrainedSummariser as TrainedSummariser
    from regard.tasks.tag.trained import TrainedTagger as TrainedTagger
    from regard.tasks.translate.trained import TrainedTranslator as TrainedTranslator
    from regard.trained import load as load
    from regard.training.run import train as train
    from regard.watching import watch as watch

__version__ = "0.1.0"

_HOME = {
    "State": "contract",
    "SequenceLayer": "contract",
    "Encoder": "contract",
    "LanguageModel": "contract",
    "Memory": "contract",
    "Source": "contract",
    "TrainedTranslator": "tasks.translate.trained",
    "TrainedCaptioner": "tasks.caption.trained",
    "TrainedSummariser": "tasks.summarise.trained",
    "TrainedClassifier": "tasks.classify.trained",
    "TrainedTagger": "tasks.tag.trained",
    "watch": "watching",
    "influence": "look.influence",
    "RegardError": "errors",
    "load": "trained",
    "Trained": "tasks.lm.trained",
    "TrainedMasked": "tasks.masked.trained",
    "show": "notebook",
    "train": "training.run",
    "plan_training": "planning.run_plan",
    "answer_files": "inference.answer_files",
    "export": "interop.export",
    "import_model": "interop.importing",
    "push": "interop.pushing",
    "pull": "interop.pulling",
}

__all__ = ["__version__", *sorted(_HOME)]


if not TYPE_CHECKING:                                        # with it any name would be one, a misspelt one too

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'regard' has no attribute {name!r}")
        return getattr(import_module(f"regard.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
