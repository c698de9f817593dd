"""The parts of the pages of `regard compare` and `regard lab`.

    page.py      the page around them, sections, figures, lists of facts
    tables.py    one table as HTML, as text for a terminal, and as Markdown
    numbers.py   numbers as a reader sees them
    curves.py    lines as inline SVG, which takes the colours of the page
    charts.py    means over seeds and their spread, as SVG and PNG files
    style.py     the style sheet
"""
