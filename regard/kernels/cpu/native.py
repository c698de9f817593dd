"""Kernels for a CPU, in C: built once where there is a compiler, kept in the cache, and called through ctypes.

Nobody needs them: where there is no compiler, plain torch does the same, and `why_not()` says so. A kept library is
loaded only from a folder that this user alone can write (`private`), only if its SHA-256 is the one it was kept with,
and from a copy of the bytes that were checked; otherwise it is built again.

    native.why_not()       # why they are not used here, in one line; empty where they are

They share the threads of torch, which brings GNU's OpenMP: two pools of threads would wait for one another's cores.
`REGARD_KERNELS=torch` in the environment keeps them out, for comparing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import storage
from regard.errors import StorageError
from regard.kernels import VARIABLE
from regard.kernels.cpu import private
from regard.kernels.cpu.onednn import cpu

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-fPIC")
PATIENCE = 60                  # seconds for a compiler, which needs a fraction of one
NUMBERS, SIZE = ctypes.c_void_p, ctypes.c_long
SIGNATURES: dict[str, list[Any]] = {
    "attend_next": [NUMBERS, SIZE] * 3 + [NUMBERS] * 2 + [SIZE] * 3 + [NUMBERS] * 5 + [SIZE] * 4 + [ctypes.c_int],
    "attend_source": [NUMBERS, SIZE] + [NUMBERS] * 2 + [SIZE] * 4 + [NUMBERS] * 2 + [SIZE] * 4 + [ctypes.c_int],
}


def can(x: Tensor) -> bool:
    """True if these kernels take a tensor like this one: float32 on a CPU, without a gradient."""
    return (x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_grad_enabled()
            and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu") and not why_not())


def why_not() -> str:
    return _loaded()[1]


def call(name: str, *values: Tensor | int | None) -> None:
    """A function of the library; tensors are told by their addresses, and the number of threads comes last."""
    library = _loaded()[0]
    assert library is not None, why_not()
    if getattr(library, name)(*(value.data_ptr() if isinstance(value, Tensor) else value for value in values),
                              torch.get_num_threads()):
        raise IndexError(f"{name}: a row would read or write beyond the slots that there are")


def in_rows(x: Tensor) -> Tensor:
    """(B, H, K) with the heads of a row side by side, as these kernels read it; a product leaves them so."""
    return x if x.stride(-1) == 1 and x.stride(-2) == x.shape[-1] else x.contiguous()


@functools.cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none. It is asked for once."""
    if os.environ.get(VARIABLE) == "torch":
        return None, f"{VARIABLE} = torch says so"
    compiler, threads = shutil.which("cc") or shutil.which("gcc"), _openmp()
    if sys.platform != "linux" or threads is None:
        return None, "kernels in C are for Linux, with a torch that brings GNU's OpenMP"
    try:
        folder, name = private.folder_of("kernels"), f"{_key(threads)}.sealed"
        built, keep = _kept(folder, name)
        if built is None and compiler is None:
            return None, "there is no C compiler (cc): install one for kernels in C"
        if built is None:
            built = _build(str(compiler), threads)
            if keep:
                _keep(folder, name, built)
        library = _load(built)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"kernels in C could not be built: {_first_line(error)}"
    for name, types in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, ctypes.c_int
    return library, ""


# ------------------------------------------------------------------------------------------------ where they come from


def _kept(folder: Path, name: str) -> tuple[bytes | None, bool]:
    """The library built before, and whether one built now may be kept there.

    Its file begins with a line, the SHA-256 of the rest. Only what this user alone can write is used.
    """
    try:
        with private.open_folder(folder) as handle:
            try:
                found = private.load_file(handle, name)
                if found is None:
                    return None, True
                head, _, data = found.partition(b"\n")
                if data and head == storage.digest(data).encode():
                    return data, True
                why = f"{name} is damaged"
            except private.NotPrivate as reason:
                why = str(reason)
            private.tell(f"kernels in C are built again: in {folder}, {why}")
            return None, True
    except private.NotPrivate as reason:
        private.tell(f"kernels in C are built for this process alone: {reason}; {private.CURE}")
    except (OSError, StorageError):                          # a cache that cannot be written to
        pass
    return None, False


def _keep(folder: Path, name: str, built: bytes) -> None:
    with suppress(OSError, StorageError), private.open_folder(folder) as handle:      # this process has it already
        private.write_file(handle, name, storage.digest(built).encode() + b"\n" + built)


def _build(compiler: str, threads: Path) -> bytes:
    """The library as bytes, built in a private folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        part, made = Path(folder) / "native.o", Path(folder) / "native.so"
        for words in ((*FLAGS, "-c", SOURCE, "-o", part), ("-shared", part, threads, "-lm", "-o", made)):
            subprocess.run([compiler, *map(str, words)], check=True, capture_output=True, text=True, timeout=PATIENCE,
                           stdin=subprocess.DEVNULL)
        return made.read_bytes()


def _load(built: bytes) -> ctypes.CDLL:
    """Load these very bytes, from a copy in memory that has no name: nobody can exchange or cut it meanwhile."""
    with suppress(AttributeError, OSError):                  # a system without such files, or that runs none of them
        handle = os.memfd_create("regard-kernels")           # stays open: the loader tells libraries apart by path
        with open(handle, "wb", closefd=False) as file:
            file.write(built)
        return ctypes.CDLL(f"/proc/self/fd/{handle}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "native.so"
        path.write_bytes(built)
        return ctypes.CDLL(str(path))


def _openmp() -> Path | None:
    """The threads of torch, which are in memory already: what is linked to this file finds them there by its name."""
    return next(iter(sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))), None)


def _key(threads: Path) -> str:
    """A hash of what a built library depends on: the source, the compiler's options and the CPU."""
    about = next((line for line in cpu().splitlines() if line.startswith(("flags", "Features"))), "")
    source = SOURCE.read_text("utf-8")
    return storage.digest("\n".join((source, *FLAGS, threads.name, torch.__version__, about)).encode())


def _first_line(error: Exception) -> str:
    told = (error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)) or type(error).__name__
    return str(told).strip().splitlines()[0]
