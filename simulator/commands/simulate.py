"""`evenload simulate`: a simulated cluster under kube-scheduler alone and under each policy, side by side.

The console script loads this module when `simulate` is asked for. The workload is generated from a seed, made of a
trace file (`simulator.workloads`) or was recorded; `studies` plays and shows. No cluster and no Prometheus
is needed.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import click

from cli.common import output
from runtime import exit_codes
from simulator import runs
from simulator.commands import studies
from simulator.history import past_file
from simulator.workloads import generator, owner_profiles, trace_files

SERVICES_PER_NODE: Final = generator.DEMO.service_pods_per_node
JOBS_PER_NODE_AND_DAY: Final = generator.DEMO.pods / generator.DEMO.nodes - SERVICES_PER_NODE
_SHAPE: Final = ("nodes", "days", "pods", "rule", "cpu_fill", "memory_fill", "request_fill")
_OF_TRACES: Final = {"days", "pods", "rule", "request_fill"}
_SHARE: Final = click.FloatRange(0.05, 0.95)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


@click.command("simulate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", type=click.IntRange(2, 5000), metavar="N", help="How many nodes. Default: 40.")
@click.option("--days", type=click.FloatRange(0.05, 62), metavar="N", help="How long. Default: 1; of a trace 2.")
@click.option("--pods", type=click.IntRange(1, 1_000_000), metavar="N", help="How many pods come. Default: by size.")
@click.option("--rule", type=click.Choice(list(owner_profiles.RULES)), help="How owners choose requests. Default: mix.")
@click.option("--cpu-fill", type=_SHARE, metavar="RATIO", help="Use of all CPU at its busiest. Default: 0.56.")
@click.option("--memory-fill", type=_SHARE, metavar="RATIO", help="The same of memory. Default: 0.50.")
@click.option("--request-fill", type=_SHARE, metavar="RATIO", help="Requests at most. Default: 0.80; of a trace 0.85.")
@click.option("--trace", type=_FILE, metavar="FILE", help="Real load from a .npz file instead of generated load.")
@click.option("--history", type=_FILE, metavar="FILE", help="A cluster's own past, recorded by `evenload whatif`.")
@studies.options
def main(trace: pathlib.Path | None, history: pathlib.Path | None, **options: Any) -> None:
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
    shape_options = {name: options.pop(name) for name in _SHAPE}
    shape_options = {name: value for name, value in shape_options.items() if value is not None}
    wish = studies.prepared(**options)
    with exit_codes.reported(ValueError, past_file.HistoryError, OSError):
        source = _source(trace, history, shape_options)
        scenario = source.scenario(wish.seeds[0])
    file = trace or history
    title = f"{'a generated workload' if file is None else file.name}: the same arrivals under each"
    facts = studies.facts(scenario, wish) | {
        key: value for key, value in shape_options.items() if key not in ("nodes", "pods")
    }
    with studies.watched(wish) as watch:
        study = studies.played(title, source, wish, watch, fields=facts)
    studies.show(study, wish)


def _source(trace: pathlib.Path | None, history: pathlib.Path | None, options: Mapping[str, Any]) -> runs.Source:
    if trace is not None and history is not None:
        output.fail("--trace with --history: give one of them")
    if trace is not None:
        return traced(trace, options)
    if history is not None:
        _refuse(set(options), "--history: everything is as it was recorded")
        return runs.FixedSource(past_file.load(history).scenario)
    return generated(options)


def generated(options: Mapping[str, Any]) -> runs.Source:
    """A generated workload; what is not asked for is as in the demo, with as many pods for each node and day."""
    fields = {f"{name}_ratio" if name.endswith("_fill") else name: value for name, value in options.items()}
    shape = dataclasses.replace(generator.DEMO, **fields)
    if "pods" not in options:
        pods = round(shape.nodes * (SERVICES_PER_NODE + JOBS_PER_NODE_AND_DAY * shape.days))
        shape = dataclasses.replace(shape, pods=pods)
    return generator.GeneratedScenarios(shape)


def traced(path: pathlib.Path, options: Mapping[str, Any]) -> runs.Source:
    """A trace's workload; the number of nodes follows from the requests, so what would set it is refused."""
    _refuse(set(options) - _OF_TRACES, "--trace: load is the file's, and nodes follow from the requests")
    default = trace_files.Recipe()
    recipe = dataclasses.replace(
        default,
        days=options.get("days", default.days),
        crowd=dataclasses.replace(default.crowd, pods=options.get("pods", default.crowd.pods)),
        fill_ratio=options.get("request_fill", default.fill_ratio),
    )
    return trace_files.TracedScenarios(path.absolute(), options.get("rule", generator.DEMO.rule), recipe)


def _refuse(names: Collection[str], why: str) -> None:
    if names:
        options_text = ", ".join(f"--{name.replace('_', '-')}" for name in _SHAPE if name in names)
        output.fail(f"{options_text} with {why}")
