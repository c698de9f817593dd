"""What Sphinx is told. `make docs` calls it through build.py."""

import regard

project = "Regard"
author = "The authors of Regard"
copyright = "2026, the authors of Regard"
release = version = regard.__version__

extensions = ["myst_parser", "docs.site.directives"]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_dmath_double_inline = True
html_math_renderer = "mathml"
nitpicky = True
master_doc = "index"
exclude_patterns: list[str] = []
suppress_warnings = ["toc.not_included"]              # pages of code, and of the project, are reached by links
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
smartquotes = False

html_theme = "furo"
html_title = "Regard"
html_static_path = ["ours"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_last_updated_fmt = None
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8a3d00", "color-brand-content": "#8a3d00",
                            "color-brand-visited": "#6b3a8a", "color-foreground-muted": "#5a6069"},
    "dark_css_variables": {"color-brand-primary": "#ffb375", "color-brand-content": "#ffb375",
                           "color-brand-visited": "#d2a8ff"},
    "navigation_with_keys": False,
    "top_of_page_buttons": [],
}
