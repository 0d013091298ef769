"""How every plot looks and is written. Plots need matplotlib, the extra ``plot``; it is imported when one is drawn."""

# matplotlib's own types are incomplete:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.files import write_whole
from hetpart.report.escape import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
INK, FAINT, GRID = "#1f2328", "#59636e", "#d9dee3"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Colours that most colour-blind people tell apart (Okabe and Ito)."""
MARKERS = ("o", "s", "^", "D")
"""One for each colour: no plot speaks by colour alone."""
_STYLE: Mapping[str, Any] = {
    "axes.edgecolor": FAINT, "axes.facecolor": "white", "axes.labelcolor": INK, "axes.spines.right": False,
    "axes.spines.top": False, "figure.facecolor": "white", "font.family": "sans-serif", "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"], "grid.color": GRID, "grid.linewidth": 0.6,
    "savefig.facecolor": "white", "svg.fonttype": "none", "svg.hashsalt": "hetpart", "text.color": INK,
    "text.parse_math": False, "xtick.color": FAINT, "ytick.color": FAINT,
}  # fmt: skip
_DOTS_PER_INCH = 160


def require_plots(path: Path) -> None:
    """A plot can be drawn to ``path``.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidOptionError(
            f"{str(path)!r} does not say in which format to plot", hint=f"end the name in {' or '.join(FORMATS)}"
        )
    if find_spec("matplotlib") is None:
        raise HetpartError("matplotlib is not installed, so nothing can be plotted", hint="pip install 'hetpart[plot]'")


def shortened(text: str, longest: int) -> str:
    """The end of ``text``, which tells more of a name than its start, where it is longer than ``longest``."""
    return text if len(text) <= longest else f"…{text[1 - longest :]}"


def plot(path: Path, title: str, draw: Callable[[Figure], None], *, width: float = 10.0, height: float = 6.5) -> None:
    """Let ``draw`` fill a figure of this size in inches, and write it to ``path`` in one step.

    Equal plots are equal files. A text in an SVG stays text: it can be searched, and needs no font of ours.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    require_plots(path)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    file = io.BytesIO()
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Title": printable(title)} | ({"Date": None, "Creator": "hetpart"} if kind == "svg" else {})
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        style: Any = mpl.rcParams
        style.update(_STYLE)
        # A name may be in a script of which no font is here.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)  # texts are measured with it
        draw(figure)
        figure.savefig(file, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    write_whole(path, file.getvalue())
