"""Installations from public reports: the chart by the real Helm, and its objects on a real apiserver."""

import json
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from lab.cluster.demo import permissions
from policy.loading import loader
from tests import shared
from tests.contract import helm_client, test_helm, test_kustomize
from tests.contract.helm_client import Document, Helm
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
INSTANCE = "app.kubernetes.io/instance"
PLACEHOLDERS = {**test_helm.PROPORTIONAL, "burstClass": True}
ALL = {**test_helm.ALL, "placeholders": PLACEHOLDERS, "test": test_helm.ON}
CRITICAL = {"system-cluster-critical", "system-node-critical"}


@pytest.fixture(scope="module", params=helm_client.MAJORS)
def helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> test_kustomize.Site:
    """A real apiserver with the kinds of prometheus-operator and the namespace, shared with the chart's tests."""
    found = shared.shared("kubectl", lambda: test_kustomize.plain_site(tmp_path_factory.mktemp("kubectl")))
    found.define(test_kustomize.CRDS)
    found.make_namespace()
    return found


def objects(helm: Helm, values: helm_client.Values, *options: str) -> list[Document]:
    """The objects of a release with these values, hooks among them."""
    return helm_client.documents(helm.template(values, *options))


def name(document: Document) -> str:
    """The kind and name of an object."""
    return f"{document['kind']}/{document['metadata']['name']}"


def pods(documents: list[Document]) -> Iterator[tuple[Document, Document]]:
    """Each object that makes pods, or is one, with the pod's metadata and spec."""
    for one in documents:
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
        if one["kind"] == "Pod" or template:
            yield one, template or one


def written(directory: pathlib.Path, documents: list[Document]) -> str:
    """The path of a file with the objects."""
    path = directory / "objects.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


def lost(value: object, stored: object, path: str = "") -> Iterator[str]:
    """The paths at which what is stored differs from a value, beside fields that the value does not have."""
    if isinstance(value, dict) and isinstance(stored, dict):
        for key, inner in value.items():
            yield from lost(inner, stored.get(key), f"{path}/{key}")
    elif isinstance(value, list) and isinstance(stored, list) and len(value) == len(stored):
        for at, (inner, other) in enumerate(zip(value, stored, strict=True)):
            yield from lost(inner, other, f"{path}/{at}")
    elif value != stored:
        yield path


@reported("install", "open-policy-agent/gatekeeper#1120", "admiraltyio/admiralty#124", before=Before.WRONG)
@situation("GKE creates pods of a class system-*-critical outside kube-system only where a quota names it")
@behaviour("the quota is among the objects, and limits nothing")
def test_a_quota_names_the_priority_classes_of_the_pods(helm: Helm) -> None:
    found = objects(helm, ALL)
    quotas = [one for one in found if one["kind"] == "ResourceQuota"]
    terms = [term for one in quotas for term in one["spec"]["scopeSelector"]["matchExpressions"]]
    used = {template["spec"].get("priorityClassName") for _, template in pods(found)} & CRITICAL
    assert used
    assert used <= {value for term in terms if term["scopeName"] == "PriorityClass" for value in term["values"]}
    assert {tuple(one["spec"]["hard"].items()) for one in quotas} == {(("pods", "1G"),)}


@reported("install", "goharbor/harbor-helm#874", "FairwindsOps/charts#270", before=Before.WRONG)
@situation("OpenShift refuses a pod whose user or group is not of its namespace's range")
@behaviour("the chart names none there, and nobody runs as root")
def test_openshift_chooses_users_and_groups(helm: Helm) -> None:
    for one, template in pods(objects(helm, ALL, "--api-versions=security.openshift.io/v1")):
        context = template["spec"]["securityContext"]
        assert not context.keys() & {"runAsUser", "runAsGroup", "fsGroup"}, name(one)
        assert context["runAsNonRoot"] is True


@reported("install", "open-policy-agent/gatekeeper#1978", "linkerd/linkerd2#8194", before=Before.WRONG)
@situation("a mesh adds a proxy, which never ends, to each pod of the namespace; a hook's Job waits for its pod")
@behaviour("no pod that ends gets one from Istio or Linkerd")
def test_a_pod_that_ends_gets_no_proxy(helm: Helm) -> None:
    values = helm_client.merged(ALL, {"annotator": {"podLabels": {"sidecar.istio.io/inject": "true"}}})
    ending = {}
    for one, template in pods(objects(helm, values)):
        if template["spec"].get("restartPolicy") == "Never":
            ending[one["kind"]] = template["metadata"]
    assert ending.keys() == {"Job", "CronJob", "Pod"}
    for metadata in ending.values():
        assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
        assert metadata["annotations"]["linkerd.io/inject"] == "disabled"


@reported("install", "pulumi/pulumi-kubernetes#3034", "apache/airflow#27561", before=Before.WRONG)
@situation("what `helm template` prints is applied by kubectl, the hook's Job as an object; the policy changes")
@behaviour("it is another Job: none can be changed; what has ended goes after a day")
def test_a_changed_policy_is_applied_though_no_job_can_be_changed(
    helm: Helm, site: test_kustomize.Site, tmp_path: pathlib.Path
) -> None:
    def apply(mode: str) -> list[str]:
        found = objects(helm, {"policy": {"descheduler": {"mode": mode}}})
        jobs = [one for one in found if one["kind"] == "Job"]
        assert [one["spec"]["ttlSecondsAfterFinished"] for one in jobs] == [86400]
        return site.succeed("apply", "--server-side", "-f", written(tmp_path, jobs)).splitlines()

    made = [*apply("Observe"), *apply("DryRun"), *apply("Observe")]
    site.succeed("delete", "job", "--all", f"--namespace={permissions.NAMESPACE}")
    assert len(set(made)) == 2
    assert made[0] == made[2]


@reported("install", "polyseam/cndi#1087", "zitadel/zitadel-charts#504", before=Before.WRONG)
@situation("Argo CD renders the chart again and again, and compares it with what the apiserver has stored")
@behaviour("it is the same each time, and each field is stored as written: nothing stays OutOfSync")
def test_every_field_is_stored_as_it_is_written(helm: Helm, site: test_kustomize.Site, tmp_path: pathlib.Path) -> None:
    first, again = (objects(helm, ALL, f"--timeout={seconds}s") for seconds in (60, 61))  # not rendered once
    assert first == again
    wanted = {name(one): one for one in first if "helm.sh/hook" not in one["metadata"].get("annotations", {})}
    answer = site.checked("-f", written(tmp_path, list(wanted.values())), "-o", "json")
    assert answer.returncode == 0, answer.stderr
    stored = {name(one): one for one in json.loads(answer.stdout)["items"]}
    assert [f"{key}: {path}" for key, one in wanted.items() for path in lost(one, stored[key])] == []


@reported("install", "prometheus-community/helm-charts#3375", "argoproj/argo-cd#2871", before=Before.RIGHT)
@situation("Argo CD writes the application's name into the label app.kubernetes.io/instance of all objects")
@behaviour("each ServiceMonitor selects its Service nevertheless")
def test_no_service_monitor_goes_by_a_label_that_argo_cd_writes(helm: Helm) -> None:
    found = objects(helm, ALL)
    labels = {name(one): one["metadata"]["labels"] | {INSTANCE: "another"} for one in found if one["kind"] == "Service"}
    monitors = [one for one in found if one["kind"] == "ServiceMonitor"]
    assert len(monitors) == 3
    for one in monitors:
        wanted = one["spec"]["selector"]["matchLabels"].items()
        selected = [key for key, item in labels.items() if wanted <= item.items()]
        assert selected == [name(one).replace("ServiceMonitor", "Service")]


@reported("install", "helm/helm#12195", "webrecorder/browsertrix#3145", before=Before.RIGHT)
@situation("a priority of the policy has seven digits or more, of which Helm makes 1e+06")
@behaviour("it arrives as written, in the services' policy and in the one that the hook checks")
def test_a_large_priority_in_the_values_stays_an_integer(helm: Helm) -> None:
    policy = {"filter": {"exempt": {"priorityAtLeast": 1_000_000}}}
    found = {one["kind"]: one for one in objects(helm, {"policy": policy}) if "policy" in one["metadata"]["name"]}
    texts = [
        found["ConfigMap"]["data"]["policy.yaml"],
        found["Job"]["spec"]["template"]["metadata"]["annotations"]["evenload.io/policy"],
    ]
    for text in texts:
        assert loader.load(text, "policy.yaml").filter.exempt.priority_at_least == 1_000_000
