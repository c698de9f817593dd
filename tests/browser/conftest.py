"""A real server over small runs, and a real browser that may reach nothing else.

Where there is no Chromium the tests are skipped with a reason; `make test` installs one where it can. Pictures of what
was seen are kept in build/browser.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.served_runs import RUNS, shared_folder, train

pytest.importorskip("fastapi", reason="the page is served by the extra `web`")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

SHOTS = Path(__file__).parents[2] / "build" / "browser"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    folder = shared_folder(tmp_path_factory)
    train(folder)
    return folder / "runs"


class Served:
    """`regard serve` as a process of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.url = self._address()

    def _address(self) -> str:
        until, told = time.monotonic() + 60, ""
        assert self.process.stdout is not None
        while time.monotonic() < until and (line := self.process.stdout.readline()):
            told += line
            if found := re.search(r"http://[\w.\[\]:]+", line):
                return found[0].rstrip("/")
        raise AssertionError(f"no address was printed:\n{told}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="session")
def served(runs, tmp_path_factory):
    server = Served(*(runs / name for name in RUNS), "--lab", tmp_path_factory.mktemp("no-results"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package `chromium`")
    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(params=["light"])
def theme(request):
    return request.param


@pytest.fixture
def page(browser, theme):
    """A page that fails the test if anything was said on the console or asked of another machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(60_000)                       # a limit for a busy machine, not a wait
    troubles: list[str] = []
    page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def only_here(route):
        if re.match(r"(http://127\.0\.0\.1|http://localhost|file:|data:|blob:|about:)", route.request.url):
            return route.continue_()
        troubles.append(f"asked for {route.request.url}")
        return route.abort()

    page.route("**/*", only_here)
    page.troubles = troubles
    yield page
    context.close()
    assert not troubles, troubles


def shot(page, name: str) -> Path:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
    return SHOTS / f"{name}.png"


def serious(page) -> list[str]:
    """What axe finds that bars somebody from the page: serious and critical violations."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found
            if each["impact"] in ("serious", "critical")]
