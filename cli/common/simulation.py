"""The simulator's commands by name: an installation may leave the package out, and all other commands work."""

import importlib
from types import ModuleType

import click


class NotInstalled(click.ClickException):
    """The installation leaves the simulator out."""


def command(name: str) -> ModuleType:
    """Import a module of `simulator.commands`. Raises NotInstalled."""
    try:
        return importlib.import_module(f"simulator.commands.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("simulator", "simulator.commands"):
            raise
        raise NotInstalled(
            f"this installation leaves out the simulator, which {name.replace('_', ' ')} needs; "
            "install Evenload from its repository: pipx install ."
        ) from error
