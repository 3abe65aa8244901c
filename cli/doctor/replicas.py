"""Reads the state of every extender: at the URLs given, or at each pod behind its Service through the apiserver.

`gathering` calls `ask` with a `Means` that `command` made. All replicas are asked in turn, and a few times over when
their views differ: a node patch on its way is not a difference that lasts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from prometheus_client import parser

from cli.common import http_client
from cli.doctor import findings
from cli.doctor.facts import Replica
from cli.doctor.findings import Finding
from kube import errors, kinds
from kube.http.client import Client, Place

SERVICE: Final = "evenload-extender"
ROUNDS: Final = 4
PAUSE_SECONDS: Final = 1.0
_REQUESTS: Final = "evenload_extender_request_duration_seconds_count"
_WATCH_AGE: Final = "evenload_kube_watch_age_seconds"
_SINCE: Final = "evenload_config_last_reload_success_timestamp_seconds"

Get = Callable[[str], bytes]  # the body that GET of a path answers


@dataclass(frozen=True, slots=True)
class Means:
    """How to reach the extenders: the services at URLs given, or none to look for them in the cluster."""

    given: Sequence[http_client.Service]
    kube: Client
    pause: Callable[[float], object]


class _Heartbeat(msgspec.Struct, frozen=True):
    matches: bool = False


class _View(msgspec.Struct, frozen=True):
    view: str | None = None


class _Nodes(msgspec.Struct, frozen=True):
    """GET /nodes, without the nodes."""

    policy: str
    heartbeat: _Heartbeat = _Heartbeat()
    view: _View = _View()


class _Decision(msgspec.Struct, frozen=True):
    at_seconds: float


class _Decisions(msgspec.Struct, frozen=True):
    decisions: tuple[_Decision, ...] = ()


class Named(NamedTuple):
    """A replica by its name, and how to ask it."""

    name: str
    get: Get


def ask(means: Means, namespace: str) -> tuple[Replica | Finding, ...] | Finding:
    """Every replica's answer, or the Finding that tells why one, or all of them, could not be asked."""
    found = [at_url(one) for one in means.given] or _behind_service(means.kube, namespace)
    if isinstance(found, Finding):
        return found
    answers: tuple[Replica | Finding, ...] = ()
    for _ in range(ROUNDS):
        answers = tuple(_facts(one) for one in found)
        if _settled(answers):
            break
        means.pause(PAUSE_SECONDS)
    return answers


def at_url(service: http_client.Service) -> Named:
    """The replica at a URL given."""
    return Named(service.url, service.get)


def behind(kube: Client, service: str, namespace: str) -> list[Named]:
    """The pods behind a Service, asked through the apiserver; raises KubeError."""
    selector = f"kubernetes.io/service-name={service}"
    slices = kube.list(kinds.ENDPOINT_SLICES, namespace=namespace, label_selector=selector).items
    places = [
        Place(kinds.PODS, namespace, endpoint.target_ref.name, str(port.port), port.name or "http")
        for one in slices
        for endpoint in one.endpoints or ()
        for port in (one.ports or ())[:1]
        if endpoint.target_ref is not None and endpoint.target_ref.kind == "Pod"
    ]
    return [Named(place.name, _proxied(kube, place)) for place in places]


def _behind_service(kube: Client, namespace: str) -> list[Named] | Finding:
    nowhere = f"no extender at a --extender URL, and none behind Service {namespace}/{SERVICE}"
    fix = "deploy the extender (docs/reference/extender.md), or say where it is: --extender URL for each replica"
    try:
        return behind(kube, SERVICE, namespace) or findings.fail(nowhere, fix)
    except errors.KubeError as error:
        return findings.unknown(f"the extenders could not be looked for: {error}", "--extender URL for each replica")


def _proxied(kube: Client, place: Place) -> Get:
    def get(path: str) -> bytes:
        bare, _, query = path.partition("?")
        pairs = tuple((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")) if name)
        return kube.proxied(place, bare, query=pairs)

    return get


def _facts(item: Named) -> Replica | Finding:
    try:
        nodes = http_client.decoded(item.get("/nodes"), _Nodes, item.name)
        decisions = http_client.decoded(item.get("/decisions?limit=1"), _Decisions, item.name).decisions
        counted = _counted(item.get("/metrics").decode())
    except http_client.BadUrl:
        raise
    except http_client.Foreign as error:
        return findings.fail(str(error), "check --extender and versions")
    except (http_client.HttpError, errors.KubeError) as error:
        return findings.fail(f"{item.name} gives no answer: {error}", f"is {item.name} running and ready? its log says")
    except ValueError as error:
        return findings.fail(f"{item.name}/metrics is not an extender's: {error}", "check --extender and versions")
    last_seconds = max((decision.at_seconds for decision in decisions), default=None)
    asked, since_seconds, ages = counted
    seen = nodes.policy, nodes.heartbeat.matches, nodes.view.view
    return Replica(item.name, *seen, asked, since_seconds, last_seconds, ages)


def _counted(exposition: str) -> tuple[float, float, dict[str, float]]:
    """Requests of kube-scheduler answered, since when at least (Unix seconds: the policy's last load), and the age of
    each watch.
    """
    asked = since_seconds = 0.0
    ages: dict[str, float] = {}
    for family in parser.text_string_to_metric_families(exposition):
        for sample in family.samples:
            asked += sample.value if sample.name == _REQUESTS else 0.0
            since_seconds = sample.value if sample.name == _SINCE else since_seconds
            if sample.name == _WATCH_AGE:
                ages[sample.labels.get("watch", "")] = sample.value
    return asked, since_seconds, ages


def _settled(answers: Sequence[Replica | Finding]) -> bool:
    seen = [one for one in answers if isinstance(one, Replica)]
    return len({one.view_digest for one in seen}) <= 1 and all(one.heartbeat_matches for one in seen)
