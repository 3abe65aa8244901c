"""`python -m lab.bench`: run the benches and print one table. Wiring only.

Parts are chosen by name, sizes by options; everything runs on the real control plane of lab/cluster/, which is built on
first use. Exit code 1 when some budget is not met.
"""

import dataclasses
import datetime
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import click

from lab.bench import (
    annotator,
    answers,
    descheduler,
    footprint,
    peers,
    relief,
    scale,
    scoring,
    settings,
    simulator,
    table,
    throughput,
)
from lab.peers.comparison import PARTS as PARTS_OF_A_TRACE

PARTS = ("answers", "throughput", "footprint", "annotator", "descheduler", "simulator")
BY_NAME_ONLY = ("scoring", "relief", "scale", "peers")  # by a trace, twice; without a reference; builds for minutes


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, *BY_NAME_ONLY]))
@click.option("--seed", default=1, show_default=True, help="Of node loads and orders of names.")
@click.option(
    "--nodes", default=5000, show_default=True, help="Nodes for `answers`, `footprint`, `annotator`, `scale`."
)
@click.option("--repeats", default=7, show_default=True, help="Legs of `answers`; their medians are told.")
@click.option("--tls", is_flag=True, help="`answers` over mTLS.")
@click.option("--busy", default=0, help="`answers` while so many other processes want a processor all the time.")
@click.option("--names", multiple=True, default=answers.Settings().names, show_default=True, help="Names in a request.")
@click.option("--rounds", default=20, show_default=True, help="Rounds per leg of `answers`; the first one warms up.")
@click.option("--calls", default=50, show_default=True, help="Pods asked about per round of `answers`.")
@click.option(
    "--pods", default=100_000, show_default=True, help="Pods for `footprint`, `scale`, and at last for `annotator`."
)
@click.option("--scheduler-nodes", default=1000, show_default=True, help="Nodes for `throughput`.")
@click.option("--scheduled", default=1000, show_default=True, help="Pods bound per leg of `throughput`, `peers`.")
@click.option("--relieved-nodes", default=1000, show_default=True, help="Nodes for `descheduler`.")
@click.option("--relieved-pods", default=20_000, show_default=True, help="Pods for `descheduler`.")
@click.option("--legs", default=3, show_default=True, help="Legs of each of `throughput` and `peers`, in turns.")
@click.option(
    "--compared-nodes", default=(1000, 5000), show_default=True, multiple=True, help="Nodes for `peers`: its sizes."
)
@click.option("--few-nodes", default=500, show_default=True, help="Nodes that `annotator` begins with.")
@click.option("--warm-minutes", default=7.0, show_default=True, help="Minutes of `annotator` before it measures.")
@click.option("--minutes", default=10.0, show_default=True, help="Minutes that `annotator` and `scale` measure.")
@click.option("--simulated-nodes", default=100, show_default=True, help="Nodes for `simulator`.")
@click.option("--simulated-days", default=7.0, show_default=True, help="Virtual days for `simulator`.")
@click.option("--simulated-pods", default=10_000, show_default=True, help="Pods for `simulator`.")
@click.option(
    "--trace",
    type=click.Path(path_type=pathlib.Path, exists=True),
    help="For `annotator`, `scoring`, `relief`.",
)
@click.option("--arrivals", default=50.0, show_default=True, help="For `scale`, `peers`: pods per second.")
@click.option(
    "--seeds",
    default=8,
    show_default=True,
    help="For `scoring`, `relief`: how many, from --seed on.",
)
@click.option("--workers", default=1, show_default=True, help="For the same: how many runs at a time.")
@click.option("--part", type=click.Choice(PARTS_OF_A_TRACE), help="For the same: only it.")
@click.option(
    "--days",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.05, 7.0),
    help="For `scoring`, `relief`.",
)
def main(parts: tuple[str, ...], seed: int, trace: pathlib.Path | None, **options: Any) -> None:
    """Measure the extender beside a Go extender that only decodes, looks up and encodes; annotator; descheduler.

    `scoring` compares the score with others' on a trace, `relief` the descheduler's lines: they run only if named.
    """
    of_trace = {"scoring", "relief"}
    if trace is None and (named := of_trace.intersection(parts)):
        raise click.UsageError(f"{' and '.join(sorted(named))} plays a trace: give its .npz by --trace")
    runs = _runs(_Sizes(**options), seed, trace)
    heading = table.machine(seed, datetime.datetime.now(datetime.UTC))
    rows: list[table.Row] = []
    for part in parts or PARTS:
        click.echo(f"measuring {part} …", err=True)
        rows += runs[part]()
    click.echo(heading)
    click.echo(table.rendered(rows))
    sys.exit(1 if any(row.within is False for row in rows) else 0)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sizes:
    """The options of the same names."""

    nodes: int
    tls: bool
    busy: int
    names: tuple[int, ...]
    repeats: int
    rounds: int
    calls: int
    pods: int
    scheduler_nodes: int
    scheduled: int
    legs: int
    compared_nodes: tuple[int, ...]
    relieved_nodes: int
    relieved_pods: int
    few_nodes: int
    warm_minutes: float
    minutes: float
    simulated_nodes: int
    simulated_days: float
    simulated_pods: int
    arrivals: float
    seeds: int
    workers: int
    days: float
    part: str | None


def _runs(sizes: _Sizes, seed: int, trace: pathlib.Path | None) -> dict[str, Callable[[], list[table.Row]]]:
    """Returns the function that measures each part."""
    answer_settings = answers.Settings(
        sizes.names, sizes.nodes, sizes.repeats, sizes.rounds, sizes.calls, seed, tls=sizes.tls, busy=sizes.busy
    )
    placed = throughput.Settings(sizes.scheduler_nodes, sizes.scheduled, sizes.legs, seed)
    beside = peers.Settings(sizes.compared_nodes, sizes.scheduled, sizes.legs, sizes.arrivals, seed=seed)
    annotated = annotator.Settings(
        few_nodes=sizes.few_nodes,
        nodes=sizes.nodes,
        pods=sizes.pods,
        warm_minutes=sizes.warm_minutes,
        minutes=sizes.minutes,
        trace=trace,
        seed=seed,
    )
    relieved = descheduler.Settings(sizes.relieved_nodes, sizes.relieved_pods, seed)
    simulated = simulator.Settings(sizes.simulated_nodes, sizes.simulated_days, sizes.simulated_pods, seed)
    recipe = dataclasses.replace(settings.RECIPE, days=sizes.days)
    compared = scoring.Settings(trace or pathlib.Path(), sizes.seeds, seed, sizes.workers, recipe)
    if sizes.part is not None:
        compared = compared._replace(parts=(sizes.part,))
    return {
        "answers": lambda: answers.measure(answer_settings),
        "throughput": lambda: throughput.measure(placed),
        "annotator": lambda: annotator.measure(annotated),
        "footprint": lambda: footprint.measure(footprint.Settings(sizes.nodes, sizes.pods, seed)),
        "descheduler": lambda: descheduler.measure(relieved),
        "simulator": lambda: simulator.measure(simulated),
        "peers": lambda: peers.measure(beside),
        "scale": lambda: scale.measure(scale.Settings(sizes.nodes, sizes.pods, sizes.arrivals, sizes.minutes, seed)),
        "scoring": lambda: scoring.measure(compared),
        "relief": lambda: relief.measure(compared._replace(contestants=relief.CONTESTANTS)),
    }


if __name__ == "__main__":
    main()
