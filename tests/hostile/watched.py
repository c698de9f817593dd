"""What a command does while it is watched, by the interpreter's audit events: what it writes, runs and starts."""

import os
import sys
import threading
from pathlib import Path

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = {"os.mkdir": (0,), "os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.link": (1,),
            "os.symlink": (1,), "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,)}
STARTING = {"subprocess.Popen": 0, "os.system": 0, "os.exec": 0, "os.posix_spawn": 0}
BUILDERS = ("cc", "gcc", "c++", "g++", "lscpu")          # kernels are built on this machine: kernels/cpu/native.py


class Watch:
    """Breaches while it is on: a write outside of `allowed`, code that is run from `distrusted`, or another program."""

    def __init__(self):
        self.on, self.breaches, self.allowed, self.distrusted = False, [], (), ""
        self.busy = threading.local()
        sys.addaudithook(self.heard)

    def start(self, allowed, distrusted):
        self.allowed = (*(os.path.realpath(path) for path in allowed), "/dev", "/proc/self")
        self.distrusted, self.breaches, self.on = os.path.realpath(distrusted), [], True

    def stop(self):
        self.on = False
        return self.breaches

    def heard(self, event, values):
        if not self.on or getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            self.judge(event, values)
        finally:
            self.busy.now = False

    def judge(self, event, values):
        if event == "open" and (values[2] or 0) & WRITING:
            self.wrote(values[0], event)
        elif event in CHANGING:
            for place in CHANGING[event]:
                self.wrote(values[place], event)
        elif event == "exec":
            self.ran(values[0].co_filename, event)
        elif event == "import":
            self.ran(values[1], event)
        elif event == "ctypes.dlopen":
            self.ran(values[0], event)
        elif event in STARTING and Path(str(values[STARTING[event]])).name not in BUILDERS:
            self.breaches.append(f"{event} {values[STARTING[event]]!r}")

    def wrote(self, path, event):
        if isinstance(path, int) or path is None:
            return
        path = os.fsdecode(path)
        whole = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        whole = os.path.realpath(whole) if event == "open" else whole
        if os.path.isabs(path) or event == "open":               # others may be relative to an open folder
            self.judge_place(whole, event)

    def judge_place(self, whole, event):
        if not any(whole == place or whole.startswith(place + os.sep) for place in self.allowed):
            self.breaches.append(f"{event} writes {whole}")

    def ran(self, path, event):
        inside = self.distrusted + os.sep
        if isinstance(path, str) and not path.startswith("<") and os.path.realpath(path).startswith(inside):
            self.breaches.append(f"{event} of code in the folder: {path}")
