"""How Sphinx builds these pages: ``make docs``."""

project = "hetpart"
extensions = ["myst_parser", "sphinx_click"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "hetpart"
html_extra_path = ["plan.schema.json", "diff.schema.json"]
html_show_copyright = False
nitpicky = True
