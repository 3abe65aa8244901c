"""Modules of commands by name: an installation may leave the simulator out, and all commands but its own work."""

import importlib
from types import ModuleType

import click


class NotInstalled(click.ClickException):
    """The installation leaves the simulator out."""


def imported(module: str) -> ModuleType:
    """Import a module. Raises NotInstalled for one of the simulator where that is left out."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("simulator", "simulator.commands"):
            raise
        raise NotInstalled(
            f"this installation leaves out the simulator, which {module.split('.')[-1].replace('_', ' ')} needs; "
            "install Evenload from its repository: pipx install ."
        ) from error
