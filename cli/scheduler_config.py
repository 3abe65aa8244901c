"""`evenload scheduler-config`: the KubeSchedulerConfiguration stanza that makes kube-scheduler ask the extender.

Prints kubescheduler.config.k8s.io/v1 YAML to stdout and, on stderr, what the weight means beside the in-tree plugins
and what of the policy to know about it. Combinations that kube-scheduler accepts although they are unsafe or without
effect are refused (its pkg/scheduler/extender.go, makeTransport).
"""

import collections.abc
import pathlib
from typing import Any, Final

import click

from cli.common import http_client, option_types, output, policy_files
from policy.schema import load_policy, units

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
MAX_SCORE: Final = 10  # the extender protocol's; kube-scheduler multiplies by weight and by 100 / 10
NODE_SCORE: Final = 100  # what an in-tree plugin of weight 1 gives at most
# Default weights of the scoring plugins of Kubernetes 1.36 (pkg/scheduler/apis/config/v1/default_plugins.go).
IN_TREE_WEIGHTS: Final = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
_COMMENT: Final = (
    "# Put `extenders` into the file behind `kube-scheduler --config`. docs/reference/extender.md explains each value."
)
Tls = dict[str, Any]  # tlsConfig of the stanza; paths as kube-scheduler sees them on its own machine
TLS: Final = {
    "insecure": "insecure",
    "server_name": "serverName",
    "ca_file": "caFile",
    "cert_file": "certFile",
    "key_file": "keyFile",
}
_LONGEST_SECONDS: Final = 5.0  # the scheduler's default, each time for one pod


def _url(text: str) -> str:
    if not http_client.is_base_url(text):
        example = "https://evenload-extender.evenload-system.svc:8900"
        raise ValueError(f"{http_client.quoted(text)} is not a base URL of the extender: write such as {example}")
    return text.rstrip("/")


def _timeout(text: str) -> str:
    if not 0 < units.duration_seconds(text) <= _LONGEST_SECONDS:  # the scheduler takes 0 for its default of 5 s
        raise ValueError(f"{text} is not more than 0s and at most 5s: the scheduler waits so long for each pod")
    return text


@click.command("scheduler-config", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policy", type=policy_files.FILE, required=True, metavar="FILE", help="The policy the extender obeys.")
@click.option(
    "--url", required=True, type=option_types.Text("URL", _url), help="Where kube-scheduler reaches the extender."
)
@click.option(
    "--weight", type=click.IntRange(1, 100), default=2, show_default=True, help="Of the extender's score; see stderr."
)
@click.option(
    "--http-timeout",
    default="500ms",
    show_default=True,
    type=option_types.Text("DURATION", _timeout),
    help="How long a pod may wait for the extender.",
)
@click.option(
    "--ca-file", metavar="PATH", help="CA that signed the extender's certificate, on the scheduler's machine."
)
@click.option("--cert-file", metavar="PATH", help="Client certificate (mTLS), on the scheduler's machine.")
@click.option("--key-file", metavar="PATH", help="Its key, on the scheduler's machine.")
@click.option("--server-name", metavar="NAME", help="Name in the extender's certificate, if it is not the URL's host.")
@click.option("--insecure", is_flag=True, help="Do not verify the extender's certificate. For tests only.")
def main(policy: str, url: str, weight: int, http_timeout: str, **options: Any) -> None:
    """Write the KubeSchedulerConfiguration stanza for kube-scheduler --config.

    The stanza goes to stdout; put its `extenders` into your own configuration. What the weight means beside the in-tree
    plugins goes to stderr.

    \b
    Examples:
      evenload scheduler-config --policy policy.yaml --url http://127.0.0.1:8900
      evenload scheduler-config --policy policy.yaml --url https://evenload-extender.evenload-system.svc:8900 \\
        --ca-file /etc/kubernetes/evenload/ca.crt \\
        --cert-file /etc/kubernetes/evenload/tls.crt --key-file /etc/kubernetes/evenload/tls.key
    """
    tls = {key: options[name] for name, key in TLS.items() if options[name]}
    if wrong := [*refusals(url, tls)]:
        output.fail("\nerror: ".join(wrong))
    loaded_policy = policy_files.load(policy)
    output.data(f"{_COMMENT}\n{output.as_yaml(configuration(url, weight, http_timeout, tls))}")
    for remark in (*arithmetic(weight), *remarks(loaded_policy.policy, tls)):
        output.say(remark)


def refusals(url: str, tls: Tls) -> collections.abc.Iterator[str]:
    """Why kube-scheduler must not be given this, all reasons at once; none if it may."""
    if not url.startswith("https:"):
        if useless := ", ".join(tls):
            yield f"{url} is not an https URL, so {useless} would have no effect: write https://"
        return
    if "caFile" not in tls and "insecure" not in tls:
        yield (
            f"{url} needs --ca-file: with enableHTTPS and no CA kube-scheduler silently does not verify the server; "
            "if you want just that, say --insecure"
        )
    if "caFile" in tls and "insecure" in tls:
        yield "--insecure and --ca-file exclude each other: kube-scheduler refuses to start with both"
    if ("certFile" in tls) != ("keyFile" in tls):
        yield "--cert-file and --key-file belong together: give both or none"
    for option in ("ca-file", "cert-file", "key-file"):
        path = tls.get(TLS[option.replace("-", "_")])
        if path and not pathlib.PurePosixPath(path).is_absolute():
            yield f"--{option} {path} is relative: kube-scheduler reads it on its own machine, write an absolute path"


def configuration(url: str, weight: int, http_timeout: str, tls: Tls) -> dict[str, object]:
    """The configuration with only the extender in it; everything else keeps kube-scheduler's defaults."""
    extender: dict[str, object] = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": weight,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": http_timeout,
    }
    if url.startswith("https:"):
        extender |= {"enableHTTPS": True, "tlsConfig": tls}
    return {"apiVersion": API_VERSION, "kind": KIND, "extenders": [extender]}


def points(score: int, weight: int) -> int:
    """The points of kube-scheduler that a score of the extender is worth."""
    return score * weight * (NODE_SCORE // MAX_SCORE)


def arithmetic(weight: int) -> tuple[str, ...]:
    """The extender's points beside those of the in-tree plugins, with the default weights of Kubernetes 1.36."""
    ours, in_tree = points(MAX_SCORE, weight), NODE_SCORE * sum(IN_TREE_WEIGHTS.values())
    theirs = ", ".join(f"{name} {NODE_SCORE * share}" for name, share in IN_TREE_WEIGHTS.items())
    share = f"{ours} of the {ours + in_tree} points ({100 * ours / (ours + in_tree):.3g} %)"
    return (
        f"weight {weight}: the extender's full score is {MAX_SCORE} x {weight} x {NODE_SCORE // MAX_SCORE} = "
        f"{ours} points, one step {ours // MAX_SCORE}; a plugin's is {NODE_SCORE} x its weight",
        f"by default: {theirs}",
        f"kube-scheduler adds the scores of all plugins: the extender's best gives {share}, the two that look at "
        f"requests (Fit, BalancedAllocation) {2 * NODE_SCORE}",
    )


def remarks(policy: load_policy.LoadPolicy, tls: Tls) -> collections.abc.Iterator[str]:
    """Returns the settings of the policy and the options that conflict with the stanza."""
    if "insecure" in tls:
        yield "warning: the extender's certificate is not verified (--insecure)"
    if policy.filter.on_missing == "reject":
        yield (
            "note: filter.onMissing: reject holds while the extender answers; ignorable: true schedules without it "
            "while it is away"
        )
