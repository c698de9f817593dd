"""The kernels in C, built with the address and the undefined-behaviour sanitizer, and driven by sanitized.c."""

import os
import shutil
import subprocess
from pathlib import Path

from regard.kernels.cpu.native import SOURCE

DRIVER = Path(__file__).with_name("sanitized.c")
FLAGS = ("-O1", "-g", "-fopenmp", "-fno-omit-frame-pointer", "-fsanitize=address,undefined,float-cast-overflow",
         "-fno-sanitize-recover=all")


def compiler():
    return shutil.which("cc") or shutil.which("gcc")


def build(folder, source=SOURCE):
    """The program, of the kernels as they are or as a test changed them."""
    program = folder / "sanitized"
    subprocess.run([compiler(), *FLAGS, source, DRIVER, "-lm", "-o", program], check=True, capture_output=True,
                   text=True, timeout=120)
    return program


def drive(program, first, count):
    """The number of the case that failed and why; None where all are clean."""
    told = subprocess.run([program, str(first), str(count)], capture_output=True, text=True, timeout=600,
                          env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "2"})
    lines = told.stdout.split()
    if told.returncode == 0 and lines[-1:] == ["done"]:
        return None
    why = [line for line in told.stderr.splitlines() if "ERROR" in line or "runtime error" in line or "wrong:" in line]
    return int(lines[-1]) if lines else first, why[0].strip() if why else told.stderr[-300:]
