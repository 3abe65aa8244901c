"""`evenload simulate`: a simulated cluster under kube-scheduler alone and under each policy, side by side.

The console script loads this module when `simulate` is asked for. The workload is generated from a seed or made of a
trace file (`simulator.sources`); `cli.studies` plays and shows. No cluster and no Prometheus is needed.
"""

import dataclasses
import pathlib
from typing import Any, Final

import click

from cli import output, studies
from runtime import exits
from simulator import drawing, generator, runs, sources, traces

SERVICES_PER_NODE: Final = generator.DEMO.service_pods_per_node
JOBS_PER_NODE_AND_DAY: Final = generator.DEMO.pods / generator.DEMO.nodes - SERVICES_PER_NODE
_SHAPE: Final = ("nodes", "days", "pods", "rule", "cpu_fill", "memory_fill", "request_fill")
_SHARE: Final = click.FloatRange(0.05, 0.95)
_GENERATED: Final = {"nodes": "--nodes", "cpu_fill": "--cpu-fill", "memory_fill": "--memory-fill"}


@click.command("simulate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", type=click.IntRange(2, 5000), metavar="N", help="How many nodes. Default: 40.")
@click.option("--days", type=click.FloatRange(0.05, 62), metavar="N", help="How long. Default: 1; of a trace 2.")
@click.option("--pods", type=click.IntRange(1, 1_000_000), metavar="N", help="How many pods come. Default: by size.")
@click.option("--rule", type=click.Choice(list(drawing.RULES)), default="mix", show_default=True,
    help="How owners choose requests.")  # fmt: skip
@click.option("--cpu-fill", type=_SHARE, metavar="RATIO", help="Use of all CPU at its busiest. Default: 0.56.")
@click.option("--memory-fill", type=_SHARE, metavar="RATIO", help="The same of memory. Default: 0.50.")
@click.option("--request-fill", type=_SHARE, metavar="RATIO", help="Requests at most. Default: 0.80; of a trace 0.85.")
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path), metavar="FILE",
    help="Real load: a .npz file instead of generated load.")  # fmt: skip
@studies.options
def main(trace: pathlib.Path | None, **given: Any) -> None:
    """Say what policies would do: the same simulated cluster without Evenload and under each of them.

    The services' own code runs on a virtual clock. Over several seeds each figure is the median with its range, and a
    verdict counts the seeds. Exit code 1: a budget was broken, or pods had no node that had one without Evenload.

    \b
    Examples:
      evenload simulate
      evenload simulate --nodes 100 --days 7 --seeds 8 --html report.html
      evenload simulate --policy now.yaml --policy tried.yaml --seeds 4 -o json
      evenload simulate --trace jobs.npz --rule guessing --no-descheduler
    """
    shape = {
        name: given.pop(name) for name in ("nodes", "days", "pods", "rule", "cpu_fill", "memory_fill", "request_fill")
    }
    wish = studies.prepared(**given)
    source = generated(**shape) if trace is None else traced(trace, **shape)
    with exits.reported({ValueError: exits.Exit.BAD_INPUT}):
        told = {**studies.facts(source.scenario(wish.seeds[0]), wish), "rule": shape["rule"]}
    with studies.ended(), studies.watched(wish) as watch:
        title = f"{'a generated workload' if trace is None else trace.name}: the same arrivals under each"
        study = studies.played(title, source, wish, watch, told)
    studies.show(study, wish)


def generated(
    *,
    nodes: int | None,
    days: float | None,
    pods: int | None,
    rule: str,
    cpu_fill: float | None,
    memory_fill: float | None,
    request_fill: float | None,
) -> runs.Source:
    """A generated workload; what is not given is as in the demo, with as many pods for each node and day."""
    default = generator.DEMO
    nodes, days = nodes or default.nodes, days or default.days
    return sources.Generated(
        dataclasses.replace(
            default,
            nodes=nodes,
            days=days,
            pods=pods or round(nodes * (SERVICES_PER_NODE + JOBS_PER_NODE_AND_DAY * days)),
            rule=rule,
            cpu_fill_ratio=cpu_fill or default.cpu_fill_ratio,
            memory_fill_ratio=memory_fill or default.memory_fill_ratio,
            request_fill_ratio=request_fill or default.request_fill_ratio,
        )
    )


def traced(
    path: pathlib.Path, *, days: float | None, pods: int | None, rule: str, request_fill: float | None, **generated: Any
) -> runs.Source:
    """A trace's workload; the number of nodes follows from the requests, so what would set it is refused."""
    if wrong := [_GENERATED[name] for name, value in generated.items() if value is not None]:
        output.fail(f"{', '.join(wrong)} with --trace: load is the file's, and nodes follow from the requests")
    default = traces.Recipe()
    recipe = dataclasses.replace(
        default,
        days=days or default.days,
        pods=pods or default.pods,
        fill_ratio=request_fill or default.fill_ratio,
    )
    return sources.Traced(path.absolute(), rule, recipe)
