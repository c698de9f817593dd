"""Build the site: `python -m docs.site.build`. `make docs` calls it; warnings are errors, and so is a dead link.

    build/docs/source      the Markdown as Sphinx reads it
    build/docs/html        the site: open index.html, or serve the folder
    build/docs/models      small models and their pictures, kept from one build to the next
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from docs.site.links import dead_links
from docs.site.looks import make_looks
from docs.site.stage import ROOT, DeadLink, stage

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "docs"
MENDED = {
    r'<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    r"<pre>": '<pre tabindex="0">',
    r'<div class="(table-wrapper[^"]*)">': r'<div class="\1" tabindex="0" role="group" aria-label="Table">',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    r'<aside class="toc-drawer([^"]*)">': r'<aside class="toc-drawer\1" aria-label="On this page">'}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=BUILD, help="where the site is built")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    began = time.monotonic()
    source, html = given.out / "source", given.out / "html"
    shutil.rmtree(html, ignore_errors=True)
    try:
        stage(source)
    except DeadLink as mistake:
        print(f"docs: {mistake}", file=sys.stderr)
        return 1
    make_looks(given.out / "looks", given.out / "models")
    print(f"The pictures are drawn: {time.monotonic() - began:.0f} s", flush=True)
    code = sphinx(["-b", "html", "-c", str(HERE), "-d", str(given.out / "doctrees"), "-E", "-q", "-W", "--keep-going",
                   "-j", str(given.workers), str(source), str(html)])
    if code:
        return code
    shutil.copytree(given.out / "looks", html / "_static" / "looks", dirs_exist_ok=True)
    for page in html.rglob("*.html"):
        if "_static" not in page.relative_to(html).parts:
            page.write_text(mend(page.read_text("utf-8")), encoding="utf-8")
    wrong, followed = dead_links(html)
    print("\n".join(wrong), file=sys.stderr)
    count = len(list(html.rglob("*.html")))
    print(f"{count} pages, {followed:,} links followed, {len(wrong)} dead; {time.monotonic() - began:.0f} s: "
          f"{html.relative_to(ROOT) if html.is_relative_to(ROOT) else html}/index.html")
    return 1 if wrong else 0


def mend(page: str) -> str:
    """The page with what the theme leaves out: what scrolls can be reached by the keyboard, and has a name."""
    for before, after in MENDED.items():
        page = re.sub(before, after, page)
    return page


if __name__ == "__main__":
    sys.exit(main())
