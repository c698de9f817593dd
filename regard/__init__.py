"""Regard: every sequence model trained, compared, used and seen the same way.

The public names load on first use, so that `import regard` and `regard --help` stay fast: none of them
imports torch before it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(f"regard.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
