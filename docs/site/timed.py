"""Type a page's commands, as they stand there, into an empty folder, and time each: `python -m docs.site.timed PAGE`.

    python -m docs.site.timed docs/start/text.md docs/start/pairs.md [--bin FOLDER] [--limit 600]

The tests run the same commands with tiny budgets; here nothing is changed. `--bin` is the folder of the `regard` that
is timed, for one that was installed elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^<!-- test: run -->\n```sh\n(.*?)^```$", re.M | re.S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a page")
    given = parser.parse_args()
    late = False
    for page in given.pages:
        took = 0.0
        with tempfile.TemporaryDirectory(prefix="regard-timed-") as folder:
            for command in commands_of(page.read_text("utf-8")):
                seconds, last = run(command, Path(folder), given.bin.absolute())
                took += seconds
                print(f"{seconds:7.1f} s   {command}\n            {last}", flush=True)
        late = late or took > given.limit
        load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
        print(f"{page}: {took:.0f} s on {os.cpu_count()} cores{load}; the limit is {given.limit:.0f} s\n", flush=True)
    return 1 if late else 0


def commands_of(page: str) -> Iterator[str]:
    for block in BLOCK.findall(page):
        yield from filter(None, (line.partition("  #")[0].rstrip() for line in block.splitlines()))


def run(command: str, folder: Path, where: Path) -> tuple[float, str]:
    """The seconds that a command took, and the last line that it printed; one that fails ends everything."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    began = time.monotonic()
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, encoding="utf-8",
                          env=outside | {"PATH": f"{where}{os.pathsep}{os.environ['PATH']}",
                                         "REGARD_CACHE": str(folder / "cache")})
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return seconds, last_line(done.stdout or done.stderr)


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main())
