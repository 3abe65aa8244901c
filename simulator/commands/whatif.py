"""`evenload whatif`: what policies would have made of this cluster's own past.

The console script loads this module when `whatif` is asked for. `recorded_history` gets the past,
`studies` replays it under kube-scheduler alone and under each policy and shows what came of it, beside what was
really measured.
"""

from typing import Any, Final

import click

from cli.common import output
from runtime import exit_codes
from simulator import runs
from simulator.commands import recorded_history, studies
from simulator.results.study import PLAIN

_PLAYED: Final = ("policies", "seed", "seed_count", "as_written", "no_extender", "no_descheduler", "workers", "html",
    "output_format")  # fmt: skip


@click.command("whatif", context_settings={"help_option_names": ["-h", "--help"]})
@recorded_history.options
@studies.options
def main(**options: Any) -> None:
    """Say what policies would have done: this cluster's own past, replayed without Evenload and under each of them.

    Nodes, pods, requests and use come from Prometheus (node-exporter, cAdvisor, kube-state-metrics), read page by page
    and kept, so that a run that broke off goes on. What was not recorded is listed below the table. Exit code 4: the
    server called an answer partial; 1: a budget was broken, pods had no node, or the replay is unlike the past.

    \b
    Examples:
      evenload whatif --prometheus http://prometheus:9090 --since 7d --policy now.yaml --policy tried.yaml
      evenload whatif --since 24h --seeds 8 --html report.html
      evenload whatif --since 7d --save week.npz
      evenload whatif --history week.npz --policy tried.yaml -o json
    """
    wish = studies.prepared(**{name: options.pop(name) for name in _PLAYED})
    with exit_codes.reported(*recorded_history.REPORTED):
        past = recorded_history.obtained(**options)
    scenario = recorded_history.with_measured(past)
    with studies.watched(wish) as watch:
        title = f"{scenario.name}: the same arrivals under each"
        study = studies.played(title, runs.FixedSource(scenario), wish, watch, fields=studies.facts(scenario, wish))
    recorded_history.warn(past)
    doubts = list(recorded_history.unlike(past, [outcome.figures for outcome in study.outcomes[PLAIN.name]]))
    for sentence in doubts:
        output.say(f"warning: {sentence}")
    studies.show(study, wish)
    if doubts:
        raise SystemExit(int(exit_codes.Exit.FINDINGS))
    if past.warnings:
        raise SystemExit(int(exit_codes.Exit.PARTIAL))
