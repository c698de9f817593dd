"""The style sheet of all reports: for light and dark pages, for wide and narrow ones, and for print."""

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1d232a; --soft: #56606b; --line: #d9dee4; --tint: #f5f7f9;
  --best: #e8f3ec; --base: #fbf3e2; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --ink: #e4e8ec; --soft: #9aa5b1; --line: #343c46; --tint: #1c2229; --best: #1b3226;
    --base: #35301f; --bad: #ff8f85; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 84rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .3rem; } .grid + h3 { margin-top: 1.4rem; }
p, ul, dl { max-width: 62rem; }
.lead { font-size: 1.08rem; }
.soft, .notes, figcaption { color: var(--soft); font-size: .9rem; }
.notes { padding-left: 1.1rem; }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
pre { margin: 0; padding: .7rem .9rem; background: var(--tint); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child, .left { text-align: left; }
tbody th { font-weight: 600; }
tbody td:last-child { white-space: normal; }
tr.best { background: var(--best); } tr.base { background: var(--base); }
td.failed { text-align: left; white-space: normal; color: var(--bad); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1.2rem 1.6rem; }
figure { margin: 0; }
img { background: #fff; border-radius: 6px; width: 100%; max-width: 46rem; height: auto; display: block;
  margin-bottom: .8rem; }
.sample b { font-weight: 700; text-decoration: underline; text-decoration-color: var(--soft);
  text-underline-offset: 3px; }
.sample pre + pre { margin-top: .5rem; }
.dot { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; margin-right: .45rem;
  border: 1px solid var(--line); }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0; color: var(--soft); }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media print { body { max-width: none; } .scroll { overflow: visible; } }
"""
