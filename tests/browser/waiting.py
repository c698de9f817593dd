"""Waiting for something to be true on the page. Playwright's own `wait_for_function` is barred by the page's policy."""

import time


def until(page, true: str, seconds: float = 15.0) -> None:
    """`true` is an expression of JavaScript."""
    end = time.monotonic() + seconds
    while not page.evaluate(true):
        assert time.monotonic() < end, f"waited in vain for {true}"
        page.wait_for_timeout(20)
