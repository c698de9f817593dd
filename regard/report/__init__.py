"""Reports: what the pages of `regard compare` and `regard lab` are put together from.

    page.py      the page around them, sections, figures, lists of facts
    tables.py    one table as HTML, as text for a terminal, and as Markdown
    curves.py    lines as inline SVG, which takes the colours of the page
    charts.py    what seeds scattered over, as SVG and PNG files
    style.py     the style sheet
"""
