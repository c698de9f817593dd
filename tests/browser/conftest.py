"""A real server over small runs, and a real browser that may reach nothing else.

Where there is no Chromium the tests are skipped with a reason; `make test` installs one where it can. Pictures of what
was seen are kept in build/browser.
"""

import re
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page is served by the extra `web`")
pytest.importorskip("playwright", reason="needs playwright, of the extra `dev`")

from playwright import sync_api

from regard.cli.serve import find_finished
from regard.lab.folders import find_results
from regard.serve.app import make_app
from regard.serve.registry import Registry
from regard.serve.server import Server, ServerSettings, address_of, configure, listen
from tests.served_runs import RUNS, shared_folder, train

SHOTS = Path(__file__).parents[2] / "build" / "browser"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SIZE = {"width": 1280, "height": 800}
HERE = re.compile(r"(http://127\.0\.0\.1|http://localhost|file:|data:|blob:|about:)")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
         "--process-per-site", "--disable-site-isolation-trials"]           # a page does not start a process of its own


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    folder = shared_folder(tmp_path_factory)
    train(folder)
    return folder / "runs"


class Served:
    """The server of `regard serve` in a thread of this process; tests/cli starts it as a process of its own."""

    def __init__(self, *named, folder=None, lab=None):
        registry = Registry(named or find_finished(folder), device="cpu", lenient=not named)
        listening = listen("127.0.0.1", 0)
        self.url = address_of(listening, "127.0.0.1")
        self.server = Server(configure(make_app(registry, ServerSettings(runs=folder, lab=find_results(lab)))))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.stop()
        self.thread.join(20)
        assert not self.thread.is_alive(), "the server did not stop"


@contextmanager
def serve_to(page, *named, **asked):
    """The address of a server that ends with the block. The page leaves it first: a server that stops answers 503 to
    what is still asked, and the browser says that on the console."""
    server = Served(*named, **asked)
    try:
        yield server.url
    finally:
        page.goto("about:blank")
        server.stop()


@pytest.fixture(scope="package")
def served(runs, tmp_path_factory):
    server = Served(*(runs / name for name in RUNS), lab=tmp_path_factory.mktemp("no-results"))
    yield server.url
    server.stop()


@pytest.fixture(scope="package")
def browser():
    """Ended behind the last test here: while it runs, this thread has an event loop, and can start no other."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package `chromium`")
    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(params=["light"])
def theme(request):
    return request.param


@pytest.fixture(scope="package")
def contexts(browser):
    """A browser context for each theme. All tests share them: what a page shows is in its address and nowhere else."""
    made = {theme: browser.new_context(viewport=SIZE, color_scheme=theme, accept_downloads=True)
            for theme in ("light", "dark")}
    for context in made.values():
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(60_000)                # a limit for a busy machine, not a wait
    yield made
    for context in made.values():
        kept = context.storage_state(indexed_db=True)
        context.close()
        assert not kept["cookies"] and not kept["origins"], f"a page kept something: {kept}"


@pytest.fixture(scope="package")
def tabs(contexts):
    """One tab for each theme, made when it is asked for. To close a tab ends its process, and the next starts one."""
    return {}


@pytest.fixture
def shared_tab(contexts, tabs, theme):
    """The shared tab of a theme, blank before and after the test, as large as it was, with nothing answered for it."""
    if theme not in tabs or tabs[theme].is_closed():
        tabs[theme] = contexts[theme].new_page()
    tab, listeners = tabs[theme], []

    def listen_to(event, listener):
        listeners.append((event, listener))
        tab.on(event, listener)

    tab.listen_to = listen_to
    yield tab
    tab.unroute_all()
    if tab.url != "about:blank":
        tab.goto("about:blank")
    tab.mouse.move(0, 0)
    if tab.viewport_size != SIZE:
        tab.set_viewport_size(SIZE)
    for event, listener in listeners:
        tab.remove_listener(event, listener)


@pytest.fixture
def page(shared_tab):
    """The tab; the test fails if anything was said on the console or asked of another machine."""
    tab, troubles = shared_tab, list[str]()
    tab.listen_to("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    tab.listen_to("pageerror", lambda error: troubles.append(str(error)))
    tab.listen_to("request", lambda asked: HERE.match(asked.url) or troubles.append(f"asked for {asked.url}"))
    tab.troubles = troubles
    yield tab
    tab.goto("about:blank")
    assert not troubles, troubles


def shot(page, name: str) -> Path:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
    return SHOTS / f"{name}.png"


def serious(page) -> list[str]:
    """What axe finds that bars somebody from the page: serious and critical violations."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found
            if each["impact"] in ("serious", "critical")]
