"""`evenload story`: a span of time for a person who was not awake: overloads, evictions, refusals, policies, alerts.

It asks the descheduler for its ledger and the policy in force, the apiserver for the nodes, and Prometheus for loads,
leaders and alerts; `cli.happenings` makes sentences of the answers. A source without an answer is named, and the rest
is printed.
"""

import contextlib
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import click
import msgspec

from cli import effectiveness, eviction_rows, happenings, prometheus_finding
from cli.common import completing, http_client, option_types, output, services
from console.sources import Replica, SourceError
from descheduler.planning import overload
from descheduler.snapshot.usage import NodeUsage
from kube import config, kinds
from kube import errors as kube_errors
from kube.objects import Node
from policy.contract import load_annotation
from policy.schema.load_policy import LoadPolicy
from promql import door, errors, readings
from promql.http import options as promql_options
from promql.queries import identity, node_queries
from runtime import clock, exit_codes

PAGE_STEPS: Final = 120  # of one range query: a night of a large cluster takes longer than Prometheus may take
MOST_STEPS: Final = 2880
STEPS_OF_AN_OVERLOAD: Final = 6  # of one that is just long enough
LED: Final = ("annotator", "descheduler")
ALERTS: Final = 'alertname=~"Evenload.*",alertstate="firing"'


def moment(text: str) -> float:
    """The moment of a span as 12h, or of a time, as Unix seconds. ValueError for neither, or one still to come."""
    now_seconds = clock.WallClock().now()
    try:
        at_seconds = clock.from_rfc3339(text)
    except ValueError:
        return now_seconds - option_types.span(text)
    if at_seconds >= now_seconds:
        raise ValueError(f"{text!r} is still to come")
    return at_seconds


SINCE, UNTIL = option_types.Text("since", moment), option_types.Text("until", moment)


class InForce(msgspec.Struct, frozen=True):
    """GET /configz, as far as it says which policy is in force."""

    policy: dict[str, Any]
    policyState: dict[str, Any]  # noqa: N815 - as it is written


class Sources(NamedTuple):
    """The sources of a story, each opened when it is read, and how series name nodes."""

    descheduler: Callable[[], Replica]
    nodes: Callable[[], Iterable[Node]]
    prometheus: Callable[[], door.PrometheusDoor]
    selector: str = ""
    node_label: str = identity.INSTANCE


class Past(NamedTuple):
    """Prometheus over a span; `warnings` are its words that an answer is not whole. All methods raise PromqlError."""

    prometheus: door.PrometheusDoor
    selector: str
    span: happenings.Span
    warnings: list[str]

    def series(self, metric: str, name: str, matchers: str = "", *, condition: str = "") -> list[happenings.Series]:
        """The series of a metric under their label `name`, or `instance`."""
        expression = f"{metric}{{{','.join(filter(None, (matchers, self.selector)))}}}{condition}"
        every = (one for page in self._pages(expression) for one in page)
        return [(one.labels.get(name) or one.labels.get("instance", ""), one.points) for one in every]

    def rounds(self, policy: LoadPolicy, nodes: Iterable[Node], label: str) -> happenings.Rounds:
        """The usage of the nodes at every step, by the queries of annotator and descheduler."""
        directory = identity.follow(nodes)
        wanted = [one for one in policy.metrics_in_force if one.name in policy.descheduler.thresholds]
        texts = [node_queries.of_metric(one, selector=self.selector, node_label=label) for one in wanted]
        for pages in zip(*map(self._pages, texts), strict=True):
            ratios: dict[float, dict[str, dict[str, float]]] = defaultdict(dict)
            for metric, page in zip(wanted, pages, strict=True):
                samples: dict[float, list[door.Sample]] = defaultdict(list)
                for one in page:
                    for at_seconds, value in one.points:
                        samples[at_seconds].append(door.Sample(one.labels, value, at_seconds))
                for at_seconds, every in samples.items():
                    answer, judge = door.Answer.of(every), load_annotation.invalid_reason
                    for node, ratio in readings.by_node(answer, directory, label=label, judge=judge).values.items():
                        ratios[at_seconds].setdefault(node, {})[metric.name] = ratio
            for at_seconds, by_node in sorted(ratios.items()):
                yield at_seconds, {node: NodeUsage(node, each, at_seconds) for node, each in by_node.items()}

    def _pages(self, expression: str) -> Iterator[tuple[door.Series, ...]]:
        begin_seconds, end_seconds, step_seconds = self.span
        for first in range(0, int((end_seconds - begin_seconds) / step_seconds) + 1, PAGE_STEPS):
            start_seconds = begin_seconds + first * step_seconds
            last_seconds = min(start_seconds + (PAGE_STEPS - 1) * step_seconds, end_seconds)
            answer = self.prometheus.query_range(
                expression, start_seconds=start_seconds, end_seconds=last_seconds, step_seconds=step_seconds
            )
            self.warnings.extend(answer.warnings)
            yield answer.series


@click.command("story", context_settings={"help_option_names": ["-h", "--help"]})
@services.descheduler_options
@click.option("--since", type=SINCE, default="12h", show_default=True, metavar="SPAN|TIME", help="Its beginning.")
@click.option("--until", type=UNTIL, metavar="SPAN|TIME", help="Its end. Default: now.")
@click.option("--node", default="", metavar="NAME", shell_complete=completing.nodes, help="Of nodes, this one only.")
@click.option("--prometheus", default="", metavar="URL", help="Default: a Service of it, through the apiserver.")
@promql_options.connection_options
@click.option("--selector", default="", metavar="MATCHERS", help="""Further matchers, e.g. 'cluster="a"'.""")
@click.option("--node-label", default=identity.INSTANCE, show_default=True, help="The label that names a node.")
@output.option("text", "json", "yaml")
def main(since: float, until: float | None, node: str, *, output_format: str, **options: Any) -> None:
    """Tell what happened, for a person who was not awake. Times are UTC.

    Overloads, evictions with their effect, refusals, hot nodes that nothing could leave, changes of policy and leader,
    alerts. Exit code 4: a source gave no answer, or not for the whole span; stderr says which.

    \b
    Examples:
      evenload story --since 12h
      evenload story --since 2026-11-21T04:00:00Z --until 2026-11-21T06:00:00Z --node worker-7
    """
    until = clock.WallClock().now() if until is None else until
    if until <= since:
        output.fail("--until is not after --since: the span would be empty")
    with exit_codes.reported(kube_errors.ConfigError, http_client.BadUrl):
        place = services.Where.taken(services.DESCHEDULER, options)
        cluster = place.kubeconfig, place.context
        if place.url:
            services.every(services.DESCHEDULER, place, quiet=True)
        kube = config.connect(*cluster)
        sources = Sources(
            functools.partial(services.first, services.DESCHEDULER, place),
            lambda: kube.list(kinds.NODES).items,
            lambda: prometheus_finding.connect(options["prometheus"], options["connection"], *cluster),
            options["selector"],
            options["node_label"],
        )
        report = document(sources, since, until, node)
    unknown = f"--node {node}"
    if unknown in report["notKnown"] and "nodes" not in report["notKnown"]:
        output.fail(f"{unknown}: {report['notKnown'][unknown]}")
    if output_format != "text":
        output.data(output.structured(report, output_format))
    else:
        output.data("\n".join(report["summary"]))
        rows = [(_minute(one["at_seconds"]), one["node"] or "-", one["text"]) for one in report["happenings"]]
        if rows:
            output.data("\n" + output.table(("time (utc)", "node", "happened"), rows, names={"node"}))
    for source, problem in report["notKnown"].items():
        output.say(f"not known: {source}: {problem}")
    if report["notKnown"]:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))


def document(sources: Sources, since: float, until: float, node: str = "") -> dict[str, Any]:
    """The story between two moments (Unix seconds) of all nodes, or of one: its summary, what is not known and why, and
    every happening.
    """
    unread: dict[str, str] = {}
    facts = happenings.Facts(happenings.Span(since, until, 60.0), now_seconds=clock.WallClock().now())
    _read(facts, unread, sources)
    lines = happenings.story(facts, node)
    if node and node not in {*(one.name for one in facts.nodes), *(one.node for one in lines)}:
        unread[f"--node {node}"] = "no node has this name now, and nothing is known of one that had it"
    summary = happenings.summary(lines, facts, node, whole=not unread)
    every = [one._asdict() | {"text": one.text} for one in lines]
    return {"summary": list(summary), "notKnown": unread, "happenings": every}


def _minute(at_seconds: float) -> str:
    """`11-29 17:23`, in UTC."""
    return clock.to_rfc3339(at_seconds)[5:16].replace("T", " ")


@contextlib.contextmanager
def _part(unread: dict[str, str], source: str) -> Iterator[None]:
    """Runs the body up to the first error of the source."""
    try:
        yield
    except (kube_errors.KubeError, errors.PromqlError, SourceError, ValueError) as error:
        unread[source] = str(error)


def _read(facts: happenings.Facts, unread: dict[str, str], sources: Sources) -> None:
    with _part(unread, "descheduler"):
        service = sources.descheduler()
        with _part(unread, "policy in force"):
            _read_policy(service, facts)
        with _part(unread, "ledger"):
            _read_ledger(service, facts)
    with _part(unread, "nodes"):
        facts.nodes = tuple(sources.nodes())
    with _part(unread, "Prometheus"):
        past = Past(sources.prometheus(), sources.selector, facts.span, [])
        with _part(unread, "alerts"):
            facts.alerts = happenings.alerts(past.series("ALERTS", "alertname", ALERTS))
        with _part(unread, "leaders"):
            _read_own_metrics(past, facts)
        if facts.policy is not None and facts.nodes:
            with _part(unread, "node load"):
                rounds = past.rounds(facts.policy, facts.nodes, sources.node_label)
                facts.loads = loads = happenings.node_loads(rounds, facts.policy, facts.nodes, facts.span)
                if loads.covered_ratio < effectiveness.WHOLE_RATIO or loads.nodes < len(facts.nodes):
                    share = f"{loads.covered_ratio:.0%} of the span, from {_minute(loads.since_seconds)} on"
                    raise ValueError(f"Prometheus has {share}, of {loads.nodes} of {len(facts.nodes)} nodes")
        if past.warnings:
            unread["whole answers"] = "; ".join(dict.fromkeys(past.warnings))


def _read_policy(service: Replica, facts: happenings.Facts) -> None:
    """Reads the policy in force, which gives the step, too. ValueError for that of another version."""
    in_force = http_client.decoded(service.get("/configz"), InForce, service.name, services.DESCHEDULER)
    facts.policy, facts.policy_hash = LoadPolicy.of(in_force.policy), in_force.policyState.get("hash", "")
    shortest_seconds = facts.policy.descheduler.overloaded_for_seconds / STEPS_OF_AN_OVERLOAD
    span_seconds = facts.span.end_seconds - facts.span.begin_seconds
    step_seconds = min(max(shortest_seconds, span_seconds / MOST_STEPS), overload.bridged_seconds(facts.policy))
    facts.span = facts.span._replace(step_seconds=float(math.ceil(step_seconds or 1)))


def _read_ledger(service: Replica, facts: happenings.Facts) -> None:
    since, end_seconds = clock.to_rfc3339(facts.span.begin_seconds), facts.span.end_seconds
    rows = (msgspec.convert(row, eviction_rows.Row) for row in eviction_rows.pages(service, since=since))
    facts.rows = tuple(row for row in rows if row.at_seconds <= end_seconds)
    body = service.get("/events", since=since, limit="10000")
    answer = http_client.decoded(body, eviction_rows.Events, service.name, services.DESCHEDULER)
    facts.events = tuple(one for one in answer.events if clock.from_rfc3339(one.at) <= end_seconds)
    facts.policies = happenings.hashes(facts.rows, facts.events)
    if begun := eviction_rows.known_since(service, since):
        raise ValueError(f"begun anew at {begun}, as its file was corrupt or gone: no earlier row is known")


def _read_own_metrics(past: Past, facts: happenings.Facts) -> None:
    """Reads the policies and leaders that Evenload's processes exported. PromqlError where none is scraped."""
    facts.policies = past.series("evenload_config_info", "hash") or facts.policies
    series = {one: past.series(f"evenload_{one}_leader", "pod", condition=" == 1") for one in LED}
    if not any(series.values()):
        raise errors.PromqlError("Prometheus has no evenload_descheduler_leader: let it scrape Evenload's /metrics")
    changes = happenings.changes
    facts.leaders = [one for name in LED for one in changes("leader", f"leads the {name}s", series[name])]
