"""matplotlib and seaborn as pictures are drawn here: into memory by Agg, and in the project's own style.

A user's configuration has no say. A backend that does not exist (MPLBACKEND) or a `matplotlibrc` that cannot be read
would end the import with an error, and LaTeX, a style or a font of theirs would change or break the pictures.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _without_the_users_configuration() -> Iterator[None]:
    """For an import of matplotlib, which reads `./matplotlibrc`, then $MATPLOTLIBRC, and takes $MPLBACKEND on trust."""
    if "matplotlib" in sys.modules:  # then the caller's own import has already got through it
        yield
        return
    kept = {name: os.environ.pop(name, None) for name in ("MPLBACKEND", "MATPLOTLIBRC")}
    os.environ["MATPLOTLIBRC"] = os.devnull  # an empty file, and read before those in the user's home
    here = os.open(".", os.O_RDONLY) if os.path.exists("matplotlibrc") else None
    if here is not None:
        os.chdir(tempfile.gettempdir())
    try:
        yield
    finally:
        if here is not None:
            os.fchdir(here)
            os.close(here)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


with _without_the_users_configuration():
    import matplotlib
    import seaborn as sns

__all__ = ["matplotlib", "sns", "style"]


@contextmanager
def style(points: float = 9.0) -> Iterator[None]:
    """The project's style over matplotlib's own defaults, most text of that size; afterwards all is as it was."""
    own: Any = {
        **sns.axes_style("whitegrid"),
        **sns.plotting_context("notebook", font_scale=0.85 * points / 9),
        "legend.fontsize": points,
        "lines.linewidth": 1.5 * points / 9,
        "lines.markersize": 7 * points / 9,
        "pdf.fonttype": 42,  # letters stay letters: journals refuse the other kind
        "svg.hashsalt": "gpubench",
        "font.family": ["DejaVu Sans"],
        "axes.titlelocation": "left",
        "text.parse_math": False,  # a name with two dollar signs is a name
        "grid.color": "0.9",
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font lacks: boxes will do
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(own)
        yield
