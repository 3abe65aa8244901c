"""The `evenload` console script: names the subcommands and hands over to the one that was asked for.

People and container images call it; `evenload annotator …` equals `python -m annotator …`. A subcommand's module is
imported only when it runs, because the official Kubernetes client alone costs half a second.
"""

if __name__ == "__main__":
    from runtime import interrupts

    interrupts.exit_on_interrupt()

from typing import NamedTuple, cast

import click

from cli.common import simulation
from runtime import version


class Subcommand(NamedTuple):
    """Where a subcommand lives (a module with a click command `main`) and what --help says of it."""

    module: str
    summary: str


SUBCOMMANDS = {
    "annotator": Subcommand("annotator.__main__", "publish what Prometheus says of each node on the node"),
    "breaker": Subcommand("cli.breaker", "show and reset the breakers of failed evictions"),
    "certs": Subcommand("cli.certs", "make and renew kube-scheduler's and extender's certificates"),
    "completion": Subcommand("cli.completion", "write the script by which a shell completes words"),
    "console": Subcommand("cli.console.command", "show a cluster in the browser, live"),
    "demo": Subcommand("simulator.commands.demo", "show the main job on a simulated cluster, in a minute"),
    "descheduler": Subcommand("descheduler.__main__", "bring overloaded nodes down to their target, safely"),
    "doctor": Subcommand("cli.doctor.command", "say what is wrong with a cluster, and what puts it right"),
    "effectiveness": Subcommand("cli.effectiveness", "say how good placements were over a span of time"),
    "evictions": Subcommand("cli.evictions", "show who was evicted, why, and what it helped"),
    "explain": Subcommand("cli.explain", "say why a pod went where it went, node by node"),
    "extender": Subcommand("extender.__main__", "answer kube-scheduler: filter, prioritize, preempt"),
    "nodes": Subcommand("cli.nodes", "show the load that scheduling goes by, per node"),
    "placeholder": Subcommand("cli.placeholder.command", "hold room for bursts: write manifests, show what is held"),
    "plan": Subcommand("cli.plan", "say what would be evicted now, and why the rest stays"),
    "policy": Subcommand("cli.policy", "write, check, read back, compare and import policy files"),
    "recording-rules": Subcommand("cli.recording_rules", "write the node windows as recording rules for Prometheus"),
    "story": Subcommand("cli.story", "tell what happened last night"),
    "tune": Subcommand("simulator.commands.tune", "fit a policy to a goal, on a past or a simulation"),
    "whatif": Subcommand("simulator.commands.whatif", "say what policies would have made of a cluster's own past"),
    "simulate": Subcommand("simulator.commands.simulate", "say what policies would do, on a simulated cluster"),
    "scheduler-config": Subcommand(
        "cli.scheduler_config", "write the stanza that makes kube-scheduler ask the extender"
    ),
}


class LazyGroup(click.Group):
    """A group that knows its subcommands by name and imports each on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All subcommands, in the order of the alphabet."""
        return sorted(SUBCOMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; an unknown name gets suggestions, which click looks for among imported commands."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=SUBCOMMANDS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, or None where there is none of that name (click then says so with exit code 2)."""
        if cmd_name not in SUBCOMMANDS:
            return None
        return cast(click.Command, simulation.imported(SUBCOMMANDS[cmd_name].module).main)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list under --help, written without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version.VERSION, prog_name="evenload")
def main() -> None:
    """Load-aware scheduling for Kubernetes: even by what nodes really use."""


if __name__ == "__main__":
    main()
