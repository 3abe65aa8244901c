"""Names by which a service may be asked: a web page must not reach it by a name of its own (DNS rebinding).

A page can point a name of its site at any address that its reader's browser reaches: a port-forward, a pod. The request
then names that site in Host. An address in Host, a name without a dot, a Service's name and names of this machine's own
domains are nobody else's. Over TLS the certificate proves the name.
"""

import collections.abc
import functools
import ipaddress
import pathlib
from typing import Final
from urllib import parse

import flask
from werkzeug import exceptions

PLAIN_PATHS: Final = frozenset({"/livez", "/readyz", "/healthz", "/metrics", "/version"})
DOMAINS: Final = ("localhost", "svc", "cluster.local")  # no site on the internet can have a name under these
_RESOLVER: Final = pathlib.Path("/etc/resolv.conf")


def check(also_open: collections.abc.Collection[str] = ()) -> None:
    """Refuse the request at hand if it names a host that is not ours, but for the plain paths and these."""
    request = flask.request
    if request.path in PLAIN_PATHS or request.path in also_open or request.is_secure:
        return
    if is_ours(request.host, own_domains()):
        return
    raise exceptions.Forbidden(
        f"asked as {request.host!r}; expected an address, localhost, or the Service's name: a web page could reach "
        "this port by a name of its own. Use kubectl port-forward and localhost, or the address"
    )


def is_ours(host: str, domains: collections.abc.Collection[str] = ()) -> bool:
    """Whether the Host of a request is an address, a name without a dot, or one under DOMAINS or these."""
    try:
        name = (parse.urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:  # brackets around no address
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or any(name.endswith(f".{domain}") for domain in (*DOMAINS, *domains))
    return True


@functools.cache
def own_domains() -> tuple[str, ...]:
    """The domains of this machine's resolver; in a pod, Services of its namespace and of other cluster domains."""
    try:
        return domains_in(_RESOLVER.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ()


def domains_in(resolver: str) -> tuple[str, ...]:
    """The search domains of a resolv.conf; of NAMESPACE.svc.DOMAIN the namespace, too, as in SERVICE.NAMESPACE."""
    lines = (line.split() for line in resolver.splitlines())
    domains = [
        word.lower().strip(".") for line in lines if line and line[0] in ("search", "domain") for word in line[1:]
    ]
    namespaces = [domain.split(".svc.")[0] for domain in domains if ".svc." in domain]
    return tuple(domain for domain in (*domains, *namespaces) if domain)
