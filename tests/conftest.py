"""What holds for every test."""

import gc
import os
import shutil
import tempfile

CODE = "TORCHINDUCTOR_CACHE_DIR"


def pytest_configure(config):
    """Let torch's compiler keep its code, and the header that all of it begins with, in one folder for the session.

    Else each process compiles them anew, ten seconds for the header alone; workers inherit the variable."""
    gc.disable()                                                     # while tests are collected nothing is garbage
    config.sync, os.fsync = os.fsync, os.fstat                       # no test's files need outlive a power cut
    if CODE not in os.environ:
        config.compiled_code = os.environ[CODE] = tempfile.mkdtemp(prefix="regard-tests-")


def pytest_unconfigure(config):
    os.fsync = config.sync
    if hasattr(config, "compiled_code"):
        del os.environ[CODE]
        shutil.rmtree(config.compiled_code, ignore_errors=True)


def pytest_collection_finish(session):
    """Leave what was collected out of every later search for garbage: the eleven thousand tests are a million objects
    that live until the end. Look for garbage more rarely than Python does; what refers to itself is small here."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
