"""Finds the service that a command asks: at a URL, or its replicas in the cluster of a kubeconfig.

Without a URL the pods behind the Service are asked through the apiserver (pods/proxy) with the caller's own rights, so
that a command works from a laptop with nothing but a kubeconfig, and speaks of the cluster that kubectl speaks of. With
mTLS that way is closed: the apiserver has no certificate that the service would accept. Where there is no kubeconfig,
as in the service's own pod, this machine is asked.
"""

import collections.abc
import dataclasses
import functools
from typing import Any, Final, NamedTuple, TypeVar

import click

from cli.common import http_client, output
from cli.common.http_client import Names
from kube import config, errors, kinds
from kube.http.client import Client, Place
from runtime import options as runtime_options

ANNOTATOR: Final = Names("annotator", "an", 8901)
EXTENDER: Final = http_client.EXTENDER
DESCHEDULER: Final = Names("descheduler", "a", 8902)
_FILE: Final = click.Path(exists=True, dir_okay=False)

T = TypeVar("T")


class Where(NamedTuple):
    """The options that say where a service is."""

    url: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    evenload_namespace: str = runtime_options.DEFAULT_NAMESPACE

    @classmethod
    def taken(cls, names: Names, options: dict[str, Any]) -> "Where":
        """Takes its own out of a command's options."""
        return cls(options.pop(names.service), *(options.pop(name) for name in cls._fields[1:]))


@dataclasses.dataclass(frozen=True, slots=True)
class ProxiedService:
    """A replica asked through the apiserver."""

    kube: Client
    place: Place
    names: Names

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.place.name

    def get(self, path: str, **query: str) -> bytes:
        """The body that GET answers with 200."""
        return self._send(path, tuple((key, value) for key, value in query.items() if value))

    def post(self, path: str, body: http_client.Json) -> bytes:
        """The body that POST of JSON answers with 200."""
        return self._send(path, (), body)

    def decode(self, body: bytes, kind: type[T]) -> T:
        """An answer as a struct; a page of something else is as good as no answer."""
        return http_client.decoded(body, kind, self.name, self.names)

    def _send(self, path: str, query: tuple[tuple[str, str], ...], body: http_client.Json | None = None) -> bytes:
        try:
            return self.kube.proxied(self.place, path, query=query, body=body)
        except errors.ApiError as error:
            text = f"{self.name}{path} answers {error.status}: {error.message or error.reason}"
            if error.status in (400, 404, 422):
                raise http_client.Refused(text) from error
            if isinstance(error, errors.Forbidden):
                right = "get" if body is None else "create"
                text += f"; expected: the right to {right} pods/proxy in {self.place.namespace}, and no mTLS"
            raise http_client.Unreachable(f"{text}; {self.names.next_step}") from error
        except errors.Unreachable as error:
            raise http_client.Unreachable(f"{self.name} gives no answer: {error}; {self.names.next_step}") from error


Service = http_client.Service | ProxiedService  # a replica; what keeps an answer away is an http_client.HttpError


def place_options(command: collections.abc.Callable[..., Any]) -> collections.abc.Callable[..., Any]:
    """Adds the options of `Where` but for the URL."""
    for option in (
        click.option(
            "--evenload-namespace",
            default=runtime_options.DEFAULT_NAMESPACE,
            show_default=True,
            envvar="EVENLOAD_NAMESPACE",
            metavar="NAME",
            help="Where Evenload runs.",
        ),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
        click.option("--kubeconfig", metavar="FILE", help="The cluster to ask. Default: as kubectl."),
        click.option("--key-file", type=_FILE, metavar="FILE", help="Its key."),
        click.option("--cert-file", type=_FILE, metavar="FILE", help="Client certificate, with a URL and mTLS."),
        click.option("--ca-file", type=_FILE, metavar="FILE", help="CA of the URL. Default: the system's."),
    ):
        command = option(command)
    return command


def url_option(names: Names) -> collections.abc.Callable[[Any], collections.abc.Callable[..., Any]]:
    """The option for the URL of a service."""
    return click.option(
        names.option,
        envvar=f"EVENLOAD_{names.service.upper()}",
        show_envvar=True,
        metavar="URL",
        callback=_of_named_cluster,
        help=f"Where the {names.service} listens. Default: its pods in the cluster, or without a kubeconfig "
        f"http://127.0.0.1:{names.port}.",
    )


def _of_named_cluster(context: click.Context, option: click.Parameter, url: str | None) -> str | None:
    """The URL, but not the environment's where the command line, which click reads first, names a cluster."""
    ambient = context.get_parameter_source(option.name or "") is click.core.ParameterSource.ENVIRONMENT
    named = any(context.params.get(name) is not None for name in ("kubeconfig", "context"))
    return None if ambient and named else url


def options(command: collections.abc.Callable[..., Any], names: Names) -> collections.abc.Callable[..., Any]:
    """Adds the options that say where a service is, as `Where` takes them."""
    return url_option(names)(place_options(command))


extender_options: Final = functools.partial(options, names=EXTENDER)
descheduler_options: Final = functools.partial(options, names=DESCHEDULER)


def every(names: Names, where: Where, *, quiet: bool = False) -> list[Service]:
    """The service at the URL, or each replica in the cluster; stderr names the URL or the cluster unless `quiet`.

    Raises HttpError where there is none, KubeError where the cluster cannot be asked.
    """
    if where.url or not (where.kubeconfig or where.context or config.has_kubeconfig()):
        url = where.url or f"http://127.0.0.1:{names.port}"
        if not quiet and http_client.is_base_url(url):  # another one is refused and not shown
            output.say(f"{names.service} at {url}")
        return [http_client.Service(url, where.ca_file, where.cert_file, where.key_file, names).checked()]
    kube = config.connect(where.kubeconfig, where.context)
    context = config.context_name(where.kubeconfig, where.context)
    cluster = f"{kube.url} (context {context})" if context else kube.url
    services = behind(kube, names, where.evenload_namespace)
    if not services:
        raise http_client.Unreachable(
            f"no pod behind Service {where.evenload_namespace}/{names.in_cluster} of {cluster}: is it installed "
            f"there? Choose --context or --evenload-namespace, or give {names.option} URL"
        )
    if not quiet:
        output.say(f"{names.service} of {cluster}: {', '.join(one.name for one in services)}")
    return list(services)


def first(names: Names, where: Where) -> Service:
    """The first replica that answers at all, or the last. Raises as `every`."""
    *others, last = every(names, where)
    for one in others:
        try:
            one.get("/livez")
        except http_client.Unreachable as error:
            output.say(f"warning: {error}")
        else:
            return one
    return last


def each(replicas: collections.abc.Sequence[Service], ask: collections.abc.Callable[[Service], T]) -> list[T]:
    """The answers of the replicas that give one, with a warning for each other. Raises the HttpError of the last where
    none does.
    """
    results, failure = list[T](), None
    for one in replicas:
        try:
            results.append(ask(one))
        except http_client.Unreachable as error:
            output.say(f"warning: {error}") if len(replicas) > 1 else None
            failure = error
    if not results and failure is not None:
        raise failure
    return results


def first_answer(replicas: collections.abc.Sequence[Service], ask: collections.abc.Callable[[Service], T]) -> T:
    """The first answer that a replica gives. Raises the HttpError of the last where none gives one."""
    *others, last = replicas
    for one in others:
        try:
            return ask(one)
        except http_client.Unreachable as error:
            output.say(f"warning: {error}")
    return ask(last)


def behind(kube: Client, names: Names, namespace: str) -> list[ProxiedService]:
    """The pods behind a Service, asked through the apiserver. Raises KubeError."""
    selector = f"kubernetes.io/service-name={names.in_cluster}"
    slices = kube.list(kinds.ENDPOINT_SLICES, namespace=namespace, label_selector=selector).items
    places = (
        Place(kinds.PODS, namespace, endpoint.target_ref.name, str(port.port), port.name or "http")
        for one in slices
        for endpoint in one.endpoints or ()
        for port in (one.ports or ())[:1]
        if endpoint.target_ref is not None and endpoint.target_ref.kind == "Pod"
    )
    return [ProxiedService(kube, place, names) for place in places]
