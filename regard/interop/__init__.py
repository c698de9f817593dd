"""Export: a trained model leaves for another program, is opened there, and is compared with what it was.

A target is a module to_NAME.py with the functions of `ExportTarget`. It is imported when it is asked for, and the
program that it writes for only to check the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from regard.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from regard.interop.target import ExportTarget

__all__ = ["TARGETS", "TargetRow", "find_target"]


@dataclass(frozen=True)
class TargetRow:
    """A target as help texts show it: nothing of it is imported yet."""

    about: str
    program: str                           # opens what is written
    install: str                           # what to install for the check; empty: nothing beyond Regard
    precisions: tuple[str, ...]            # of the weights; the first is the default
    suffix: str = ""                       # of the file; empty: a folder is written
    counted: bool = False                  # it holds n-grams and no network
    recounted: bool = True                 # tokens count as they did before an import, and not as ours do

    @property
    def is_folder(self) -> bool:
        return not self.suffix


TARGETS = {
    "hf": TargetRow("a folder that transformers opens, with tokenizer and model card", "transformers", "regard[hf]",
                    ("float32", "float16")),
    "gguf": TargetRow("one file for llama.cpp", "llama.cpp", "llama-cpp-python", ("f32", "f16", "q8_0"), ".gguf"),
    "ct2": TargetRow("a folder for CTranslate2", "CTranslate2", "regard[ct2]", ("float32", "float16", "int8")),
    "onnx": TargetRow("graphs for onnxruntime, their state as inputs and outputs", "onnxruntime", "regard[onnx]",
                      ("float32",)),
    "arpa": TargetRow("an n-gram as text, for KenLM", "KenLM", "kenlm", ("float32",), ".arpa",
                      counted=True, recounted=False),
    "safetensors": TargetRow("the weights alone, by plain names", "safetensors", "", ("float32", "float16"),
                             ".safetensors", recounted=False),
}


def find_target(name: str) -> ExportTarget:
    """Return the module of a target; an unknown name is a SettingError."""
    if name not in TARGETS:
        raise SettingError(f"--to {name}: there is no such target{did_you_mean(name, TARGETS)}")
    return cast("ExportTarget", import_module(f"regard.interop.to_{name}"))
