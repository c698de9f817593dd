"""Runs commands one after the other in one process of the faked platform: `python -m tests.other_platform.session`.

It takes a JSON list of commands, lists of words, from stdin, and prints a line of JSON of what each ended with and
printed. Where Regard opens a file without saying the encoding, the command fails.
"""

import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

# Files of others are opened as they will.
warnings.filterwarnings("error", category=EncodingWarning, module=r"regard\b")


def run(words: list[str]) -> dict:
    """A command with its standard output and error in files, as a shell would redirect them."""
    from regard.cli import main

    with tempfile.TemporaryDirectory() as folder:
        streams = {1: Path(folder, "out"), 2: Path(folder, "err")}
        before = {number: os.dup(number) for number in streams}
        for number, path in streams.items():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT)
            os.dup2(handle, number)
            os.close(handle)
        code = 0
        try:
            main(words)
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            code = traceback.format_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, handle in before.items():
                os.dup2(handle, number)
                os.close(handle)
        printed = {number: path.read_bytes().decode("utf-8", "replace") for number, path in streams.items()}
    return {"words": words, "code": code, "out": printed[1], "err": printed[2]}


if __name__ == "__main__":
    for words in json.loads(sys.stdin.buffer.read()):
        print(json.dumps(run(words)), flush=True)
