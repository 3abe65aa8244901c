"""`evenload recording-rules`: the windows of a policy as recording rules, and the policy that uses them.

deploy/monitoring holds what this prints without options. `cli.policy_presets` puts `metrics_text` into the policy of
`evenload policy init --recording-rules`; the rules themselves are `promql.queries.recording_rules`.
"""

from collections.abc import Iterable
from typing import Final

import click

from cli.common import output, policy_files
from policy import metrics
from policy.metrics import Metric
from policy.schema import load_policy, units
from promql.queries import recording_rules
from promql.queries.node_queries import Window

KINDS: Final = ("rules", "PrometheusRule")
HEAD: Final = """\
# The node windows as recording rules, for fleets where the subqueries of the built-in queries cost Prometheus too much
# (`evenload doctor` says what they cost). Written by `evenload recording-rules{options}`: print it again with your own
# options instead of editing. The policy must name what is recorded: evenload policy init --recording-rules.
# The long windows know only what was recorded since: docs/reference/promql.md says how to back-fill them.
"""


@click.command("recording-rules", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--policy", "policy_file", type=policy_files.FILE, metavar="FILE", help="Whose windows. Default: the six."
)
@click.option("--node-selector", default="", metavar="MATCHERS", help="""As the annotator's: 'job="node-exporter"'.""")
@click.option(
    "--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True, help="A rule file or a manifest."
)
def main(policy_file: str | None, node_selector: str, kind: str) -> None:
    """Print recording rules for the windows of a policy.

    Metrics that have a `query` of their own are left out: a policy that uses the rules has one for each, so give the
    policy as it was before, or none.

    \b
    Examples:
      evenload recording-rules > evenload-rules.yaml
      evenload recording-rules --kind PrometheusRule | kubectl apply -f -
    """
    policy = policy_files.load(policy_file).policy if policy_file else load_policy.defaults()
    output.data(text(policy.metrics_in_force, node_selector, kind))


def text(windows: Iterable[Metric], selector: str = "", kind: str = KINDS[0]) -> str:
    """The rules with their comment, as YAML without a line break at its end."""
    own = {
        one.name: Window(one.resource, one.statistic, one.window_seconds, one.averaging_seconds)
        for one in windows
        if one.query is None
    }
    rules = recording_rules.document(own, selector=selector)
    options = "" if kind == KINDS[0] else f" --kind {kind}"
    options += f" --node-selector '{selector}'" if selector else ""
    body = rules if kind == KINDS[0] else manifest("evenload", rules)
    return HEAD.format(options=options) + output.as_yaml(body, block=True)


def manifest(name: str, rules: object) -> dict[str, object]:
    """A PrometheusRule of prometheus-operator with these rules."""
    labels = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/part-of": "evenload"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": "evenload-system", "labels": labels},
        "spec": rules,
    }


def metrics_text() -> str:
    """The `metrics` of a policy that asks the recorded series instead of the raw ones."""
    lines = ["metrics:                     # recorded by deploy/monitoring/evenload-rules.yaml"]
    lines += [
        f"  - {{name: {one.name}, resource: {one.resource}, statistic: {one.statistic}, "
        f'window: {units.duration_text(one.window_seconds)}, query: "{recording_rules.record(one.name)}"}}'
        for one in metrics.BUILT_IN
    ]
    return "\n".join(lines)
