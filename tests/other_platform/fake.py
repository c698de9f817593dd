"""A platform as Windows is, faked on Linux: what POSIX has and Windows lacks is taken away from Regard's own modules.

`start/sitecustomize.py` puts it in place before anything else is imported, in every process that finds it on its path.

    locks      no fcntl; a folder cannot be opened, nor synced
    processes  no fork, no user ids, no resource, no affinity; no preexec_fn and no pass_fds
    signals    SIGINT and SIGTERM, and no others
    links      neither symbolic nor hard
    files      one that is open or mapped in this process can be neither removed nor replaced, nor its folder renamed;
               a rename never replaces; names that Windows refuses are refused
    text       without an encoding: cp1252, and it ends lines with CR LF; so do stdout and stderr, but for a terminal

torch and the standard library keep the real platform: they have a Windows of their own. Paths keep their slashes.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ABSENT = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"}
NO_OS = {"fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "setuid", "setsid", "getpgid", "killpg", "uname",
         "nice", "getloadavg", "sched_getaffinity", "sched_setaffinity", "sched_yield", "register_at_fork", "mkfifo",
         "fchmod", "fchown", "chown", "lchown", "statvfs", "fstatvfs", "sync", "posix_fadvise", "posix_fallocate",
         "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_SYNC", "wait", "waitid", "WNOHANG", "ctermid",
         "pread", "pwrite", "preadv", "memfd_create", "sysconf", "confstr"}
NO_SIGNALS = {name for name in dir(signal) if re.match(r"SIG[A-Z]|SIGRT|ITIMER|alarm|setitimer|pthread|sig", name)} - {
    "SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_IGN", "SIG_DFL", "Signals", "Handlers",
    "signal", "getsignal"}
REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.I)
ENCODING = "cp1252"
OWN = ("regard",)                              # whose modules see the platform


class Proxy(ModuleType):
    """A module as it is on the platform: without some names, and with others in the place of its own."""

    def __init__(self, real: ModuleType, absent: set[str], instead: dict[str, Any]):
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _absent=absent, _instead=instead)

    def __getattr__(self, name: str) -> Any:
        if name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this platform")
        return self._instead[name] if name in self._instead else getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


# ------------------------------------------------------------------------------------------- files that are in use


def in_use(path: Any) -> bool:
    """Whether this process has the file, or one below the folder, open or mapped."""
    asked = os.path.realpath(path)
    held = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
    with REAL_OPEN("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        held |= {line.split(None, 5)[5].rstrip("\n") for line in maps if line.count(" /")}
    return any(each == asked or each.startswith(asked + "/") for each in held)


def busy(path: Any) -> PermissionError:
    return PermissionError(errno.EACCES, "the process cannot access the file because it is being used", str(path))


def from_tempfile() -> bool:
    """Python's own temporary files are made another way there."""
    return sys._getframe(2).f_code.co_filename == tempfile.__file__


def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
    def remove(path: Any, *others: Any, dir_fd: int | None = None, **named: Any) -> Any:
        if dir_fd is not None:                 # of shutil.rmtree, which goes by names there
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
        if not from_tempfile() and os.path.exists(path) and in_use(path):
            raise busy(path)
        return real(path, *others, **named)
    return remove


def move(real: Callable[..., Any], replaces: bool) -> Callable[..., Any]:
    def act(source: Any, target: Any, **named: Any) -> Any:
        check_name(target)
        if os.path.lexists(target) and (not replaces or os.path.isdir(target)):
            raise FileExistsError(errno.EEXIST, "cannot create a file when that file already exists", str(target))
        for path in (source, target):
            if os.path.exists(path) and in_use(path):
                raise busy(path)
        return real(source, target, **named)
    return act


def check_name(path: Any) -> None:
    name = os.path.basename(os.fspath(path))
    name = os.fsdecode(name)
    if name not in (".", "..") and REFUSED.search(name):
        raise OSError(errno.EINVAL, "the filename, directory name, or volume label syntax is incorrect", str(path))


def no_links(*paths: Any, **named: Any) -> None:
    raise OSError(errno.EPERM, "a required privilege is not held by the client", str(paths[-1]))


def open_handle(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "permission denied", str(path))
    if flags & os.O_CREAT:
        check_name(path)
    return REAL_OS_OPEN(path, flags, mode)


def open_text(file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
              newline: str | None = None, *others: Any, **named: Any) -> Any:
    """`open`, with the encoding and the ends of lines that text gets there; for Regard's modules and those it calls."""
    if isinstance(file, (str, bytes, os.PathLike)) and set(mode) & set("wxa"):
        check_name(file)
    if "b" not in mode and asked_by_regard():
        encoding = encoding if encoding not in (None, "locale") else ENCODING
        if newline is None and set(mode) & set("wxa+"):
            newline = "\r\n"
    return REAL_OPEN(file, mode, buffering, encoding, errors, newline, *others, **named)


def asked_by_regard() -> bool:
    """Whether Regard opens the file, itself or through pathlib."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pathlib"):
        frame = frame.f_back
    return frame is not None and is_own(frame.f_globals)


# ------------------------------------------------------------------------------------------------- modules, in place


def is_own(names: Any) -> bool:
    return bool(names) and str(names.get("__name__", "")).partition(".")[0] in OWN


def import_there(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """`import`, as Regard's modules meet it."""
    if level == 0 and is_own(globals):
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in PROXIES:
            return PROXIES[name]
    return REAL_IMPORT(name, globals, locals, fromlist, level)


class Process(subprocess.Popen):               # type: ignore[type-arg]
    def __init__(self, *arguments: Any, preexec_fn: Any = None, pass_fds: Any = (), **named: Any):
        if preexec_fn is not None or pass_fds:
            raise ValueError("preexec_fn and pass_fds are not supported on this platform")
        super().__init__(*arguments, **named)


REAL_OPEN, REAL_OS_OPEN, REAL_IMPORT = io.open, os.open, builtins.__import__
PROXIES: dict[str, ModuleType] = {}


def install() -> None:
    """Put the platform in place, for all that is imported from now on."""
    for name in ("unlink", "remove", "rmdir"):
        setattr(os, name, guarded(getattr(os, name)))
    os.rename, os.replace = move(os.rename, False), move(os.replace, True)
    os.symlink = os.link = no_links
    io.open = builtins.open = open_text        # type: ignore[assignment]
    os_there = {"name": "nt", "open": open_handle, "supports_fd": set(), "supports_dir_fd": set(),
                "supports_follow_symlinks": set()}
    PROXIES["os"] = Proxy(os, NO_OS, os_there)
    PROXIES["sys"] = Proxy(sys, {"getwindowsversion"}, {"platform": "win32"})
    PROXIES["signal"] = Proxy(signal, NO_SIGNALS, {})
    PROXIES["subprocess"] = Proxy(subprocess, set(), {"Popen": Process})
    builtins.__import__ = import_there
    for stream in (sys.stdout, sys.stderr):
        if not stream.isatty():
            stream.reconfigure(encoding=ENCODING, newline="\r\n")      # type: ignore[union-attr]


def names_that_clash(folder: Path) -> list[str]:
    """Names below a folder that differ by case alone."""
    seen: dict[str, str] = {}
    clashes = []
    for path in folder.rglob("*"):
        other = seen.setdefault(str(path).lower(), str(path))
        if other != str(path):
            clashes.append(str(path))
    return clashes
