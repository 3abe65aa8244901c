"""The command-line options that annotator, extender and descheduler share, so that they cannot drift apart.

Each service's `__main__` decorates its click command with `service_options(default_port)` and receives one
`ServiceOptions` as the keyword argument `options`, beside any options of its own.
"""

import dataclasses
import functools
import inspect
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from runtime import version

SOURCES = PROMETHEUS, METRICS_SERVER = "prometheus", "metrics-server"
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "evenload-system"


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The command line options of every service."""

    policy: Path
    kubeconfig: str | None = None  # None: $KUBECONFIG, ~/.kube/config, else in-cluster
    context: str | None = None
    prometheus: str | None = None  # base URL
    listen: str = ""  # HOST:PORT
    once: bool = False
    namespace: str = DEFAULT_NAMESPACE
    pod_name: str = ""  # ours, to show Events on; "" outside a pod
    pod_uid: str = ""
    logging_format: str = "text"
    verbosity: int = 0


def own_namespace(file: Path = NAMESPACE_FILE) -> str:
    """The namespace this process's pod is in, or evenload-system outside a cluster."""
    try:
        return file.read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return os.environ.get("POD_NAMESPACE") or DEFAULT_NAMESPACE


def listen_address(text: str, default_port: int) -> tuple[str, int]:
    """Host and port of "HOST:PORT", ":PORT", "[V6]:PORT" or "HOST"; an empty host means `every_interface`.

    ValueError names the text.
    """
    host, colon, port_text = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port_text = text, str(default_port)
    if not port_text.isascii() or not port_text.isdigit() or int(port_text) > 65535:
        raise ValueError(f"listen address {text!r}: port {port_text!r} is not 0 to 65535; write HOST:PORT")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"listen address {text!r}: write an IPv6 address in brackets, as [::1]:{default_port}")
    return host.strip("[]"), int(port_text)


def every_interface() -> str:
    """The host that stands for all addresses of the machine, IPv4 and IPv6: what a listen address without a host means.

    A cluster with IPv6 alone, or first, gives pods an IPv6 address, and kubelet and kube-scheduler come to that one.
    "0.0.0.0" where the kernel has no IPv6, or where its "::" leaves IPv4 out (net.ipv6.bindv6only).
    """
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            only_ipv6 = bool(probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
    except OSError:
        only_ipv6 = True
    return "0.0.0.0" if only_ipv6 else "::"  # noqa: S104 - a pod's own network


def service_options(default_port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a click command's function.

    The port is the service's default (annotator 8901, extender 8900, descheduler 8902).
    """
    existing_file = click.Path(exists=True, dir_okay=False, path_type=Path)
    decorators = [
        click.version_option(version.VERSION, prog_name="evenload"),
        click.option("--policy", type=existing_file, required=True, metavar="FILE", help="The LoadPolicy to obey."),
        click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in-cluster."),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
        click.option("--prometheus", metavar="URL", help="Base URL of Prometheus or a compatible."),
        click.option(
            "--listen", default=f":{default_port}", show_default=True, metavar="HOST:PORT", callback=valid_address
        ),
        click.option("--once", is_flag=True, help="Do one cycle and exit: 0 done, 3 cannot reach, 4 partial data."),
        click.option(
            "--namespace",
            metavar="NAME",
            callback=lambda _context, _parameter, text: text or own_namespace(),
            help="Namespace of Leases and heartbeat. Default: the pod's.",
        ),
        click.option(
            "--pod-name",
            envvar="POD_NAME",
            default="",
            metavar="NAME",
            help="Name of this pod, for Events about the service.",
        ),
        click.option("--pod-uid", envvar="POD_UID", default="", metavar="UID", help="And its uid."),
        click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True),
        click.option("-v", "verbosity", count=True, help="More lines; twice for the libraries' own."),
    ]

    return functools.partial(gather, keyword="options", kind=ServiceOptions, options=decorators)


def source_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command's function; it gains the keyword argument `source`."""
    return click.option(
        "--source",
        type=click.Choice(SOURCES),
        default=PROMETHEUS,
        show_default=True,
        help="Where the load of nodes comes from.",
    )(command)


def gather(
    command: Callable[..., Any], *, keyword: str, kind: Callable[..., Any], options: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """Give a click command's function more options, which arrive as one argument of this kind; others pass as ever."""
    names = tuple(inspect.signature(kind).parameters)

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        own = {name: values.pop(name) for name in names}
        return command(**{keyword: kind(**own)}, **values)

    return functools.reduce(lambda inner, outer: outer(inner), reversed(options), call)


def valid_address(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Refuses a text that `listen_address` cannot read."""
    try:
        listen_address(text, 0)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text
