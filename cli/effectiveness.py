"""`evenload effectiveness`: how good placements were over a span, by the five figures and what had to be left out.

The console script loads this module when `effectiveness` is asked for. It asks Prometheus for what the annotators
counted, or extenders in shadow mode (`cli.effectiveness_figures`), and prints a table or JSON.
"""

import collections.abc
import functools
from typing import Any, Final, NamedTuple

import click

from cli import effectiveness_figures as figures
from cli import prometheus_finding
from cli.common import option_types, output
from kube import errors as kube_errors
from policy.explain import wording
from promql import door as promql_door
from promql import errors
from promql.http import client, options
from runtime import clock, exit_codes

WHOLE_RATIO: Final = 0.95  # of the span with data, from which on it counts as covered
_MEANINGS: Final = {
    "cpu_utilization_total_avg": "mean 5m CPU use of the chosen nodes, at scheduling",
    "memory_utilization_total_avg": "mean 5m memory use of the chosen nodes, at scheduling",
    "effective_dynamic_schedule_count": "0.5 per resource in which the chosen node was under the median of all",
    "total_schedule_count": "scheduling results judged",
    "effective_schedule_ratio": "effective over total",
    "left_out": "results on nodes without fresh data, in no figure above",
    "stayed_under_median_ratio": "the share whose node, without the pod, stayed under the median over the next hour",
}


class Report(NamedTuple):
    """The figures of a span with their meanings for the table, the fields of the document, how much of the span has
    data, and the remarks on what is missing.
    """

    figures: dict[str, Any]
    meanings: collections.abc.Mapping[str, str]
    document: dict[str, Any]
    covered_seconds: float
    remarks: tuple[str, ...]


@click.command("effectiveness", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--since", type=option_types.SPAN, default="7d", show_default=True, metavar="SPAN", help="How far to look back."
)
@click.option("--prometheus", default="", metavar="URL", help="Default: a Service of it, through the apiserver.")
@options.connection_options
@click.option("--selector", default="", metavar="MATCHERS", help="""Further matchers, e.g. 'cluster="a"'.""")
@click.option("--kubeconfig", metavar="FILE", help="To find Prometheus by. Default: as kubectl.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--shadow", is_flag=True, help="What Evenload would have changed, by extenders in shadow mode.")
@click.option(
    "--points",
    type=click.IntRange(1, figures.MOST_POINTS),
    default=1,
    show_default=True,
    help="With --shadow: from how many points below the best on a node counts as worse.",
)
@click.option("--no-headers", is_flag=True, help="No line with the columns' names.")
@output.option("table", "json", "yaml")
def main(
    since: float,
    selector: str,
    shadow: bool,
    *,
    points: int,
    no_headers: bool,
    output_format: str,
    **options: Any,
) -> None:
    """Say how good placements were over a span of time.

    Exit code 4: there is no data, or not for the whole span; stderr says which.

    \b
    Examples:
      evenload effectiveness --since 7d
      evenload effectiveness --since 24h -o json | jq .figures.effective_schedule_ratio
      evenload effectiveness --since 7d --shadow --points 2
    """
    with exit_codes.reported(kube_errors.KubeError, errors.PromqlError):
        door = prometheus_finding.connect(**options)
        warnings: list[str] = []
        until_seconds = _first(_samples(door, "vector(time())", None, [])) or 0.0  # of all queries
        ask = functools.partial(_samples, door, at_seconds=until_seconds, warnings=warnings)
        report = (
            _shadow(ask, since, until_seconds, selector, points=points)
            if shadow
            else _placements(ask, since, until_seconds, selector)
        )
        if output_format == "table":
            rows = [(name, _formatted(name, value), report.meanings[name]) for name, value in report.figures.items()]
            output.data(output.table(("figure", "value", "meaning"), rows, no_headers=no_headers))
        else:
            span = {"from": clock.to_rfc3339(until_seconds - since), "to": clock.to_rfc3339(until_seconds)}
            output.data(output.structured(span | report.document, output_format))
    for warning in dict.fromkeys(warnings):
        output.say(f"warning: the answer may not be whole: {warning}")
    for remark in report.remarks:
        output.say(remark)
    if warnings or report.covered_seconds < WHOLE_RATIO * since:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))


def _placements(ask: figures.Ask, span_seconds: float, until_seconds: float, selector: str) -> Report:
    """The figures of placements, as the annotators counted them."""
    counted, covered_seconds = figures.measured(ask, span_seconds, until_seconds, selector)
    values, remarks = counted._asdict(), []
    if counted.left_out_ratio:
        remarks.append(f"{100 * counted.left_out_ratio:.1f}% of the results were on nodes without fresh data")
    if not covered_seconds:
        remarks.append(
            f"no data: Prometheus knows no {figures.SERIES['total']} within the span; let it scrape the annotators' "
            "/metrics (port 8901)"
        )
    elif covered_seconds < WHOLE_RATIO * span_seconds:
        remarks.append(f"thin data: {wording.share(covered_seconds, span_seconds)}")
    document = {
        "coveredSeconds": round(covered_seconds),
        "figures": {name: value for name, value in values.items() if name != "left_out"},
        "leftOut": counted.left_out,
        "leftOutRatio": counted.left_out_ratio,
    }
    return Report(values, _MEANINGS, document, covered_seconds, tuple(remarks))


def _shadow(ask: figures.Ask, span_seconds: float, until_seconds: float, selector: str, *, points: int) -> Report:
    """The figures of shadow mode, which covers the span since it began; from `points` below the best on a node counts
    as worse.
    """
    first_seconds = _first(ask(figures.first(f"{figures.MODE}{{{selector}}} == 1", span_seconds)))
    began_seconds = None if first_seconds is None else max(first_seconds, until_seconds - span_seconds)
    covered_seconds = 0.0 if began_seconds is None else until_seconds - began_seconds
    remarks = []
    if not ask(figures.shadow_known(span_seconds, selector)):
        remarks.append(
            f"no data: Prometheus knows no {figures.MODE} within the span; let it scrape the extenders' "
            "/metrics (port 8900)"
        )
    elif began_seconds is None:
        remarks.append(
            "no extender was in shadow mode within the span: write extender: {mode: Shadow} into the policy, and see "
            "docs/reference/extender.md, shadow mode"
        )
    elif covered_seconds < WHOLE_RATIO * span_seconds:
        remarks.append(f"thin data: {wording.share(covered_seconds, span_seconds)} in shadow mode")
    samples = () if began_seconds is None else ask(figures.shadow_increases(span_seconds, selector))  # else zeros
    values = figures.shadow_of(samples, points)
    since = None if began_seconds is None else clock.to_rfc3339(began_seconds)
    document = {"shadowSince": since, "points": points, "figures": values}
    return Report(values, figures.shadow_meanings(points), document, covered_seconds, tuple(remarks))


def _samples(
    door: client.Client, expression: str, at_seconds: float | None, warnings: list[str]
) -> tuple[promql_door.Sample, ...]:
    try:
        answer = door.query(expression, at_seconds=at_seconds)
    except errors.Partial as problem:
        warnings += problem.reasons
        answer = problem.answer
    return answer.samples


def _first(samples: tuple[promql_door.Sample, ...]) -> float | None:
    return samples[0].value if samples else None


def _formatted(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("utilization_total_avg"):
        return f"{100 * value:.1f}%"
    return f"{value:.2f}" if name.endswith(("_ratio", "_avg")) else f"{value:,g}"
