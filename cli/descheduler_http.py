"""Asks a descheduler: the options that say where it is, and its service.

`evenload evictions` uses it; the HTTP itself is `cli.extender_http`'s.
"""

import collections.abc
from typing import Any, Final

import click

from cli import extender_http

DEFAULT_URL: Final = "http://127.0.0.1:8902"


def options(command: collections.abc.Callable[..., Any]) -> collections.abc.Callable[..., Any]:
    """The option that says where the descheduler listens; parameter `descheduler`."""
    return click.option(
        "--descheduler",
        default=DEFAULT_URL,
        show_default=True,
        envvar="EVENLOAD_DESCHEDULER",
        show_envvar=True,
        metavar="URL",
        help="Where the descheduler listens.",
    )(command)


def service(*, descheduler: str) -> extender_http.Service:
    """The descheduler that the options name."""
    return extender_http.Service(descheduler)
