"""`regard completion`: the script by which bash, zsh or fish completes commands, options, families and file names.

The script asks `regard` itself at each press of Tab, by click's own protocol; nothing slow is imported for an answer.
"""

from __future__ import annotations

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

VARIABLE = "_REGARD_COMPLETE"          # set by the script when it asks for completions
INSTALL = {
    "bash": 'eval "$(regard completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(regard completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "regard completion fish | source       # in ~/.config/fish/config.fish",
}


class FilesToo(ShellComplete):
    """Completion that offers files and folders where nothing else is known of a value: a run, a text, pairs."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        return found or ([] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")])


class Bash(FilesToo, BashComplete):
    """Completion in bash 4.4 and newer."""


class Zsh(FilesToo, ZshComplete):
    """Completion in zsh."""


class Fish(FilesToo, FishComplete):
    """Completion in fish."""


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def register_shells() -> None:
    """Let click answer with these classes when a shell asks."""
    for name, kind in SHELLS.items():
        add_completion_class(kind, name)


@click.command("completion", epilog="Install it with one line:\n\n\b\n" + "\n".join(INSTALL.values()))
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print the script that completes commands, options and file names in SHELL."""
    from regard.cli import root

    click.echo(SHELLS[shell](root, {}, "regard", VARIABLE).source())
