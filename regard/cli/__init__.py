"""The command line: a command parses, calls one library function and prints; heavy imports wait inside it.

Exit codes: 0 done · 1 the user's mistake, in one line · 2 wrong usage · 130 interrupted with everything saved.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from regard import __version__
from regard.errors import EndedTogether, RegardError, RegardNote, did_you_mean, one_line

# Threads that wait for work soon go to sleep. By default they spin for long, which gains nothing on a quiet machine,
# and beside another busy process can make training on two cores many times slower.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

# name -> module, and the line that --help shows: known without importing any of them
COMMANDS = {
    "demo": ("demo", "Train a French-English translator in two minutes; show translations and attention."),
    "train": ("train", "Train a language or masked model, translator, summariser, captioner, classifier or tagger."),
    "generate": ("generate", "Continue a prompt with a trained model."),
    "translate": ("translate", "Translate lines with a trained translator."),
    "summarise": ("summarise", "Summarise documents, one a line, with a trained summariser."),
    "caption": ("caption", "Caption pictures with a trained captioner."),
    "tag": ("tag", "Tag each word of a text with a trained tagger."),
    "fill": ("fill", "Fill the blanks of a text with a trained masked model."),
    "vectors": ("vectors", "Write a vector for each line of text, or find the lines nearest to a given one."),
    "classify": ("classify", "Label each line of text with a trained classifier."),
    "score": ("score", "Measure a model on a text: perplexity, or BLEU, chrF and more of a translator."),
    "show": ("show", "Draw what a model read of a text: in the terminal, or as HTML, SVG, PNG or CSV."),
    "serve": ("serve", "Open a page that shows trained models, and serve them to other programs."),
    "export": ("export", "Write a model for transformers, llama.cpp, CTranslate2, ONNX or KenLM, and compare."),
    "import": ("import_model", "Make a run of a model that another program trained."),
    "push": ("push", "Upload a run to the Hugging Face hub, with a card of what was measured."),
    "pull": ("pull", "Download a run that was pushed to the Hugging Face hub, and check it."),
    "compare": ("compare", "Train several families under one budget, and compare them."),
    "plan": ("plan", "Estimate memory, traffic and hours of training on several GPUs."),
    "scale": ("scale", "Predict the loss with ten times more minutes, parameters or data, from short runs."),
    "lab": ("lab", "Test claims of lectures by experiments, each with a verdict."),
    "course": ("course", "Five lectures, twelve exercises, and a grader that says what is wrong."),
    "data": ("data", "Embedded corpora, counts of a text file, and the cache."),
    "check": ("check", "Test the laws on a layer of your own, or on a trained model."),
    "info": ("info", "Print versions, devices, kernels, optional packages and cache, for a bug report."),
    "completion": ("completion", "Print the script that completes commands in bash, zsh or fish."),
    "man": ("man", "Write a manual page for each command, from its help."),
}


class Commands(click.Group):
    """Subcommands that are imported when they are called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return import_module(f"regard.cli.{COMMANDS[name][0]}").command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if context.resilient_parsing and args and args[0] not in COMMANDS:       # a shell asks what could follow
            return None, None, []
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]}{did_you_mean(args[0], COMMANDS)}", context)
        return super().resolve_command(context, args)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:                    # `regard generate ... | head` is no mistake
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())        # what is left is written nowhere
            raise click.exceptions.Exit(0) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="regard")
def root() -> None:
    """Train, compare, use and look into sequence models, from n-grams to Transformers.

    Begin with `regard demo`, or with `regard train lm FILE`. Models are saved under runs/. `regard COMMAND --help`
    lists the options of a command.
    """


def show_notes() -> None:
    """Print a RegardNote as one line, as often as its words are new; other warnings as Python does."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, RegardNote):
            click.echo(f"note: {one_line(str(message))}", err=True)
        else:
            usual(message, category, *where, **more)

    warnings.showwarning = show


def show_wrong_usage(mistake: click.ClickException) -> None:
    """Print what click says of it, without the control characters that an argument may have."""
    told = io.StringIO()
    mistake.show(told)
    for line in told.getvalue().removesuffix("\n").split("\n"):
        click.echo(one_line(line), err=True)


def speaks_for_all() -> bool:
    """Return whether this process speaks for all that torchrun started with this command; each would say the same."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK", "0") == "0"


def use_utf8() -> None:
    """Read and write UTF-8 in pipes and files on Windows, too, with lines that end alike: other programs read them."""
    if os.name != "nt" or "PYTHONIOENCODING" in os.environ:
        return
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            with suppress(io.UnsupportedOperation):          # somebody has read from it already
                stream.reconfigure(encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on stderr, never a traceback."""
    use_utf8()
    show_notes()
    if "_REGARD_COMPLETE" in os.environ:
        from regard.cli.completion import register_shells

        register_shells()
    try:
        root.main(arguments, prog_name="regard", standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as mistake:
        if speaks_for_all():
            show_wrong_usage(mistake)
        sys.exit(mistake.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except EndedTogether as end:                   # another rank has said why
        sys.exit(end.exit_code)
    except RegardError as mistake:
        click.echo(f"regard: {one_line(str(mistake))}", err=True)
        sys.exit(mistake.exit_code)
