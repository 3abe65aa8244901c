"""matplotlib, behind one module and only when a picture is asked for: an extra of 60 MB that no server's image needs.

`cli.effectiveness_plot` and `cli.evictions_plot` draw on the figures made here; a file's format follows its name.
"""

import importlib
from pathlib import Path
from typing import Any, Final

INSTALL: Final = (
    "a picture needs matplotlib, which is not installed: pip install 'evenload[report]', or matplotlib alone"
)
DOTS_PER_INCH: Final = 120
FORMATS: Final = (".png", ".svg")


class NotInstalled(Exception):
    """matplotlib is not there; the text says how to install it."""


def figure(width_inches: float, height_inches: float) -> Any:
    """An empty figure without a window or a global state behind it; NotInstalled."""
    try:
        return importlib.import_module("matplotlib.figure").Figure(
            figsize=(width_inches, height_inches), layout="constrained"
        )
    except ImportError as error:
        raise NotInstalled(INSTALL) from error


def save(drawn: Any, path: Path) -> None:
    """Writes the figure as PNG, or as SVG where the name ends so; OSError when the file cannot be written."""
    drawn.savefig(path, dpi=DOTS_PER_INCH, format="svg" if path.suffix == ".svg" else "png")
