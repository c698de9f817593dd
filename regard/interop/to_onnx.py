"""ONNX: a folder of graphs for onnxruntime, with the tokenizer, their description and a program that uses them.

A model that writes has `start` and `step`, its state as inputs and outputs, and most have `whole`, which reads whole
texts; a masked model has `whole` alone. onnx_graphs.py makes them, onnx_program.py runs them.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.tokens.vocabulary import FIRST, SOURCE
from regard.errors import RunError, SettingError
from regard.interop.found_tokenizer import save_tokenizer
from regard.interop.onnx_graphs import (
    ExportGraph,
    describe,
    reads_pictures,
    stepping_graphs,
    translate,
    whole_graph,
)
from regard.interop.onnx_program import OnnxProgram
from regard.interop.onnx_readme import write_readme
from regard.interop.target import EXACT, ExportSubject, OpenedExport, Tolerance
from regard.interop.target_ids import recount_network
from regard.models.masked import MaskedModel
from regard.models.neural import NeuralLM

EXPORTERS = ("onnx", "onnxscript")         # torch's exporter needs them, and torch does not bring them


def write(subject: ExportSubject, path: Path) -> str:
    """Write the graphs, graphs.json, tokenizer.json and README.md into a new folder."""
    check_kind(subject)
    check_installed()
    network = recount_network(subject.network, subject.counting, subject.source_counting)
    storage.make_folder(path)
    kind, capacity = kind_of(network), capacity_of(subject)
    about: dict[str, Any] = {
        "name": subject.name, "kind": kind, "vocabulary": subject.counting.size, "capacity": capacity,
        "longest": longest(subject),
        "special_tokens": special_tokens(subject), "state": [], "graphs": {}, "without": {}}
    if kind == "source":
        about["source_tokenizer"] = "tokenizer.json" if subject.tokenizer.shared else SOURCE
    for graph in [] if kind == "blanks" else stepping_graphs(network, capacity):
        about["graphs"][graph.name] = write_graph(graph, path)
        about["state"] = [name for name in graph.inputs if name != "tokens"]
    write_whole(network, capacity, path, about)
    save_tokenizer(subject, path)
    storage.write_file(path / "graphs.json", json.dumps(about, indent=1) + "\n")
    storage.write_file(path / "README.md", write_readme(subject.name, kind, about, getattr(network, "one_text", False)))
    return f"graphs of ONNX ({', '.join(about['graphs'])})"


def write_whole(network: Any, capacity: int | None, folder: Path, about: dict[str, Any]) -> None:
    """Write the graph that reads whole texts, or the reason why there is none: a model that steps can do without."""
    graph = whole_graph(network, capacity)
    if graph is None:
        about["without"]["whole"] = "each step of this decoder needs what the one before it gave"
        return
    try:
        about["graphs"]["whole"] = write_graph(graph, folder)
    except RunError as error:
        if not about["graphs"]:
            raise
        about["without"]["whole"] = str(error)


def write_graph(graph: ExportGraph, folder: Path) -> dict[str, Any]:
    """Write a graph and return its description; a model that the exporter cannot read is a RunError."""
    file = f"{graph.name}.onnx"
    try:
        program = translate(graph)
    except Exception as error:             # of the exporter, of the compiler before it, of a layer of the user's own
        told = " ".join(str(error.__cause__ or error).split())[:200]
        raise RunError(f"torch cannot export {graph.name}: {type(error).__name__}: {told}") from error
    program.save(folder / file)
    return describe(program, file)


def check_kind(subject: ExportSubject) -> None:
    """Refuse what has no graphs."""
    family = subject.tables["run"]["family"]
    if isinstance(subject.network, NeuralLM | MaskedModel):
        if subject.found is None or not subject.found.pieces:
            return
        raise SettingError("--to onnx: this translator came with SentencePiece models, and one tokenizer.json holds "
                           "none of them; export with --to ct2 or --to hf")
    if subject.writes_on:
        raise SettingError(f"--to onnx: a run of {family} has no network; --to arpa writes what it has counted")
    raise SettingError("--to onnx: a model that labels texts has no graphs yet; language models, translators, "
                       "summarisers, captioners and masked models have")


def check_installed() -> None:
    """Refuse to begin without what torch's exporter needs."""
    for name in EXPORTERS:
        try:
            import_module(name)
        except ImportError:
            raise RunError(f"--to onnx: {name} is not installed, and torch's exporter needs it: "
                           "pip install 'regard[onnx]'") from None


def kind_of(network: Any) -> str:
    """Return what the model reads: a text, a source, a picture, or a text with blanks."""
    if hasattr(network, "mask"):
        return "blanks"
    if not network.needs_source:
        return "text"
    return "picture" if reads_pictures(network) else "source"


def capacity_of(subject: ExportSubject) -> int | None:
    """Return the number of tokens that a state has room for, or that are read at once; None: any number."""
    return subject.network.context             # type: ignore[no-any-return]


def longest(subject: ExportSubject) -> int | None:
    """Return the most tokens of a text, without its source; None: as many as one likes."""
    return None if subject.network.context is None else subject.trained.context


def special_tokens(subject: ExportSubject) -> dict[str, Any]:
    """Return the tokens with a meaning of their own: where a text begins and ends, and those that are never written."""
    of, missing = subject.counting.of, subject.tokenizer.missing
    if hasattr(subject.network, "mask"):
        mask = subject.network.mask
        return {"begin": subject.token("bos"), "end": subject.token("eos"),
                "closing": [subject.token("eos")] * subject.trained.framed, "mask": of(mask),
                "banned": [of(id) for id in (*range(FIRST), mask) if id not in missing]}
    special = subject.trained.special_tokens
    return {"begin": of(special.begin), "end": of(special.end),
            "source_end": subject.source_counting.of(subject.tokenizer.eos), "pad": subject.token("pad"),
            "unknown": subject.token("unk"), "banned": [of(id) for id in special.banned if id not in missing]}


# ------------------------------------------------------------------------------------------------------ the check


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return EXACT


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Open the graphs in onnxruntime."""
    program = OnnxProgram(path)
    return OpenedExport("onnxruntime", program.version, program.log_probs,
                        program.greedy if "step" in program.sessions else None,
                        notes=tuple(f"no {name}.onnx: {why}" for name, why in program.about["without"].items()))
