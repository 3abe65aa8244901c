"""Asks a descheduler: the options that say where it is, and its service.

`evenload plan`, `breaker` and `evictions` use it; the HTTP itself is `cli.common.http_client`'s.
"""

import collections.abc
from typing import Any, Final

from cli.common import http_client

DESCHEDULER: Final = http_client.Names("descheduler", "a", 8902)


def options(command: collections.abc.Callable[..., Any]) -> collections.abc.Callable[..., Any]:
    """The options `--descheduler`, `--ca-file`, `--cert-file`, `--key-file`; parameters as in `service`."""
    return http_client.with_options(command, DESCHEDULER)


def service(
    *, descheduler: str, ca_file: str | None = None, cert_file: str | None = None, key_file: str | None = None
) -> http_client.Service:
    """The descheduler that the options name."""
    return http_client.Service(descheduler, ca_file, cert_file, key_file, DESCHEDULER)
