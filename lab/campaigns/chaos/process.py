"""`python -m lab.campaigns.chaos.process --service NAME --shift FILE --sabotages a,b OPTIONS`: a service of a run.

Its clock can be set while it runs, it may have defects, and its code may be that of another version: of the directory
that the environment names in EVENLOAD_TREE, if it does.
"""

import importlib
import os
import pathlib
import sys
from typing import Final

from tests.contract import shifted

SERVICE: Final = "--service"
SABOTAGES: Final = "--sabotages"
TREE: Final = "EVENLOAD_TREE"


def main() -> None:
    """Takes its own options away, sets the clock, puts the defects in, and runs the service."""
    service = shifted.take_option(SERVICE)
    shifted.Shift(pathlib.Path(shifted.take_option(shifted.OPTION))).apply()
    defects = shifted.take_option(SABOTAGES)
    if TREE in os.environ:
        sys.path.insert(0, os.environ[TREE])  # nothing of the services is imported before
    if defects:
        known = importlib.import_module("lab.campaigns.chaos.sabotages").SABOTAGES
        for name in defects.split(","):
            known[name].apply()
    command = importlib.import_module(f"{service}.__main__")
    sys.stderr.write(f"code: {command.__file__}\n")
    command.main()


if __name__ == "__main__":
    main()
