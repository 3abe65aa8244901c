"""`evenload effectiveness`: how good placements were over a span, by the five figures and what had to be left out.

The console script loads this module when `effectiveness` is asked for. It asks Prometheus for what the annotators
counted (`cli.effectiveness_figures`), or extenders in shadow mode (`cli.effectiveness_shadow`), and prints a table or
JSON, and a picture on request (`cli.effectiveness_plot`).
"""

import functools
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from cli import effectiveness_figures as figures
from cli import effectiveness_plot, prometheus_finding
from cli import effectiveness_shadow as shadow_figures
from cli.common import durations, output, plotting
from kube import errors as kube_errors
from promql import door as promql_door
from promql import errors
from promql.http import client, options
from runtime import clock, exit_codes

STEPS: Final = 96  # of a picture: a week in steps of 1h45m
SHORTEST_STEP_SECONDS: Final = 60.0
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
    """Prometheus' figures over a span that ends at `until_seconds`."""

    span_seconds: float
    until_seconds: float
    covered_seconds: float
    figures: figures.Figures
    warnings: tuple[str, ...] = ()


class ShadowReport(NamedTuple):
    """The figures of shadow mode over a span that ends at `until_seconds`.

    `known`: Prometheus has some extender's mode; `began_seconds`: when it was Shadow first; from `points` below the
    best on a node counts as worse.
    """

    span_seconds: float
    until_seconds: float
    known: bool
    began_seconds: float | None
    points: int
    figures: shadow_figures.ShadowFigures
    warnings: tuple[str, ...] = ()


@click.command("effectiveness", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--since", type=durations.Span(), default="7d", show_default=True, metavar="SPAN", help="How far to look back."
)
@click.option("--prometheus", default="", metavar="URL", help="Default: a Service of it, through the apiserver.")
@options.connection_options
@click.option("--selector", default="", metavar="MATCHERS", help="""Further matchers, e.g. 'cluster="a"'.""")
@click.option("--kubeconfig", metavar="FILE", help="To find Prometheus by. Default: as kubectl.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw them over time.",
    deprecated="evenload console draws them",
)  # fmt: skip
@click.option("--shadow", is_flag=True, help="What Evenload would have changed, by extenders in shadow mode.")
@click.option(
    "--points",
    type=click.IntRange(1, shadow_figures.MOST_POINTS),
    default=1,
    show_default=True,
    help="With --shadow: from how many points below the best on a node counts as worse.",
)
@click.option("--no-headers", is_flag=True, help="No line with the columns' names.")
@output.option("table", "json", "yaml")
def main(
    since: float,
    selector: str,
    png: Path | None,
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
      evenload effectiveness --since 30d --png effectiveness.png
      evenload effectiveness --since 7d --shadow --points 2
    """
    if shadow and png is not None:
        raise click.UsageError("--png draws the figures of placements, not those of --shadow: give one of the two")
    with exit_codes.reported(kube_errors.KubeError, errors.PromqlError, plotting.NotInstalled, OSError):
        door = prometheus_finding.connect(**options)
        if shadow:
            shadow_report = _shadow_report(door, since, selector, points)
            _print_shadow(shadow_report, output_format, no_headers=no_headers)
            _shadow_remarks(shadow_report)
            return
        report = _report(door, since, selector)
        _print(report, output_format, no_headers=no_headers)
        if png is not None:
            moments, warnings = _moments(door, report, selector)
            report = report._replace(warnings=tuple(dict.fromkeys((*report.warnings, *warnings))))
            effectiveness_plot.write(moments, png, f"Placements until {clock.to_rfc3339(report.until_seconds)}")
            output.say(f"{png}: {len(moments)} steps")
    _remarks(report)


def _report(door: client.Client, span_seconds: float, selector: str) -> Report:
    """The figures of the span; all queries end at the same moment of the server's clock."""
    now_seconds = _first(_samples(door, "vector(time())", None, [])) or 0.0
    warnings: list[str] = []
    ask = functools.partial(_samples, door, at_seconds=now_seconds, warnings=warnings)
    sums = {one.labels[figures.PART]: one.value for one in ask(figures.increases(span_seconds, selector))}
    oldest_seconds = _first(ask(figures.oldest(span_seconds, selector)))
    covered_seconds = 0.0 if oldest_seconds is None else min(span_seconds, now_seconds - oldest_seconds)
    return Report(span_seconds, now_seconds, covered_seconds, figures.of(sums), tuple(dict.fromkeys(warnings)))


def _shadow_report(door: client.Client, span_seconds: float, selector: str, points: int) -> ShadowReport:
    """The figures of shadow mode; all queries end at the same moment of the server's clock."""
    now_seconds = _first(_samples(door, "vector(time())", None, [])) or 0.0
    warnings: list[str] = []
    ask = functools.partial(_samples, door, at_seconds=now_seconds, warnings=warnings)
    began_seconds = _first(ask(shadow_figures.began(span_seconds, selector)))
    return ShadowReport(
        span_seconds,
        now_seconds,
        bool(ask(shadow_figures.known(span_seconds, selector))),
        None if began_seconds is None else max(began_seconds, now_seconds - span_seconds),
        points,
        shadow_figures.of(ask(shadow_figures.increases(span_seconds, selector)), points),
        tuple(dict.fromkeys(warnings)),
    )


def _print_shadow(report: ShadowReport, output_format: str, *, no_headers: bool) -> None:
    values = report.figures._asdict()
    if output_format == "table":
        meanings = shadow_figures.meanings(report.points)
        rows = [(name, _formatted(name, value), meanings[name]) for name, value in values.items()]
        output.data(output.table(("figure", "value", "meaning"), rows, no_headers=no_headers))
        return
    began_seconds = report.began_seconds
    document = {
        "from": clock.to_rfc3339(report.until_seconds - report.span_seconds),
        "to": clock.to_rfc3339(report.until_seconds),
        "shadowSince": None if began_seconds is None else clock.to_rfc3339(began_seconds),
        "points": report.points,
        "figures": values,
    }
    output.data(output.structured(document, output_format))


def _shadow_remarks(report: ShadowReport) -> None:
    """Reports missing figures on stderr; exits with code 4 if there are any."""
    for warning in report.warnings:
        output.say(f"warning: the answer may not be whole: {warning}")
    covered_seconds = 0.0 if report.began_seconds is None else report.until_seconds - report.began_seconds
    whole = covered_seconds >= WHOLE_RATIO * report.span_seconds
    if not report.known:
        output.say(
            f"no data: Prometheus knows no {shadow_figures.MODE} within the span; let it scrape the extenders' "
            "/metrics (port 8900)"
        )
    elif report.began_seconds is None:
        output.say(
            "no extender was in shadow mode within the span: write extender: {mode: Shadow} into the policy, and see "
            "docs/reference/extender.md, shadow mode"
        )
    elif not whole:
        reach, span = (seconds / durations.DAY_SECONDS for seconds in (covered_seconds, report.span_seconds))
        output.say(f"shadow mode began {reach:.2f} days ago, within a span of {span:.2f}")
    if report.warnings or not whole:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))


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


def _moments(door: client.Client, report: Report, selector: str) -> tuple[tuple[figures.Moment, ...], tuple[str, ...]]:
    """The figures step by step, each over its own step, and what the server said against its answers."""
    step_seconds = max(SHORTEST_STEP_SECONDS, report.span_seconds / STEPS)
    answer = door.query_range(
        figures.increases(step_seconds, selector),
        start_seconds=report.until_seconds - report.span_seconds + step_seconds,
        end_seconds=report.until_seconds,
        step_seconds=step_seconds,
    )
    return figures.moments({one.labels[figures.PART]: one.points for one in answer.series}), answer.warnings


def _print(report: Report, output_format: str, *, no_headers: bool) -> None:
    if output_format != "table":
        output.data(output.structured(_document(report), output_format))
        return
    rows = [(name, _formatted(name, value), _MEANINGS[name]) for name, value in report.figures._asdict().items()]
    output.data(output.table(("figure", "value", "meaning"), rows, no_headers=no_headers))


def _document(report: Report) -> dict[str, object]:
    values = report.figures._asdict()
    left_out = values.pop("left_out")
    return {
        "from": clock.to_rfc3339(report.until_seconds - report.span_seconds),
        "to": clock.to_rfc3339(report.until_seconds),
        "coveredSeconds": round(report.covered_seconds),
        "figures": values,
        "leftOut": left_out,
        "leftOutRatio": report.figures.left_out_ratio,
    }


def _formatted(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("utilization_total_avg"):
        return f"{100 * value:.1f}%"
    return f"{value:.2f}" if name.endswith(("_ratio", "_avg")) else f"{value:,g}"


def _remarks(report: Report) -> None:
    """Reports missing figures on stderr; exits with code 4 if there are any."""
    for warning in report.warnings:
        output.say(f"warning: the answer may not be whole: {warning}")
    if report.figures.left_out_ratio:
        output.say(f"{100 * report.figures.left_out_ratio:.1f}% of the results were on nodes without fresh data")
    whole = report.covered_seconds >= WHOLE_RATIO * report.span_seconds
    if not report.covered_seconds:
        output.say(
            f"no data: Prometheus knows no {figures.SERIES['total']} within the span; let it scrape the annotators' "
            "/metrics (port 8901)"
        )
    elif not whole:
        reach, span = (seconds / durations.DAY_SECONDS for seconds in (report.covered_seconds, report.span_seconds))
        output.say(f"data reach back {reach:.2f} of {span:.2f} days only")
    if report.warnings or not whole:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))
