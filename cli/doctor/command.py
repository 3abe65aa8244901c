"""`evenload doctor`: gathers the facts, judges them and prints what to do.

The console script loads this module when `doctor` is asked for. stdout carries the checks as a table, JSON or YAML;
the sum of them and what to do next are on stderr. Checks are printed in the order in which they are listed: from where
numbers come to what is done with them. A name is what people and scripts know a check by.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from cli.common import http_client, output, policy_files
from cli.common.services import DESCHEDULER
from cli.doctor import facts, findings, gathering, metrics_server, rights, rules, services, sources
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding
from kube import config, errors, kinds
from kube.http import client
from policy.loading import loader
from policy.schema import load_policy, problems
from promql import errors as promql_errors
from promql.http import options as promql_options
from runtime import clock, exit_codes, reloading
from runtime import options as runtime_options

POLICY_MAP: Final = "evenload-policy"
POLICY_KEY: Final = "policy.yaml"
COLOURS: Final[dict[findings.Verdict, output.Colour]] = {
    findings.Verdict.OK: "green",
    findings.Verdict.WARN: "yellow",
    findings.Verdict.FAIL: "red",
    findings.Verdict.UNKNOWN: "cyan",
}
_FILE: Final = click.Path(exists=True, dir_okay=False)
Judge = Callable[[Facts], Finding | Iterator[Finding]]

_JUDGES: Final[dict[str, Judge]] = {
    "your rights": rights.own,
    "objects": rules.decoded,
    "prometheus": lambda facts: facts.load.prometheus,
    "metrics-server": metrics_server.answers,
    "metrics": sources.metrics,
    "query cost": sources.cost,
    "nodes matched": sources.nodes_matched,
    "one cluster": sources.one_cluster,
    "scrape interval": sources.scrapes,
    "pod series": sources.pod_series,
    "windows": metrics_server.windows,
    "clocks": services.clocks_agree,
    "service rights": rights.services,
    "guard": rights.guarded,
    "annotator": services.annotator,
    "policy in force": services.policy_in_force,
    "extender views": services.extender_views,
    "extender asked": services.extender_called,
    "relief": services.relief_effective,
    "policy rules": rules.consistent,
    "disruption budgets": rules.budgets,
    "placeholders": rules.placeholders,
}


def _judged(judge: Judge, facts: Facts) -> Finding:
    try:
        answer = judge(facts)
        return answer if isinstance(answer, Finding) else findings.worst(answer)
    except findings.Missing as missing:
        return missing.finding


CHECKS: Final = {name: functools.partial(_judged, judge) for name, judge in _JUDGES.items()}
OF_PROMETHEUS: Final = frozenset(("prometheus", "query cost", "one cluster", "scrape interval", "pod series"))
OF_METRICS_SERVER: Final = frozenset(("metrics-server", "windows"))


def names(source: str) -> list[str]:
    """The checks of an installation whose load comes from there."""
    others = OF_METRICS_SERVER if source == runtime_options.PROMETHEUS else OF_PROMETHEUS
    return [name for name in CHECKS if name not in others]


def judge(facts: Facts) -> dict[str, Finding]:
    """The finding of every check that concerns this installation."""
    return {name: CHECKS[name](facts) for name in names(facts.settings.source)}


@click.command("doctor", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policy", "policy_file", type=policy_files.FILE, metavar="FILE", help="Default: the deployed one.")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config, else in-cluster.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("-n", "--namespace", default=runtime_options.DEFAULT_NAMESPACE, show_default=True, help="Evenload's own.")
@click.option(
    "--source", type=click.Choice(runtime_options.SOURCES), help="Where load comes from. Default: by the annotations."
)
@click.option("--prometheus", default="", metavar="URL", help="Default: a Service of it, through the apiserver.")
@promql_options.connection_options
@promql_options.series_options
@click.option(
    "--extender", "extenders", multiple=True, metavar="URL", help="Each replica. Default: its Service's pods."
)
@click.option("--descheduler", default="", metavar="URL", help="Default: its Service's pods.")
@click.option("--ca-file", type=_FILE, metavar="FILE", help="CA of the services at those URLs.")
@click.option("--cert-file", type=_FILE, metavar="FILE", help="Client certificate for them.")
@click.option("--key-file", type=_FILE, metavar="FILE", help="Its key.")
@click.option(
    "--expendable-below", default=-10, show_default=True, help="cluster-autoscaler's expendable-pods-priority-cutoff."
)
@click.option("--no-headers", is_flag=True, help="No line with the columns' names.")
@output.option("table", "json", "yaml")
def main(no_headers: bool, output_format: str, **options: Any) -> None:
    """Look for what is wrong with a cluster, and say what puts it right.

    Reads only. Exit code 0: all well; 1: something to put right; 3: the apiserver or Prometheus cannot be reached; 4:
    nothing wrong, but something could not be looked at.

    \b
    Examples:
      evenload doctor
      evenload doctor --policy policy.yaml --prometheus http://127.0.0.1:9090
      evenload doctor -o json | jq '.checks[] | select(.verdict != "ok")'
    """
    with exit_codes.reported(errors.KubeError, promql_errors.ConfigError, http_client.BadUrl):
        kube = config.connect(options["kubeconfig"], options["context"])
        means = _means(kube, options)
        results = judge(gathering.gather(means, _settings(means, options)))
    _print(results, output_format, no_headers=no_headers)
    raise SystemExit(int(_say(results)))


def _settings(means: facts.Means, fields: dict[str, Any]) -> facts.Settings:
    rest = (fields["namespace"], fields["labels"].node_label, fields["expendable_below"], fields["source"] or "")
    if fields["policy_file"]:
        file = policy_files.load(fields["policy_file"])
        return facts.Settings(file.policy, file.source, file.content_hash, *rest)
    return facts.Settings(*_deployed(means, fields["namespace"]), *rest)


def _deployed(means: facts.Means, namespace: str) -> tuple[load_policy.LoadPolicy, str, str | None]:
    """The policy of the ConfigMap that the services mount, its name and hash. Where there is none to read, the policy
    that a service obeys, or the defaults: without a hash, as neither is what was deployed.
    """
    source = f"ConfigMap {namespace}/{POLICY_MAP}"
    lacking = f"has no {POLICY_KEY}"
    try:
        text = means.kube.get(kinds.CONFIG_MAPS, POLICY_MAP, namespace=namespace).data.get(POLICY_KEY)
        if text is not None:
            return loader.load(text, source), source, reloading.content_hash(text.encode())
    except errors.ApiError as error:
        lacking = f"cannot be read ({error.status})"
    except problems.PolicyError as error:
        policy_files.refuse(error)
    policy, name = gathering.policy_obeyed(means, namespace) or (load_policy.defaults(), "the defaults")
    output.say(f"no --policy, and {source} {lacking}: judging by {name}")
    return policy, name, None


def _means(kube: client.Client, fields: dict[str, Any]) -> facts.Means:
    tls = (fields["ca_file"], fields["cert_file"], fields["key_file"])
    descheduler = fields["descheduler"]
    return facts.Means(
        kube=kube,
        connect=functools.partial(config.connect, fields["kubeconfig"], fields["context"]),
        clock=clock.WallClock(),
        prometheus=fields["prometheus"],
        connection=fields["connection"],
        labels=fields["labels"],
        extenders=[http_client.Service(http_client.base_url(url), *tls).checked() for url in fields["extenders"]],
        deschedulers=[http_client.Service(descheduler, *tls, DESCHEDULER).checked()] if descheduler else (),
    )


def _print(results: Mapping[str, Finding], output_format: str, *, no_headers: bool) -> None:
    if output_format != "table":
        checks = [
            {"check": name, "verdict": one.verdict.value, "seen": one.observation, "fix": one.fix or None}
            for name, one in results.items()
        ]
        output.data(output.structured({"checks": checks}, output_format))
        return
    rows = [
        (
            output.Cell(one.verdict.value, COLOURS[one.verdict]),
            name,
            f"{one.observation}\nfix: {one.fix}" if one.fix else one.observation,
        )
        for name, one in results.items()
    ]
    output.data(output.wrapped_table(("", "check", "seen"), rows, no_headers=no_headers))


def _say(results: Mapping[str, Finding]) -> exit_codes.Exit:
    """The sum, on stderr, and the exit code."""
    counted = Counter(one.verdict for one in results.values())
    output.say(f"{len(results)} checks: " + ", ".join(f"{counted[verdict]} {verdict}" for verdict in counted))
    code = findings.exit_code(results.values())
    if code is exit_codes.Exit.OK:
        output.say(f"next: {output.program()} nodes shows the load that scheduling goes by")
    return code
