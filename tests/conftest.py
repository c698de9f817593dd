"""What holds for every test."""

import gc


def pytest_collection_finish(session):
    """Leave what was collected out of every later search for garbage: some tests ask for one, and the eleven thousand
    tests themselves are a million objects that live until the end."""
    gc.collect()
    gc.freeze()
