"""The real apiserver admits the shipped manifests from the real kubectl, without a warning; one overlay runs."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube import config, errors
from lab import cluster
from lab.cluster import binaries
from lab.cluster.demo import permissions
from tests import commands, shared
from tests.contract import capacity_buffers
from tests.e2e import services, waiting

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMESPACE = permissions.NAMESPACE
OVERLAYS = sorted(path.name for path in (DEPLOY / "kustomize" / "overlays").iterdir())
PLACEHOLDERS = sorted(f"placeholder/overlays/{path.name}" for path in (DEPLOY / "placeholder" / "overlays").iterdir())
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
SECOND = "scheduler/second"
USER = f"system:serviceaccount:{NAMESPACE}:evenload-scheduler"
ONE_OF_EACH_BINDING = (
    permissions.Right(USER, "list", "", "nodes"),
    permissions.Right(USER, "update", "", "persistentvolumes"),
    permissions.Right(USER, "list", "", "configmaps", "extension-apiserver-authentication", "kube-system"),
    permissions.Right(USER, "update", "coordination.k8s.io", "leases", "evenload-scheduler", NAMESPACE),
)
STATIC_POD = """
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: kube-scheduler
      image: registry.k8s.io/kube-scheduler:v1.36.3
      command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf, --leader-elect=true]
      volumeMounts:
        - {name: kubeconfig, mountPath: /etc/kubernetes/scheduler.conf, readOnly: true}
  volumes:
    - name: kubeconfig
      hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
"""
SERVICES = ("annotator", "extender", "descheduler")
BUFFERS = "autoscaling.x-k8s.io"
CRDS = Path(__file__).with_name("prometheus_operator_crds.yaml")
Document = dict[str, Any]


class Site:
    """A cluster of its own, and kubectl as its administrator."""

    def __init__(self, running: cluster.Cluster, directory: Path) -> None:
        self.cluster = running
        tools = [tool for tool in binaries.TOOLS if tool.name in ("kubectl", "kube-scheduler")]
        self.commands = binaries.find_or_build(tools)
        self._options = [f"--kubeconfig={running.kubeconfig}", f"--cache-dir={directory}"]
        self._environment = {**os.environ, "GOGC": "off"}  # kubectl ends before a collection pays
        self._shipped: dict[Path, str] = {}
        self._defined: set[Path] = set()

    def succeed(self, *arguments: str) -> str:
        """Stdout of a kubectl that must succeed."""
        answer = self.kubectl(*arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What kubectl answers, whatever its exit code."""
        command = [str(self.commands["kubectl"]), *self._options, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=self._environment)

    def rendered(self, directory: Path) -> list[Document]:
        """Every object of a kustomization; one that is shipped is rendered once."""
        text = self._shipped.get(directory) or self.succeed("kustomize", str(directory))
        if directory.is_relative_to(DEPLOY):
            self._shipped[directory] = text
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))

    def checked(self, *what: str) -> subprocess.CompletedProcess[str]:
        """Objects validated and admitted by the apiserver, without being stored; a warning is an error."""
        self.make_namespace()
        how = ("--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors")
        return self.kubectl("apply", *what, *how)

    def accepted(self, *what: str) -> list[str]:
        """The lines of kubectl about objects that the apiserver must take without a warning."""
        answer = self.checked(*what)
        assert answer.returncode == 0, answer.stderr
        assert "Warning" not in answer.stderr
        return answer.stdout.splitlines()

    def make_namespace(self) -> None:
        """The namespace of all, unless there as shipped; server-side: the apiserver remarks on two ways of applying."""
        if not self.cluster.api.items("api/v1/namespaces", labelSelector=RESTRICTED):
            self.apply(DEPLOY / "namespace", "--server-side")

    def define(self, file: Path) -> None:
        """Custom resources, known to the apiserver when this returns."""
        if file in self._defined:
            return
        self.succeed("apply", "--server-side", "-f", str(file))
        limit = f"--timeout={waiting.LIMIT_SECONDS:.0f}s"
        self.succeed("wait", "--for=condition=Established", limit, "-f", str(file))
        for one in yaml.safe_load_all(file.read_text(encoding="utf-8")):  # established is a moment before described
            asked = functools.partial(self._described, one["spec"]["names"]["plural"])
            waiting.until(asked, f"{one['metadata']['name']} to be served")
        self._defined.add(file)

    def _described(self, plural: str) -> bool:
        """Whether the apiserver publishes the schema that strict validation goes by."""
        return self.kubectl("explain", f"{plural}.spec").returncode == 0

    def apply(self, directory: Path, *how: str) -> None:
        """A kustomization as users apply it."""
        self.succeed("apply", "-k", str(directory), *how)

    def delete(self, directory: Path) -> None:
        """Away with it, and wait until none of its objects is left; the namespace takes everything in it along."""
        self.kubectl("delete", "-k", str(directory), "--ignore-not-found", f"--timeout={waiting.LIMIT_SECONDS:.0f}s")
        waiting.eventually(
            lambda: not self.left(directory),
            2 * waiting.LIMIT_SECONDS,
            f"all of {directory} to be gone",
            lambda: self.left(directory),
        )

    def left(self, directory: Path) -> list[str]:
        """Which objects of a kustomization there are."""
        return self.succeed("get", "-k", str(directory), "--ignore-not-found", "-o", "name").split()

    def pods(self, component: str) -> list[Document]:
        """The pods of a component of ours that are not on their way out."""
        query = f"app.kubernetes.io/name=evenload,app.kubernetes.io/component={component}"
        found = self.cluster.api.items(f"api/v1/namespaces/{NAMESPACE}/pods", labelSelector=query)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def dispensable(self) -> object:
        """How many extenders may be evicted now."""
        path = f"apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/evenload-extender"
        return self.cluster.api.get(path).get("status", {}).get("disruptionsAllowed")

    def ready(self) -> dict[str, tuple[int, int]]:
        """Ready and wanted replicas of every Deployment of ours."""
        found = self.cluster.api.items(f"apis/apps/v1/namespaces/{NAMESPACE}/deployments")
        return {
            one["metadata"]["name"]: (one.get("status", {}).get("readyReplicas", 0), one["spec"]["replicas"])
            for one in found
        }


@contextlib.contextmanager
def plain_site(directory: Path) -> Iterator[Site]:
    """Three nodes, the API of buffers, and nothing of ours on them."""
    with cluster.Cluster(nodes=3, prometheus=False, exporter=False, node_exporter=False) as running:
        site = Site(running, directory)
        site.define(capacity_buffers.unpacked(directory))
        yield site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site that this file shares with the chart's."""
    return shared.shared("kubectl", lambda: plain_site(tmp_path_factory.mktemp("kubectl")))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder deploy/ where a test may write into it, and an empty one beside it, `mine`."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "mine").mkdir()
    return tmp_path


def overlay(copied: Path, text: str = "", **document: object) -> Path:
    """A kustomization of one's own over the copy: a text as it stands, or fields."""
    mine = copied / "mine"
    (mine / "kustomization.yaml").write_text(text or yaml.safe_dump(document), encoding="utf-8")
    return mine


@pytest.mark.parametrize(
    "name", [*(f"kustomize/overlays/{one}" for one in OVERLAYS), "guard", "placeholder", *PLACEHOLDERS, SECOND]
)
def test_a_kustomization_is_accepted_whole_and_without_a_warning(site: Site, name: str) -> None:
    rendered = site.rendered(DEPLOY / name)
    accepted = site.accepted("-k", str(DEPLOY / name))
    assert len(accepted) == len(rendered)
    assert all(line.endswith("serverside-applied (server dry run)") for line in accepted)
    assert not unlabelled(rendered)


def unlabelled(documents: list[Document]) -> list[str]:
    """Objects without the recommended labels; those of the guard and of the ConfigMaps' generators have their own."""
    wanted = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")}
    return [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in documents
        if not one["kind"].startswith("ValidatingAdmission") and not wanted <= set(one["metadata"].get("labels", {}))
    ]


def test_the_overlay_of_the_install_guide_is_accepted_and_its_policy_in_force(site: Site, copied: Path) -> None:
    text = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    (document,) = re.findall(r"```yaml\n(# mine/kustomization\.yaml\n.*?)```", text, re.DOTALL)
    mine = overlay(copied, document)
    (mine / "policy.yaml").write_text("mine", encoding="utf-8")
    site.accepted("-k", str(mine))
    (policy,) = [one for one in site.rendered(mine) if one["metadata"]["name"] == "evenload-policy"]
    assert policy["data"] == {"policy.yaml": "mine"}


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        pytest.param(
            "runAsNonRoot: true", "runAsNonRoot: false", "would violate PodSecurity", id="a pod that may be root"
        ),
        pytest.param("replicas: 2", "replica: 2", ".spec.replica: field not declared", id="a misspelt field"),
        pytest.param("maxUnavailable: 1\n", "maxUnavailable: some\n", "maxUnavailable", id="a value that cannot be"),
    ],
)
def test_the_apiserver_complains_about_what_is_wrong(
    site: Site, copied: Path, right: str, wrong: str, complaint: str
) -> None:
    path = copied / "deploy/kustomize/base/extender.yaml"
    text = path.read_text(encoding="utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    answer = site.checked("-k", str(copied / "deploy/kustomize/overlays/observe"))
    assert answer.returncode != 0
    assert complaint in answer.stderr


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_overlay_brings_the_guard(site: Site, name: str) -> None:
    rendered = by_name(site.rendered(DEPLOY / "kustomize" / "overlays" / name))
    for part in ("evictions", "nodes", "pods", "scales"):
        policy = rendered["ValidatingAdmissionPolicy", f"evenload-guard-{part}"]
        assert "namespace" not in policy["metadata"]
        binding = rendered["ValidatingAdmissionPolicyBinding", f"evenload-guard-{part}"]
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_the_guard_holds_in_another_namespace_too(site: Site, copied: Path) -> None:
    parts = [f"../deploy/{name}" for name in ("namespace", "rbac", "guard")]
    mine = overlay(copied, resources=parts, namespace="load")
    site.apply(mine)
    for right in permissions.granted(one for one in site.rendered(mine) if one["kind"] in permissions.PATHS):
        permissions.await_right(site.cluster, right)
    body = asking_for("default-scheduler")
    body["metadata"]["labels"] = {"evenload.io/protected": "true"}
    pods = "api/v1/namespaces/default/pods"
    pod = site.cluster.api.create(pods, body)["metadata"]
    door = config.connect(site.cluster.service_account_kubeconfig("load", "evenload-descheduler"))

    def answer() -> str:
        """Of a dry run, since the pod goes where the guard is off."""
        try:
            return str(door.evict(namespace="default", name=pod["name"], uid=pod["uid"], dry_run=True))
        except errors.Forbidden as error:
            return error.message

    waiting.until(lambda: "is labelled evenload.io/protected" in answer(), "no", answer)
    door.close()
    site.cluster.api.delete(f"{pods}/{pod['name']}")
    site.delete(mine)


def with_component(copied: Path, name: str, component: str) -> Path:
    """A shipped overlay with a component."""
    parts = "../deploy/kustomize"
    return overlay(copied, resources=[f"{parts}/overlays/{name}"], components=[f"{parts}/components/{component}"])


def test_the_component_metrics_server_is_accepted_and_grants_each_service_its_own(site: Site, copied: Path) -> None:
    mine = with_component(copied, "ha", "metrics-server")
    site.accepted("-k", str(mine))
    rendered = by_name(site.rendered(mine))
    pods = {name: rendered["Deployment", f"evenload-{name}"]["spec"]["template"]["spec"] for name in SERVICES}
    reading = {name for name, pod in pods.items() if "--source=metrics-server" in pod["containers"][0]["args"]}
    assert reading == {"annotator", "descheduler"}
    replicas = {name: rendered["Deployment", f"evenload-{name}"]["spec"]["replicas"] for name in SERVICES}
    assert replicas == {"annotator": 2, "extender": 3, "descheduler": 2}
    roles = {(kind, name): one["rules"] for (kind, name), one in rendered.items() if kind.endswith("Role")}
    granted = {
        name: rule["resources"]
        for (_, name), rules in roles.items()
        for rule in rules
        if "metrics.k8s.io" in rule["apiGroups"]
    }
    assert granted == {"evenload-annotator": ["nodes"], "evenload-doctor": ["nodes"], "evenload-descheduler": ["pods"]}
    beat = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["evenload-heartbeat"], "verbs": ["get"]}
    assert beat in roles["Role", "evenload-descheduler"]


@pytest.mark.parametrize(("name", "component"), [("observe", "monitoring"), ("mtls", "monitoring-mtls")])
def test_what_prometheus_operator_reads_is_accepted_beside_an_overlay(
    site: Site, copied: Path, name: str, component: str
) -> None:
    site.define(CRDS)
    mine = with_component(copied, name, component)
    site.accepted("-k", str(mine))
    rendered = site.rendered(mine)
    assert not unlabelled(rendered)
    (endpoint,) = [
        one["spec"]["endpoints"][0]
        for one in rendered
        if (one["kind"], one["metadata"]["name"]) == ("ServiceMonitor", "evenload-extender")
    ]
    assert ("tlsConfig" in endpoint) == (name == "mtls")
    assert endpoint.get("scheme", "http") == ("https" if name == "mtls" else "http")


def test_a_field_that_a_service_monitor_does_not_have_is_complained_about(site: Site, copied: Path) -> None:
    site.define(CRDS)
    path = copied / "deploy/monitoring/service-monitors.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("targetPort: serving", "targetport: serving"))
    answer = site.checked("-k", str(path.parent))
    assert answer.returncode != 0
    assert "endpoints[0].targetport" in answer.stderr


def test_kubeadms_patch_makes_a_valid_pod_of_the_manifest_that_kubeadm_writes(site: Site, copied: Path) -> None:
    patch = {"target": {"kind": "Pod", "name": "kube-scheduler"}, "path": "patch.yaml"}
    mine = overlay(copied, resources=["pod.yaml"], patches=[patch])
    (mine / "pod.yaml").write_text(STATIC_POD, encoding="utf-8")
    shutil.copy(DEPLOY / "scheduler" / "kubeadm" / "kube-scheduler+json.yaml", mine / "patch.yaml")
    site.accepted("-k", str(mine))
    (pod,) = site.rendered(mine)
    (container,) = pod["spec"]["containers"]
    assert container["command"][-1].startswith("--config=")
    assert container["volumeMounts"][-1]["name"] == pod["spec"]["volumes"][-1]["name"] == "evenload"


def test_ha_is_applied_runs_is_unchanged_when_applied_again_and_is_taken_away_without_a_trace(site: Site) -> None:
    ha = DEPLOY / "kustomize" / "overlays" / "ha"
    volume = f"ledger-{uuid.uuid4().hex[:8]}"
    site.cluster.api.create("api/v1/persistentvolumes", disk(volume))
    site.apply(ha)
    wanted = {"evenload-annotator": (2, 2), "evenload-descheduler": (2, 2), "evenload-extender": (3, 3)}
    waiting.eventually(lambda: site.ready() == wanted, 2 * waiting.LIMIT_SECONDS, "all replicas", site.ready)
    nodes = {
        name: {pod["spec"]["nodeName"] for pod in site.pods(name)} for name in ("annotator", "descheduler", "extender")
    }
    assert {name: len(found) for name, found in nodes.items()} == {"annotator": 2, "descheduler": 1, "extender": 3}
    waiting.until(lambda: site.dispensable() == 1, "one extender to be dispensable", site.dispensable)
    again = site.succeed("apply", "-k", str(ha)).splitlines()
    patched = [line for line in again if not line.endswith(" unchanged")]
    assert [line.partition("/")[0] for line in patched] == ["poddisruptionbudget.policy"], (
        "kubectl sends a budget's selector each time (patchStrategy: replace), and nothing else"
    )
    site.delete(ha)
    site.cluster.api.delete(f"api/v1/persistentvolumes/{volume}")


def test_a_part_applied_later_takes_no_label_off_the_namespace_of_all(site: Site) -> None:
    parts = [*(DEPLOY / "kustomize" / "overlays" / name for name in OVERLAYS), DEPLOY / "placeholder"]
    parts += [DEPLOY / name for name in PLACEHOLDERS]
    namespaces = [one for part in parts for one in site.rendered(part) if one["kind"] == "Namespace"]
    assert len(namespaces) == len(parts)
    assert all(one == namespaces[0] for one in namespaces)


RENDERED = {
    "everything about the pods": [
        *("--replicas", "3", "--requests", "cpu=1,memory=2Gi,nvidia.com/gpu=1", "--image", "registry.k8s.io/pause:3.9"),
        *("--toleration", "dedicated=batch:NoSchedule", "--toleration", "*", "--node-selector", "pool=a"),
        *("--spread-nodes", "hard", "--spread-zones", "off", "--affinity", "AFFINITY"),
        *("--priority", "-7", "--priority-class", "mine", "--burst-class"),
    ],
    "a class that exists": ["--preset", "soak", "--existing-priority-class", "--priority-class", "low"],
    "soaking by the clock": ["--preset", "soak", "--during", "20:00-07:00=0", "--time-zone", "Europe/Berlin"],
    "a set of its own, in proportion": [
        *("--name", "gpu", "-n", "default", "--nodes-per-replica", "4", "--cores-per-replica", "9"),
        *("--max-replicas", "9", "--during", "Fri 20:00-Mon 07:00=20%", "--evenload-image", "evenload:1"),
    ],
    "a buffer of its own, in proportion": [
        *("--as", "buffers", "--name", "gpu", "-n", "default", "--nodes-per-replica", "4", "--max-replicas", "9"),
        *("--requests", "cpu=1,memory=2Gi", "--node-selector", "pool=a", "--use-per-replica", "cpu_avg_5m=55%"),
    ],
}
AFFINITY = """
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
"""


@pytest.mark.parametrize("chosen", RENDERED)
def test_what_render_prints_is_what_kustomize_makes_of_its_overlay_and_is_accepted(
    site: Site, copied: Path, chosen: str
) -> None:
    (copied / "affinity.yaml").write_text(AFFINITY, encoding="utf-8")
    options = [str(copied / "affinity.yaml") if word == "AFFINITY" else word for word in RENDERED[chosen]]
    mine = overlay(copied, render(*options, "--kustomization", "../deploy"))
    printed = list(yaml.safe_load_all(render(*options)))
    assert by_name(printed) == by_name(site.rendered(mine))
    assert len(site.accepted("-k", str(mine))) == len(printed)


def render(*options: str) -> str:
    """What `evenload placeholder render` prints."""
    return commands.output("placeholder", "render", *options)


def by_name(documents: list[Document]) -> dict[tuple[str, str], Document]:
    """Objects by kind and name, in no order."""
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("replicas: 10", "replica: 10", ".spec.replica: field not declared"),
        ("  replicas: 10\n", "", "If podTemplateRef is set, replicas or limits must also be set"),
    ],
    ids=["a misspelt field", "no number"],
)
def test_a_buffer_is_held_to_its_crd(site: Site, tmp_path: Path, right: str, wrong: str, complaint: str) -> None:
    text = render("--as", "buffers", "--name", "held")
    assert right in text
    (tmp_path / "buffer.yaml").write_text(text.replace(right, wrong), encoding="utf-8")
    answer = site.checked("-f", str(tmp_path / "buffer.yaml"))
    assert answer.returncode != 0
    assert complaint in answer.stderr


@pytest.mark.parametrize(
    ("form", "patched", "read", "path"),
    [
        ("pods", ("apps", "deployments/scale"), ("apps", "deployments"), "apis/apps/v1"),
        ("buffers", (BUFFERS, "capacitybuffers"), ("", "podtemplates"), f"apis/{BUFFERS}/v1beta1"),
    ],
)
def test_the_job_that_sets_the_number_needs_the_rights_it_ships_with_and_has_no_other(
    site: Site, copied: Path, form: str, patched: tuple[str, str], read: tuple[str, str], path: str
) -> None:
    where, (plural, _, _) = "default", patched[1].partition("/")  # which need not go to be rid of it
    options = ("--as", form, "-n", where, "--nodes-per-replica", "2", "--max-replicas", "9")
    mine = overlay(copied, render(*options, "--during", "00:00-24:00=150%", "--kustomization", "../deploy"))
    site.apply(mine)
    user = f"system:serviceaccount:{where}:placeholder-size"
    scale = permissions.Right(user, "patch", *patched, "placeholder", where)
    reading = permissions.Right(user, "get", *read, "placeholder", where)
    for right in (scale, reading, permissions.Right(user, "list", "", "nodes")):
        permissions.await_right(site.cluster, right)
    for wrong in (
        scale._replace(name="other"),
        scale._replace(namespace=NAMESPACE),
        scale._replace(resource=f"{plural}/status"),
        reading._replace(name="other"),
        reading._replace(verb="patch"),
        *(scale._replace(verb=verb) for verb in ("get", "update", "delete")),
        permissions.Right(user, "list", "", "pods", namespace=where),
        permissions.Right(user, "patch", "", "nodes"),
    ):
        assert not site.cluster.api.create(permissions.REVIEWS, {"spec": wrong.review()})["status"]["allowed"], wrong
    (job,) = [one for one in site.rendered(mine) if one["kind"] == "CronJob"]
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    kubeconfig = str(site.cluster.service_account_kubeconfig(where, "placeholder-size"))
    command = [*container["command"][1:], *container["args"], "--kubeconfig", kubeconfig]
    path = f"{path}/namespaces/{where}/{plural}/placeholder"
    before = site.cluster.api.get(path)["spec"]["replicas"]
    dry = commands.output(*command, "--dry-run")
    assert site.cluster.api.get(path)["spec"]["replicas"] == before
    assert commands.output(*command) == dry.replace("would be", "is")
    assert site.cluster.api.get(path)["spec"]["replicas"] == 3  # for three nodes two, and of these 150 %
    other = [word.replace("=placeholder", "=other") for word in command]
    refused = commands.run(*other)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Forbidden" in refused.stderr
    site.delete(mine)


def disk(name: str) -> Document:
    """A volume as a storage class would provide one."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}}
    return {"metadata": {"name": name}, "spec": spec}


def test_another_policy_restarts_no_pod(site: Site) -> None:
    templates = [
        {
            one["metadata"]["name"]: one["spec"]["template"]
            for one in site.rendered(DEPLOY / "kustomize" / "overlays" / name)
            if one["kind"] == "Deployment"
        }
        for name in ("observe", "enforce")
    ]
    assert templates[0] == templates[1]


def test_the_second_scheduler_binds_pods_under_its_own_account(site: Site, tmp_path: Path) -> None:
    site.make_namespace()
    site.apply(DEPLOY / SECOND)
    for right in ONE_OF_EACH_BINDING:
        permissions.await_right(site.cluster, right)
    pods = "api/v1/namespaces/default/pods"
    pod = f"{pods}/{site.cluster.api.create(pods, asking_for('evenload-scheduler'))['metadata']['name']}"
    lease = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/evenload-scheduler"
    with scheduler(site, tmp_path) as log:
        end = lambda: log.read_text()[-3000:]  # noqa: E731
        get = site.cluster.api.get
        waiting.eventually(lambda: get(pod)["spec"].get("nodeName"), waiting.START_SECONDS, "the pod to be bound", end)
        first = get(lease)["spec"]["renewTime"]
        renewed = lambda: get(lease)["spec"]["renewTime"] != first  # noqa: E731
        waiting.until(renewed, "the Lease to be renewed", end)
        assert "forbidden" not in log.read_text().lower()
    site.cluster.api.delete(pod)
    site.delete(DEPLOY / SECOND)


def asking_for(scheduler_name: str) -> Document:
    """A pod that waits for that scheduler."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    spec = {"schedulerName": scheduler_name, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"generateName": "asking-"}, "spec": spec}


@contextlib.contextmanager
def scheduler(site: Site, directory: Path) -> Iterator[Path]:
    """kube-scheduler under the shipped configuration, as the shipped ServiceAccount; its log."""
    kubeconfig = str(site.cluster.service_account_kubeconfig(NAMESPACE, "evenload-scheduler"))
    (text,) = [one["data"]["config.yaml"] for one in site.rendered(DEPLOY / SECOND) if one["kind"] == "ConfigMap"]
    shipped = yaml.safe_load(text)
    patient = {"leaseDuration": "240s", "renewDeadline": "180s", "retryPeriod": "2s"}  # a busy machine loses no Lease
    here = {"clientConnection": {"kubeconfig": kubeconfig}, "leaderElection": shipped["leaderElection"] | patient}
    (directory / "config.yaml").write_text(yaml.safe_dump(shipped | here))
    arguments = [f"--config={directory / 'config.yaml'}", f"--authentication-kubeconfig={kubeconfig}"]
    arguments += [f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"]
    arguments += [f"--secure-port={services.free_port()}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([site.commands["kube-scheduler"], *arguments], stdout=log, stderr=log)
    try:
        yield directory / "log"
    finally:
        process.terminate()
        process.wait(timeout=waiting.LIMIT_SECONDS)
