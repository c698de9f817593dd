"""Runs scripts in Triton's interpreter, which must be asked for before Triton is first imported.

A process that has imported torch and Triton so forks for each script: importing them takes longer than the scripts do.
"""

import atexit
import functools
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

SCRIPTS = Path(__file__).parent / "cuda"


def interpret(script, *arguments):
    """Run a script of cuda/, or another; return what it printed. The test fails with that, if the script fails."""
    server = start_server()
    server.stdin.write(json.dumps([str(SCRIPTS / script), *arguments]) + "\n")
    server.stdin.flush()
    code, said = json.loads(server.stdout.readline())
    assert code == 0, said[-3000:]
    return said


@functools.cache
def start_server():
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"})
    atexit.register(server.communicate)                       # which closes its stdin, and so ends it
    return server


def serve():
    import torch._dynamo
    import triton.language

    import regard.decoding.sampling
    import regard.kernels.cross_entropy

    assert torch and triton and regard
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                run(json.loads(line), said)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            print(json.dumps([code, said.read()]), flush=True)


def run(words, said):
    """Run a script in a child, which ends with it."""
    code = 1
    try:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
