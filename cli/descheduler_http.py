"""Asks a descheduler: the options that say where it is, and its service.

`evenload plan`, `breaker` and `evictions` use it; the HTTP itself is `cli.extender_http`'s.
"""

import collections.abc
from typing import Any, Final

from cli import extender_http

DESCHEDULER: Final = extender_http.Names("descheduler", "a", 8902)


def options(command: collections.abc.Callable[..., Any]) -> collections.abc.Callable[..., Any]:
    """The options `--descheduler`, `--ca-file`, `--cert-file`, `--key-file`; parameters as in `service`."""
    return extender_http.with_options(command, DESCHEDULER)


def service(
    *, descheduler: str, ca_file: str | None = None, cert_file: str | None = None, key_file: str | None = None
) -> extender_http.Service:
    """The descheduler that the options name."""
    return extender_http.Service(descheduler, ca_file, cert_file, key_file, DESCHEDULER)
