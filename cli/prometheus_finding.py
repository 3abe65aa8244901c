"""Finds Prometheus without an address: a Service by its usual labels, asked through the apiserver.

`evenload doctor`, `effectiveness` and whatever replays a recorded past come here without --prometheus. The apiserver
carries the queries (services/proxy) with the caller's own rights, so that all of them work from a laptop with nothing
but a kubeconfig.
"""

from typing import Final

from cli.common import output
from kube import config, errors, kinds
from kube.http.client import Client, Place
from kube.objects import Service
from promql import errors as promql_errors
from promql.http import client, options, proxied_transport

# How the usual installations label their Service: the recommended label, prometheus-operator's own, older charts.
SELECTORS: Final = ("app.kubernetes.io/name=prometheus", "operated-prometheus=true", "app=prometheus")
LABELS: Final = " or ".join(SELECTORS)
PORT_NAMES: Final = ("web", "http-web", "http")
DEFAULT_PORT: Final = 9090


def look_for(kube: Client, connection: options.Connection) -> tuple[client.Client, str] | None:
    """The door to the first Service that is labelled as Prometheus and has a port for it, and that label.

    Raises kube.errors, and ConfigError as `connection` does.
    """
    for selector in SELECTORS:
        for service in sorted(kube.list(kinds.SERVICES, label_selector=selector).items, key=lambda one: one.key):
            if port := _port(service):
                place = Place(kinds.SERVICES, service.namespace, service.name, str(port))
                url = f"http://{service.name}.{service.namespace}.svc:{port}"
                return connection.connect(url, _through(kube, place)), selector
    return None


def connect(
    prometheus: str, connection: options.Connection, kubeconfig: str | None, context: str | None
) -> client.Client:
    """The door at the address given, or to what `look_for` finds; ConfigError where it finds nothing."""
    if prometheus:
        return connection.connect(prometheus)
    finding = look_for(config.connect(kubeconfig, context), connection)
    if finding is None:
        raise promql_errors.ConfigError(f"no Service is labelled {LABELS}: give --prometheus URL")
    door, selector = finding
    output.say(f"Prometheus at {door.name}, found by label {selector}")
    return door


def _port(service: Service) -> int | None:
    """The query API's port: by the usual number, by the usual name, or the only one there is."""
    by_name = {port.name: port.port for port in service.spec.ports}
    named = next((by_name[name] for name in PORT_NAMES if by_name.get(name)), None)
    numbers = [port.port for port in service.spec.ports]
    usual = DEFAULT_PORT if DEFAULT_PORT in numbers else None
    return usual or named or (numbers[0] if len(numbers) == 1 else None)


def _through(kube: Client, place: Place) -> proxied_transport.Fetch:
    def fetch(path: str, query: tuple[tuple[str, str], ...]) -> proxied_transport.ProxyResponse:
        try:
            return proxied_transport.ProxyResponse(200, kube.proxied(place, path, query=query))
        except errors.ApiError as error:
            return proxied_transport.ProxyResponse(error.status, error.message.encode())
        except errors.KubeError as error:
            raise OSError(str(error)) from error

    return fetch
