"""Walk the README as a stranger would, from its first line to a sentence that one's own model translated; time it.

    python install/walk_readme.py [--wheel WHEEL] [--sentence "Le chat dort."] [--limit 300]

The commands of the section Install are run as they stand there, one after the other in one shell, in an empty folder.
Two things change: until Regard is published, `pip install` is given the wheel in the place of the name, as the page
says; and the sentence is the one that is asked for. What pip fetches is timed apart.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from requirements import ROOT
from try_wheel import build_wheel, clean_environment

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
LAST = "regard translate"
MARK = "walked"                               # before each command's exit code and seconds, on a line of its own


class Walked(NamedTuple):
    command: str
    seconds: float
    printed: str

    @property
    def is_download(self) -> bool:
        return self.command.startswith("pip install")


def commands_of(page: str) -> list[str]:
    """The commands of the section Install, up to the first translation."""
    section = page.partition("\n## Install\n")[2].partition("\n## ")[0]
    lines = [line.partition(" #")[0].rstrip() for block in BLOCK.findall(section) for line in block.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    last = next((place for place, line in enumerate(lines) if LAST in line), None)
    if last is None:
        raise SystemExit(f"the section Install of the README has no `{LAST}`")
    return lines[:last + 1]


def adapt(command: str, wheel: Path | None, sentence: str | None) -> str:
    if command.startswith("pip install") and wheel is not None:
        return re.sub(r'"regard(\[\w+\])"', lambda name: f'"{wheel}{name[1]}"', command)
    if LAST in command and sentence is not None:
        return re.sub(r'^echo ".*?"', lambda _: f'echo "{sentence}"', command)
    return command


def walk(commands: list[str], folder: Path) -> list[Walked]:
    """Run them in one shell, as they would be typed; stop at the first that fails."""
    walked = []
    with subprocess.Popen(["bash"], cwd=folder, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, encoding="utf-8") as shell:
        assert shell.stdin is not None and shell.stdout is not None
        for command in commands:
            print(f"$ {command}", flush=True)
            began = time.monotonic()
            shell.stdin.write(f"{command}\nprintf '\\n{MARK} %s\\n' $?\n")
            shell.stdin.flush()
            printed = []
            for line in shell.stdout:
                if line.startswith(MARK):
                    break
                printed.append(line)
                print(f"  {line}", end="", flush=True)
            else:
                raise SystemExit(f"the shell ended at: {command}")
            if line.split()[1] != "0":
                raise SystemExit(f"ended with {line.split()[1]}: {command}")
            walked.append(Walked(command, time.monotonic() - began, "".join(printed).strip()))
        shell.stdin.close()
    return walked


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="in the place of the name; built where none is given")
    parser.add_argument("--published", action="store_true", help="take `regard` from the package index")
    parser.add_argument("--sentence", help="your own, in French; else the README's")
    parser.add_argument("--limit", type=float, default=300, help="seconds, downloads apart")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="regard-walk-"))
    try:
        wheel = None if given.published else (given.wheel or build_wheel(folder)).resolve()
        page = (ROOT / "README.md").read_text("utf-8")
        commands = [adapt(command, wheel, given.sentence) for command in commands_of(page)]
        (folder / "empty").mkdir()
        walked = walk(commands, folder / "empty")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    downloads = sum(each.seconds for each in walked if each.is_download)
    rest = sum(each.seconds for each in walked) - downloads
    print(f"\n{len(walked)} commands: {rest:.0f} s, and {downloads:.0f} s for pip install; "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"the sentence became: {walked[-1].printed}")
    return 0 if rest <= given.limit and walked[-1].printed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
