"""How fast the page is: first paint, usable, the atlas, pointing, and how much code it is.

    python bench/page.py                      # 12 layers of 12 heads reading 512 tokens, 6 of 8 reading 1,000

The models are blank but of full size; the server runs on this machine, the browser is Debian's Chromium. Figures depend
on what else the machine does: run it twice, and alone. Budgets: code 200 kB, first paint 0.5 s, usable 1 s, the atlas
1.5 s after the model has read, pointing 50 ms (95th percentile) at 512 tokens and 100 ms at 1,000.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from regard.corpora import stories

PAGE = Path(__file__).parent.parent / "regard" / "look" / "page"
SIZES = {"512": ("--layers", "12", "--heads", "12", "--width", "96"),
         "1000": ("--layers", "6", "--heads", "8", "--width", "64")}
POINTS = 200                                  # places that are pointed at

PAINTED = """() => new Promise(done => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  if (found) return done(found.startTime);
  const seen = list => list.getEntriesByName("first-contentful-paint").forEach(each => done(each.startTime));
  new PerformanceObserver(seen).observe({ type: "paint", buffered: true });
})"""
POINTING = """async points => {
  const over = document.querySelector(".read-over"), box = over.getBoundingClientRect(), took = [];
  const place = document.querySelector(".read-cells").dataset;
  const frame = () => new Promise(requestAnimationFrame);
  for (let at = 0; at < points; at++) {
    const row = (at * 7) % +place.rows, column = (at * 13) % +place.columns;
    await frame();
    const from = performance.now();
    const clientX = box.left + +place.left + (column + .5) * +place.across;
    const clientY = box.top + +place.top + (row + .5) * +place.down;
    over.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    await frame();                              // what is drawn for it was asked for before this
    took.push(performance.now() - from);
  }
  return took;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", choices=list(SIZES), action="append", help="512, 1000, or both (the default)")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    if options.browser is None:
        sys.exit("no Chromium here: give --browser PATH")
    print(f"code           {sum(path.stat().st_size for path in PAGE.iterdir()) / 1000:8.1f} kB")
    with tempfile.TemporaryDirectory() as folder:
        for tokens in options.tokens or SIZES:
            measure(Path(folder), tokens, options.browser)


def measure(folder: Path, tokens: str, browser: str) -> None:
    run, text = blank_run(folder, tokens), words(int(tokens) - 1)
    server = subprocess.Popen([sys.executable, "-m", "regard", "serve", str(run), "--port", "0"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as play:
            chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
            tell(tokens, timed(chromium, address_of(server), run.name, text))
            chromium.close()
    finally:
        server.terminate()
        server.wait(20)


def blank_run(folder: Path, tokens: str) -> Path:
    """A model after one step, of full size."""
    source, run = folder / "stories.txt", folder / f"blank-{tokens}"
    source.write_text("".join(f"{story}\n" for story in stories.generate(400)))
    subprocess.run([sys.executable, "-m", "regard", "train", "lm", str(source), "--tokenizer", "word", *SIZES[tokens],
                    "--context", "1024", "--batch", "1", "--steps", "1", "--device", "cpu", "--quiet",
                    "--out", str(run)], check=True)
    return run


def words(count: int) -> str:
    """A text of so many tokens: words only, each a token."""
    found = [word for story in stories.generate(400) for word in re.findall(r"\w+", story)]
    return " ".join(found[:count])


def address_of(server: Any) -> str:
    for line in server.stdout:
        if found := re.search(r"http://[\w.\[\]:]+", line):
            return found[0].rstrip("/")
    sys.exit("the server did not start")


def timed(chromium: Any, address: str, model: str, text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    view = f"{address}/#{urlencode({'models': model, 'text': text})}"
    for warm in (False, True):                # the first visit loads the model and has it read
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        tab = context.new_page()
        tab.goto(f"{address}/#{urlencode({'models': model, 'text': 'Once'})}" if not warm else view)
        tab.wait_for_selector("#panel[data-map]", timeout=120_000)
        if not warm:
            found |= reading(tab, address, model, text)
        else:
            found["usable"] = tab.evaluate("performance.now()")              # since the navigation began
            found["first paint"] = tab.evaluate(PAINTED)
            tab.wait_for_selector("#panel[data-atlas]")
            took = sorted(tab.evaluate(POINTING, POINTS))
            found["pointing, median"], found["pointing, p95"] = took[len(took) // 2], took[int(0.95 * len(took))]
            found["heap, MB"] = tab.evaluate("performance.memory.usedJSHeapSize") / 1e6
        context.close()
    return found


def reading(tab: Any, address: str, model: str, text: str) -> dict[str, float]:
    """The model reads the text; then the page asks for the atlas and draws it."""
    begun = time.perf_counter()
    answer = tab.request.post(f"{address}/api/look", data={"model": model, "text": text}, timeout=120_000)
    assert answer.ok, answer.text()
    read = time.perf_counter()
    tab.evaluate("address => { location.hash = address; }", urlencode({"models": model, "text": text}))
    id = answer.json()["id"]
    tab.wait_for_selector(f'#panel[data-atlas^="{id}"]', timeout=60_000)
    return {"the model reads": 1000 * (read - begun), "atlas after that": 1000 * (time.perf_counter() - read)}


def tell(tokens: str, found: dict[str, float]) -> None:
    layers, heads = SIZES[tokens][1], SIZES[tokens][3]
    print(f"{tokens} tokens, {layers} layers of {heads} heads")
    for name, value in found.items():
        print(f"  {name:18} {value:10.1f}{'' if 'MB' in name else ' ms'}")


if __name__ == "__main__":
    main()
