"""A task's card: everything that is known of it without torch, for `--help` and for a server that has loaded no model.

Each task has its own in the `__init__` of its folder. What learns, reads and measures is in the task's value (task.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tables = dict[str, dict[str, Any]]           # run.toml

READING = ("read", "compute")                # tabs of the page for any model
WRITING = (*READING, "generate", "beam", "compare")      # for one that writes token by token


@dataclass(frozen=True)
class Card:
    name: str                                # as in `regard train NAME`, and [run] task
    used_by: str                             # the commands for a trained run
    usual: str = "transformer"               # the family, unless told
    hurried: str = ""                        # the family in its place where a CPU has time for few steps
    runner_up: str = ""                      # the family that came next on a CPU, and where it wins
    run_name: str = "{task}-{family}"        # behind the name of the data, in that of a run's folder
    judged: tuple[str, str] | None = None    # what validation measures beside the loss: its key, and its name
    fields: tuple[str, ...] = ("text",)      # of a request: text, source or image, then the rest
    continues: bool = False                  # what it writes goes on with the text that it read
    tabs: tuple[str, ...] = WRITING          # of the page
    example: str = ""                        # to begin with, where the run tells of none
    find_example: Callable[[Tables], str] = lambda tables: ""                  # held out, of an embedded corpus
    find_examples: Callable[[Tables], list[str]] = lambda tables: []           # more to try
    api: str = ""                            # the API of other tools that serves it: completions, translate
    instead: str = "use the page"            # of the completions API
    compared: str = ""                       # the module of regard.compare that measures it

    @property
    def reads(self) -> str:
        """The field of a request that the model reads: text, source or image."""
        return self.fields[0]


# --------------------------------------------------------------------------------- examples of embedded corpora


def data_name(tables: Tables) -> str:
    """The first name among a run's files; empty where there is none."""
    files = tables.get("data", {}).get("files", [])
    return str(files[0]) if files else ""


def held_out_line(tables: Tables) -> str:
    """A line that no model learned from; empty for a corpus that is not embedded."""
    from regard.data import embedded

    name = data_name(tables)
    return next(embedded.lines(name, "valid")) if name in embedded.CORPORA else ""


def held_out_source(tables: Tables) -> str:
    """A source that no model learned from; empty for a corpus that is not embedded."""
    from regard.data import embedded

    name = data_name(tables)
    if name not in embedded.PAIRED:
        return ""
    pair = next(iter(embedded.pairs(name, "valid")))
    backward = str(tables["data"].get("langs", "")) == "-".join(reversed(embedded.PAIRED[name].languages))
    return pair.target if backward else pair.source


def held_out_texts(tables: Tables) -> list[str]:
    """Some labelled texts that no model learned from; none for a corpus that is not embedded."""
    from regard.data import embedded

    name = data_name(tables)
    return [found.text for found in embedded.labelled(name, "valid", 6)] if name in embedded.LABELLED else []


def held_out_text(tables: Tables) -> str:
    return next(iter(held_out_texts(tables)), "")


def corpus_prompts(tables: Tables) -> list[str]:
    """The prompts of the one embedded corpus that a run learned from."""
    from regard.data import embedded

    name = data_name(tables)
    single = len(tables.get("data", {}).get("files", [])) == 1 and name in embedded.CORPORA
    return list(embedded.CORPORA[name].prompts) if single else []
