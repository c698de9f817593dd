"""Scaling: ten times more, from short runs.

    power_law.py      L(x) = E + A x^-alpha: its posterior on a grid, and what it predicts with an interval
    ladder.py         the runs: lengths, sizes and shares of the data, and how many steps the minutes buy
    rung_run.py       one run: trained on its own full schedule, measured, recorded
    forecast.py       a whole `regard scale`: every run, the fits, what is predicted, what is written
    forecast_page.py  the table, the sentences, the charts and the page
"""
