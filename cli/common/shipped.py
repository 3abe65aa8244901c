"""The folder deploy/ as it is shipped: in this package where it is installed, else in the tree."""

import pathlib
from typing import Final

_CLI: Final = pathlib.Path(__file__).parents[1]
DEPLOY: Final = next(place for place in (_CLI / "deploy", _CLI.parent / "deploy") if place.is_dir())
