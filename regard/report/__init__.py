"""Reports: parts of the pages that commands write.

    page.py      the page around them, sections, figures, lists of facts
    tables.py    one table as HTML, as text for a terminal, and as Markdown
    numbers.py   numbers as a reader sees them
    charts.py    lines and bars with their spread over seeds, as SVG and PNG
    style.py     the style sheet
"""
