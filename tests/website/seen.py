"""Open the built site in Chromium, `python -m tests.website.seen`: every page at three widths, and what axe finds.

    widths     no page is wider than the window, on a phone (360), a tablet (800) and a screen (1280)
    scripts    no page reports an error; without scripts the same text is there
    axe        no serious barrier, light and dark
    search     a word is found without a network
    looks      a saved look answers inside its frame

It wants the extra `dev` beside the built site: Playwright, axe, and a Chromium. Screenshots go to build/docs/seen.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docs.site.build import BUILD

WIDTHS = (360, 800, 1280)
SHOWN = ("index", "start/text", "tour/index", "tour/attention", "tour/cost", "how-to/training", "reference/commands",
         "performance", "compare", "code/regard/layers/attend.py")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SERIOUS = ("serious", "critical")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", type=Path, default=BUILD / "html")
    parser.add_argument("--shots", type=Path, default=BUILD / "seen")
    parser.add_argument("--every", action="store_true", help="axe on every page, and not only on one of each kind")
    given = parser.parse_args()
    given.shots.mkdir(parents=True, exist_ok=True)
    pages = [page for page in sorted(given.site.rglob("*.html"))          # looks and reports are no pages of the site
             if not {"_static", "_downloads"} & set(page.relative_to(given.site).parts)]
    names = [page.relative_to(given.site).with_suffix("").as_posix() for page in pages]
    from playwright.sync_api import sync_playwright

    with served(given.site) as url, sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, CHROMIUM)), None)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        wrong = [*too_wide(browser, url, names, given.shots), *without_scripts(browser, url),
                 *barriers(browser, url, names if given.every else SHOWN),
                 *search_fails(browser, url), *look_is_still(browser, url)]
        browser.close()
    print("\n".join(wrong), file=sys.stderr)
    print(f"{len(names)} pages at {', '.join(map(str, WIDTHS))}; axe on {len(names) if given.every else len(SHOWN)}, "
          f"light and dark: {len(wrong)} faults. Screenshots: {given.shots}")
    return 1 if wrong else 0


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site on a port of this machine, as search and frames want it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    class Patient(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A browser that leaves a page ends what it was loading: that is no fault."""

    server = Patient(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def too_wide(browser: Any, url: str, names: list[str], shots: Path) -> Iterator[str]:
    """Pages that scroll sideways, or whose scripts report an error."""
    for width in WIDTHS:
        page = browser.new_page(viewport={"width": width, "height": 900})
        said: list[str] = []
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("response", lambda it, said=said: it.status >= 400 and said.append(f"{it.url}: {it.status}"))
        for name in names:
            page.goto(f"{url}/{name}.html")
            over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if over > 0:
                yield f"{name}: {over} pixels too wide at {width}"
            yield from (f"{name} at {width}: {each}" for each in said)
            said.clear()
            if name in SHOWN:
                page.screenshot(path=shots / f"{name.replace('/', '-')}-{width}.png")
        page.close()


def without_scripts(browser: Any, url: str) -> Iterator[str]:
    """Pages that say less where scripts are off."""
    for name in SHOWN:
        lengths = []
        for on in (True, False):
            context = browser.new_context(java_script_enabled=on)
            page = context.new_page()
            answer = page.goto(f"{url}/{name}.html")
            assert answer.ok, f"{name}: {answer.status}"
            lengths.append(len(page.locator("article").inner_text()))
            context.close()
        if lengths[0] != lengths[1]:
            yield f"{name}: {lengths[0]} characters with scripts, {lengths[1]} without"


def barriers(browser: Any, url: str, names: Any) -> Iterator[str]:
    """What axe calls serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        for name in names:
            page.goto(f"{url}/{name}.html")
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in SERIOUS:
                    nodes = [node["html"][:120] for node in found["nodes"][:2]]
                    yield f"{name}, {scheme}: {found['id']} ({len(found['nodes'])}): {' '.join(nodes)}"
        page.close()


def search_fails(browser: Any, url: str) -> Iterator[str]:
    page = browser.new_page()
    page.goto(f"{url}/search.html?q=bottleneck")
    try:
        page.wait_for_selector("#search-results li a", timeout=15_000)
    except Exception as late:
        yield f"search: nothing was found ({type(late).__name__})"
    page.close()


def look_is_still(browser: Any, url: str) -> Iterator[str]:
    """A look that shows nothing, or does not change when another head is chosen."""
    page = browser.new_page(viewport={"width": 1280, "height": 1200})
    page.goto(f"{url}/_static/looks/masks.html")
    page.wait_for_timeout(500)
    before = page.screenshot()
    page.get_by_label("Head", exact=True).select_option(index=1)
    page.wait_for_timeout(500)
    if page.screenshot() == before:
        yield "the saved look does not answer when another head is chosen"
    page.close()


if __name__ == "__main__":
    sys.exit(main())
