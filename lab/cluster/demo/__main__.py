"""`python -m lab.cluster.demo`, which `make run` calls: both phases, then the table. Only wiring.

Exit codes: 0 done, 1 a finding (a violated disruption budget, pods left pending that the plain run could place),
2 something of ours or of the control plane failed, 130 ended with Ctrl-C. The table goes to stdout, all else to stderr.
"""

import pathlib
import sys
from collections.abc import Mapping

import click
import msgspec
import requests
from rich import console

from kube import errors as kube_errors
from lab import cluster
from lab.cluster.demo import arrival_plan, display, interrupting, measuring, phases, services
from policy.loading import loader
from policy.schema import load_policy, problems
from promql import errors as promql_errors
from runtime import clock as clocks
from runtime import exit_codes, logs
from simulator.results import comparison, table

ROOT = pathlib.Path(__file__).parents[3]
EVENLOAD = ROOT / ".venv" / "bin" / "evenload"
FAILURES = (
    cluster.ClusterError, services.ServiceError, phases.PhaseError, measuring.MeasuringError, kube_errors.KubeError,
    promql_errors.PromqlError, requests.RequestException, problems.PolicyError, OSError,
)  # fmt: skip
FAILED, INTERRUPTED = 2, 130


@click.command()
@click.option("--seed", default=1, show_default=True, help="Who arrives when and uses how much.")
@click.option("--nodes", default=40, show_default=True, type=click.IntRange(min=2))
@click.option("--span", default=120.0, show_default=True, help="Seconds during which batches arrive.")
@click.option("--settle", default=30.0, show_default=True, help="Seconds to go on watching afterwards.")
@click.option("--policy", default=ROOT / "deploy" / "policies" / "demo.yaml", type=click.Path(path_type=pathlib.Path))
@click.option(
    "--keep", is_flag=True, help="Leave the second cluster and the services running, and say how to look around."
)
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(*, seed: int, nodes: int, span: float, settle: float, policy: pathlib.Path, keep: bool, output: str) -> None:
    """Replays one set of arrivals on a real control plane, without and with Evenload, and compares the nodes."""
    interrupted = interrupting.noticed()
    logs.configure()
    progress = console.Console(stderr=True)
    try:
        shape = arrival_plan.Shape(nodes=nodes, span_seconds=span)
        read = loader.load(policy.read_text(encoding="utf-8"), str(policy))
        least_seconds = read.descheduler.protect.min_pod_age_seconds
        plan = arrival_plan.plan(seed, shape)
        settings = phases.Settings(plan, policy, settle, least_seconds, interrupted=interrupted)
        outcomes, running = run(settings, read, progress, keep=keep)
    except FAILURES as error:
        progress.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        progress.print("ended; everything that was started has been stopped")
        sys.exit(INTERRUPTED)
    compared = comparison.of({name: [outcome.figures] for name, outcome in outcomes.items()}, [seed])
    facts = described(settings)
    if output == "json":
        click.echo(to_json(compared, facts))
    else:
        table.print_table(compared, facts, console.Console())
    if running:
        progress.print(looking_around(running), markup=False, highlight=False, soft_wrap=True)
    sys.exit(findings(outcomes, progress))


def run(
    settings: phases.Settings, policy: load_policy.LoadPolicy, progress: console.Console, *, keep: bool
) -> tuple[dict[str, phases.Outcome], phases.PhaseResult | None]:
    """Both phases, one after the other."""
    outcomes: dict[str, phases.Outcome] = {}
    with display.opened(progress, windows(policy)) as live:
        live.say(f"{settings.plan.pods} pods of {len(settings.plan.owners)} owners will arrive, twice")
        for name in ("plain", "evenload"):
            last = name == "evenload"
            outcomes[name] = phases.Phase(name, settings, live, clocks.WallClock()).run(keep=keep and last)
    return outcomes, outcomes["evenload"].running


def windows(policy: load_policy.LoadPolicy) -> dict[str, str]:
    """How long 5m, 1h and 1d really are under this policy."""
    return {
        metric.name.removeprefix("cpu_"): f"{metric.window_seconds:g}s"
        for metric in policy.metrics_in_force
        if metric.name.startswith("cpu_")
    }


def described(settings: phases.Settings) -> dict[str, object]:
    """Prints seed and settings, which repeat the demo."""
    plan = settings.plan
    return {
        "seed": plan.seed,
        "nodes": plan.shape.nodes,
        "pods": plan.pods,
        "owners": len(plan.owners),
        "guessing owners": sum(owner.guessing for owner in plan.owners),
        "arrivals s": plan.shape.span_seconds,
        "settle s": settings.settle_seconds,
        "policy": str(settings.policy.name),
    }


def to_json(compared: comparison.Comparison, settings: Mapping[str, object]) -> str:
    """Both phases as JSON: settings, and per figure the value of each, unit and verdict."""
    baseline, variant = compared.variants
    body = {
        "settings": dict(settings),
        "figures": {
            line.figure.key: {
                "name": line.figure.name,
                baseline: round(line.values[baseline][0], 6),
                variant: round(line.values[variant][0], 6),
                "unit": line.figure.unit,
                "verdict": line.verdict(variant, baseline).word or None,
            }
            for line in compared.lines
        },
    }
    return msgspec.json.format(msgspec.json.encode(body)).decode()


def findings(outcomes: dict[str, phases.Outcome], progress: console.Console) -> int:
    """The exit code, with a line for each finding."""
    violations = [f"PDB violated: {words}" for outcome in outcomes.values() for words in outcome.violations]
    pending = {name: outcome.figures.pods_pending for name, outcome in outcomes.items()}
    if pending["evenload"] > pending["plain"]:
        violations.append(f"pods pending at the end: {pending['evenload']} with Evenload, {pending['plain']} without")
    for words in violations:
        progress.print(words, style="red", markup=False)
    return int(exit_codes.Exit.FINDINGS if violations else exit_codes.Exit.OK)


def looking_around(result: phases.PhaseResult) -> str:
    """Returns the next commands to type."""
    where = f"--policy {result.policy} --prometheus {result.prometheus_url}"
    return "\n".join(
        (
            "The cluster is still up. Look around:",
            f"  export KUBECONFIG={result.kubeconfig}",
            "  kubectl get nodes -o custom-columns='NODE:.metadata.name,LOAD:.metadata.annotations.evenload\\.io/load'",
            "  kubectl -n demo get pods -o wide",
            "  kubectl get events -A --field-selector reason=NodeOverloaded",
            f"  {EVENLOAD} doctor {where}",
            f"  {EVENLOAD} nodes --sort-by cpu_avg_5m",
            f"  {EVENLOAD} explain pod $(kubectl -n demo get pods -o name | head -1 | cut -d/ -f2) -n demo",
            f"  {EVENLOAD} plan",
            f"  {EVENLOAD} evictions",
            f"  {EVENLOAD} breaker list",
            f"  {EVENLOAD} effectiveness --since 1h --prometheus {result.prometheus_url}",
            f"  Prometheus: {result.prometheus_url}",
            f"End it with: .venv/bin/python -m lab.cluster down --directory {result.directory}",
        )
    )


if __name__ == "__main__":
    main()
