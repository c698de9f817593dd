"""What holds for every test."""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

GUARD = Path(__file__).parent / "guard"
sys.path.insert(0, str(GUARD))
CODE = "TORCHINDUCTOR_CACHE_DIR"


def pytest_configure(config):
    """Let torch's compiler keep its code, and the header that all of it begins with, in one folder for the session.

    Else each process compiles them anew, ten seconds for the header alone; workers inherit the variable."""
    gc.disable()                                                     # while tests are collected nothing is garbage
    config.sync, os.fsync = os.fsync, os.fstat                       # no test's files need outlive a power cut
    guard(config)
    if CODE not in os.environ:
        config.compiled_code = os.environ[CODE] = tempfile.mkdtemp(prefix="regard-tests-")


def guard(config):
    """Have every Python of this session watch itself: nothing unpickled by Regard, no address but this machine's."""
    config.breaches = Path(tempfile.mkstemp(prefix="regard-breaches-")[1])
    os.environ["REGARD_TEST_GUARD"] = str(config.breaches)
    before = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each and each != str(GUARD)]
    os.environ["PYTHONPATH"] = os.pathsep.join((str(GUARD), *before))
    import sitecustomize  # noqa: F401   here; in those that are started from here Python does so itself


@pytest.fixture(autouse=True)
def no_breach(pytestconfig):
    """A breach fails the test, though the code caught what it raised."""
    yield
    if pytestconfig.breaches.stat().st_size:
        told = pytestconfig.breaches.read_text("utf-8")
        pytestconfig.breaches.write_text("")
        pytest.fail(f"a guard was broken (tests/guard): {told}", pytrace=False)


def pytest_unconfigure(config):
    os.fsync = config.sync
    config.breaches.unlink()
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
