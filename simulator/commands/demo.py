"""`evenload demo`, which `make demo` calls: a simulated day with and without Evenload, live, then table and report.

It needs no cluster, no Prometheus and no build. `evenload simulate` asks the same of other workloads and policies,
`make run` of a real control plane.
"""

import pathlib
from typing import Final

import click

from cli.common import output
from runtime import exit_codes
from simulator import runs
from simulator.commands import demo_screen, screen, simulate, studies
from simulator.results.study import PLAIN
from simulator.workloads import generator

NAME: Final = "evenload"
SEED: Final = 9  # a day on which the descheduler has work, too; docs/start/demo.md has the range of seeds


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=click.IntRange(min=0), default=SEED, show_default=True, help="Another workload.")
@click.option("--nodes", type=click.IntRange(5, 500), default=generator.DEMO.nodes, show_default=True)
@click.option("--hours", type=click.IntRange(1, 168), default=24, show_default=True)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=pathlib.Path), default="evenload-demo.html",
    metavar="FILE", show_default=True, help="Where the report goes.",
)  # fmt: skip
@output.option("table", "json", "yaml")
def main(seed: int, nodes: int, hours: int, html: pathlib.Path, *, output_format: str) -> None:
    """Show the main job in a minute: a simulated day of a cluster, with and without Evenload.

    \b
    Examples:
      evenload demo
      evenload demo --seed 2 --nodes 100
    """
    screen.refuse_early(html)
    source = simulate.generated({"nodes": nodes, "days": hours / 24})
    wish = studies.Wish(
        variants=(PLAIN, studies.shipped(name=NAME)),
        seeds=(seed,),
        simulation=runs.Simulation(),
        workers=runs.processors(),
        html=html,
        output_format=output_format,
    )
    with exit_codes.reported(ValueError):
        facts = studies.facts(source.scenario(seed), wish)
    output.say(f"{facts['pods']} pods come to {nodes} nodes in {hours} hours, twice: without Evenload and with it")
    with demo_screen.opened(screen.console(stderr=True), [one.name for one in wish.variants]) as watch:
        study = studies.played(f"{hours} hours of {nodes} nodes", source, wish, watch, fields=facts)
    studies.show(study, wish)
    other = f"{output.program()} simulate --help (other workloads, your policy)"
    output.say(f"next: {other}, make run (the same on a real control plane)")
