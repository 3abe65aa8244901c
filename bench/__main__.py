"""`python -m bench`: run the benches and print one table. Wiring only.

Parts are chosen by name, sizes by options; everything runs on the real control plane of cluster/, which is built on
first use. Exit code 1 when some budget is not met.
"""

import datetime
import pathlib
import sys
from collections.abc import Callable

import click

from bench import annotator, answers, descheduler, footprint, scoring, simulator, table, throughput

PARTS = ("answers", "throughput", "footprint", "annotator", "descheduler", "simulator")
BY_NAME_ONLY = ("scoring",)  # it measures placements, not speed, and needs a trace


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, *BY_NAME_ONLY]))
@click.option("--seed", default=1, show_default=True, help="Of node loads and orders of names.")
@click.option("--nodes", default=5000, show_default=True, help="Nodes for `answers`, `footprint` and `annotator`.")
@click.option("--repeats", default=7, show_default=True, help="Legs of `answers`; their medians are told.")
@click.option("--rounds", default=10, show_default=True, help="Rounds per leg of `answers`; the first one warms up.")
@click.option("--calls", default=50, show_default=True, help="Pods asked about per round of `answers`.")
@click.option("--pods", default=100_000, show_default=True, help="Pods for `footprint`, and at last for `annotator`.")
@click.option("--scheduler-nodes", default=1000, show_default=True, help="Nodes for `throughput`.")
@click.option("--scheduled", default=1000, show_default=True, help="Pods bound per leg of `throughput`.")
@click.option("--relieved-nodes", default=1000, show_default=True, help="Nodes for `descheduler`.")
@click.option("--relieved-pods", default=20_000, show_default=True, help="Pods for `descheduler`.")
@click.option("--legs", default=3, show_default=True, help="Legs per extender of `throughput`, in turns.")
@click.option("--few-nodes", default=500, show_default=True, help="Nodes that `annotator` begins with.")
@click.option("--warm-minutes", default=7.0, show_default=True, help="Minutes of `annotator` before it measures.")
@click.option("--minutes", default=10.0, show_default=True, help="Minutes of load that `annotator` measures.")
@click.option("--simulated-nodes", default=100, show_default=True, help="Nodes for `simulator`.")
@click.option("--simulated-days", default=7.0, show_default=True, help="Virtual days for `simulator`.")
@click.option("--simulated-pods", default=10_000, show_default=True, help="Pods for `simulator`.")
@click.option("--trace", type=click.Path(path_type=pathlib.Path, exists=True), help="For `annotator`, `scoring`: .npz.")
@click.option("--seeds", default=8, show_default=True, help="For `scoring`: how many, from --seed on.")
@click.option("--workers", default=1, show_default=True, help="For `scoring`: how many runs at a time.")
def main(
    *,
    parts: tuple[str, ...],
    seed: int,
    nodes: int,
    repeats: int,
    rounds: int,
    calls: int,
    pods: int,
    scheduler_nodes: int,
    scheduled: int,
    legs: int,
    relieved_nodes: int,
    relieved_pods: int,
    few_nodes: int,
    warm_minutes: float,
    minutes: float,
    simulated_nodes: int,
    simulated_days: float,
    simulated_pods: int,
    trace: pathlib.Path | None,
    seeds: int,
    workers: int,
) -> None:
    """Measure the extender beside a Go extender that only decodes, looks up and encodes; annotator; descheduler.

    `scoring` compares the score with others' on a trace: it runs only if it is named.
    """
    if trace is None and "scoring" in parts:
        raise click.UsageError("scoring plays a trace: give its .npz by --trace")
    runs: dict[str, Callable[[], list[table.Row]]] = {
        "answers": lambda: answers.measure(
            answers.Settings(nodes=nodes, legs=repeats, rounds=rounds, calls=calls, seed=seed)
        ),
        "throughput": lambda: throughput.measure(throughput.Settings(scheduler_nodes, scheduled, legs, seed)),
        "annotator": lambda: annotator.measure(
            annotator.Settings(
                few_nodes=few_nodes,
                nodes=nodes,
                pods=pods,
                warm_minutes=warm_minutes,
                minutes=minutes,
                trace=trace,
                seed=seed,
            )
        ),
        "footprint": lambda: footprint.measure(footprint.Settings(nodes, pods, seed)),
        "descheduler": lambda: descheduler.measure(descheduler.Settings(relieved_nodes, relieved_pods, seed)),
        "simulator": lambda: simulator.measure(
            simulator.Settings(simulated_nodes, simulated_days, simulated_pods, seed)
        ),
        "scoring": lambda: scoring.measure(scoring.Settings(trace or pathlib.Path(), seeds, seed, workers)),
    }
    heading = table.machine(seed, datetime.datetime.now(datetime.UTC))
    rows: list[table.Row] = []
    for part in parts or PARTS:
        click.echo(f"measuring {part} …", err=True)
        rows += runs[part]()
    click.echo(heading)
    click.echo(table.rendered(rows))
    sys.exit(1 if any(row.within is False for row in rows) else 0)


if __name__ == "__main__":
    main()
