"""Waiting for something to be true on the page. Playwright's own `wait_for_function` is barred by the page's policy."""

import time

from playwright.sync_api import Error


def until(page, true: str, seconds: float = 15.0) -> None:
    """`true` is an expression of JavaScript."""
    end = time.monotonic() + seconds
    while not holds(page, true):
        assert time.monotonic() < end, f"waited in vain for {true}"
        page.wait_for_timeout(20)


def holds(page, true: str) -> bool:
    """False, too, while what it speaks of is not there: the page may be drawing itself anew."""
    try:
        return bool(page.evaluate(true))
    except Error as error:
        if "null" in str(error) or "undefined" in str(error) or "destroyed" in str(error):
            return False
        raise
