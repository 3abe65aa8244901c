"""docs/start/fifteen-minutes.md: the real Helm takes the values of each platform, and a reader comes to the end of it.

The reader types the page's commands as they stand there, with the page's own values, on a real control plane where
kube-prometheus-stack's Service is. The pods of the release run here (`pod_containers`), in the image of this tree.
Building it needs root on Debian; elsewhere that test is skipped with the reason, and in CI it fails.
"""

import contextlib
import functools
import json
import os
import pathlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from lab import cluster
from lab.cluster import binaries
from tests import forwarding, pages
from tests.contract import built_image, helm_client, pod_containers, test_kustomize
from tests.contract.built_image import Built
from tests.e2e import services, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # it may wait until another process has built the image
PAGE = pages.ROOT / "docs" / "start" / "fifteen-minutes.md"
FILES = {block.file: yaml.safe_load("\n".join(block.lines)) for block in pages.blocks(PAGE) if block.file}
OWN = FILES["values.yaml"]
PLATFORMS = {name: document for name, document in FILES.items() if "kind" not in document}


@pytest.mark.parametrize("name", PLATFORMS)
def test_helm_takes_the_values_of_a_platform(tmp_path: pathlib.Path, name: str) -> None:
    values = helm_client.merged(OWN, PLATFORMS[name])
    text = helm_client.Helm("helm", tmp_path).template(values)
    objects = {(one["kind"], one["metadata"]["name"]): one for one in helm_client.documents(text)}
    settings = objects["ConfigMap", "evenload-settings"]["data"]
    assert settings["PROMETHEUS_URL"] == values["prometheus"]["url"]
    assert settings["NODE_SELECTOR"] == values["prometheus"].get("nodeSelector", "")
    for service in ("annotator", "descheduler"):
        (container,) = objects["Deployment", f"evenload-{service}"]["spec"]["template"]["spec"]["containers"]
        assert set(values.get(service, {}).get("extraArgs", ())) <= set(container["args"])
    assert (("Deployment", "evenload-scheduler") in objects) == (name == "managed.yaml")


NAMESPACE: Final = "evenload-system"
PROMETHEUS_HOST: Final = "prometheus-operated.monitoring.svc"
NODES: Final = 3
PODS_ONLY_HERE: Final = "10.192.0.0/16"  # other clusters of this machine have fake pods elsewhere
PODS: Final = {"annotator": 1, "extender": 2, "descheduler": 1}
PORTS: Final = {"annotator": 8901, "extender": 8900, "descheduler": 8902}
UPGRADE: Final = "helm upgrade evenload deploy/helm/evenload -n evenload-system --reuse-values"
COMMANDS: Final = [one.text for block in pages.blocks(PAGE) for one in block.commands()]


class Reader:
    """A reader with a clone, the page's values.yaml and the programs that the page names."""

    def __init__(self, running: cluster.Cluster, clone: pathlib.Path) -> None:
        self.cluster = running
        (kubectl,) = binaries.find_or_build([one for one in binaries.TOOLS if one.name == "kubectl"]).values()
        folders = [str(kubectl.parent), str(helm_client.program("helm").parent), os.environ["PATH"]]
        self._clone = pages.Directory(clone, {"PATH": os.pathsep.join(folders), "KUBECONFIG": str(running.kubeconfig)})
        (clone / "values.yaml").write_text(yaml.safe_dump(OWN), encoding="utf-8")

    def type(self, begins: str, codes: tuple[int, ...] = (0,), *, only_stdout: bool = False) -> str:
        """Returns what the one command of the page that begins so prints; it must end with one of the codes."""
        (text,) = [one for one in dict.fromkeys(COMMANDS) if one.startswith(begins)]
        answer = self._clone.run(pages.Command(0, f"{{ {text}; }} 2>/dev/null" if only_stdout else text))
        assert answer.returncode in codes, f"$ {text}\n{answer.stdout}"
        return answer.stdout

    def doctor(self) -> dict[str, dict[str, str]]:
        """The checks of `evenload doctor` by name."""
        answer = self._clone.run(pages.Command(0, "evenload doctor -o json 2>/dev/null"))
        return {one["check"]: one for one in json.loads(answer.stdout)["checks"]}

    @contextlib.contextmanager
    def console(self) -> Iterator[str]:
        """The address of `evenload console` while the body runs."""
        port = services.free_port()
        with self._clone.start(f"exec evenload console --listen 127.0.0.1:{port}") as process:
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()

    def pods(self) -> list[pod_containers.Document]:
        """The pods of the release, once each has an address."""
        found = self.cluster.api.items(f"api/v1/namespaces/{NAMESPACE}/pods")
        return found if len(found) == sum(PODS.values()) and all(one["status"].get("podIP") for one in found) else []


def prometheus_pod(running: cluster.Cluster) -> str:
    """Creates the Service that prometheus-operator makes, and a pod behind it; returns the pod's address."""
    api, pods = running.api, "api/v1/namespaces/monitoring/pods"
    api.create("api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    labels = {"operated-prometheus": "true"}
    ports = [{"name": "http-web", "port": 9090}]
    metadata = {"name": "prometheus-operated", "labels": labels}
    api.create(
        "api/v1/namespaces/monitoring/services", {"metadata": metadata, "spec": {"selector": labels, "ports": ports}}
    )
    waiting.until(lambda: api.exists("api/v1/namespaces/monitoring/serviceaccounts/default"), "an account")
    spec = {"containers": [{"name": "prometheus", "image": "prometheus"}]}
    api.create(pods, {"metadata": {"name": "prometheus-0", "labels": labels}, "spec": spec})
    return waiting.until(lambda: str(api.get(f"{pods}/prometheus-0")["status"].get("podIP", "")), "an address")


def component(pod: pod_containers.Document) -> str:
    """The service in a pod."""
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def address(pod: pod_containers.Document) -> str:
    """Where the service in a pod answers."""
    return f"http://{pod['status']['podIP']}:{PORTS[component(pod)]}"


def fetched(url: str) -> tuple[int, str]:
    """Status and text of GET; status 0 while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=30) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def answered(pod: pod_containers.Document, path: str) -> bool:
    """Whether the service in a pod says 200."""
    return fetched(address(pod) + path)[0] == 200


def policy(pod: pod_containers.Document) -> dict[str, Any]:
    """The policy that the service in a pod obeys."""
    found: dict[str, Any] = json.loads(fetched(address(pod) + "/configz")[1])["policy"]
    return found


@pytest.fixture
def reader(tmp_path: pathlib.Path) -> Iterator[Reader]:
    """A cluster with kube-prometheus-stack's objects and a disk for the ledger."""
    with cluster.Cluster(nodes=NODES, node_exporter=False, pod_cidr=PODS_ONLY_HERE) as running:
        site = test_kustomize.Site(running, tmp_path)
        site.define(test_kustomize.CRDS)
        running.api.create("api/v1/persistentvolumes", test_kustomize.disk("ledger"))
        clone = tmp_path / "clone"
        clone.mkdir()
        yield Reader(running, clone)


@pytest.fixture
def kubelet(reader: Reader, built: Built, tmp_path: pathlib.Path) -> Iterator[pod_containers.Kubelet]:
    """Runs the pods of the release in the image of this tree, and reaches Prometheus by its Service's name."""
    made = pod_containers.Kubelet(reader.cluster, NAMESPACE, built.image, built.root, tmp_path / "pods")
    address, port = prometheus_pod(reader.cluster), int(reader.cluster.prometheus_url.rpartition(":")[2])
    made.hosts[PROMETHEUS_HOST] = address
    try:
        made.own(address)
        with forwarding.Forwarder(port, address=(address, 9090)):
            yield made
    finally:
        made.remove()


def test_a_reader_installs_looks_lets_kube_scheduler_ask_and_enforces(
    reader: Reader, kubelet: pod_containers.Kubelet, built: Built, tmp_path: pathlib.Path
) -> None:
    install(reader, kubelet)
    look(reader)
    let_kube_scheduler_ask(reader)
    decide(reader, kubelet)
    evict(reader, kubelet)
    (descheduler,) = [one for one in reader.pods() if component(one) == "descheduler"]
    plan = built_image.printed(built, tmp_path, "plan", "--descheduler", address(descheduler), "-o", "json")
    assert json.loads(plan)["mode"] == "Enforce", "the image has the command line, too"
    codes = {name: one.stop() for name, one in kubelet.containers.items()}
    assert sorted(codes.values()) == [0] * sum(PODS.values()), f"SIGTERM ends every service: {codes}"


def install(reader: Reader, kubelet: pod_containers.Kubelet) -> None:
    """Step 2: the pods of the release become ready, each as its readiness probe asks."""
    reader.type("helm upgrade --install evenload")
    for name in ("annotator", "extender"):
        reader.type(f"kubectl -n evenload-system rollout status deployment/evenload-{name}")
    for pod in waiting.until(reader.pods, "the release's pods to have addresses"):
        container, path = kubelet.start(pod), pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
        probe = functools.partial(answered, pod, path)
        waiting.eventually(probe, waiting.START_SECONDS, f"{pod['metadata']['name']} to be ready", container.log)


def look(reader: Reader) -> None:
    """Step 3: doctor says what the page says of a young Prometheus, and nothing else is wrong."""

    def as_the_page_says() -> bool:
        checks = {name: one["verdict"] for name, one in reader.doctor().items()}
        asked, young = checks.pop("extender asked"), checks.pop("metrics")
        return asked == "unknown" and young in ("ok", "warn") and set(checks.values()) == {"ok"}

    waiting.until(as_the_page_says, "doctor to say what the page says", reader.doctor)
    assert "extender asked" in reader.type("evenload doctor", codes=(1, 4))  # 1 while it warns
    table = reader.type("evenload nodes")
    assert all(f"node-{number}" in table for number in range(NODES)), table
    with reader.console() as url:
        waiting.until(lambda: fetched(url)[0] == 200, "the console's page")
        with urllib.request.urlopen(f"{url}/api/stream", timeout=waiting.LIMIT_SECONDS) as stream:
            names = [f"node-{number}".encode() for number in range(NODES)]
            assert any(all(name in line for name in names) for line in stream)  # it has other topics, too


def let_kube_scheduler_ask(reader: Reader) -> None:
    """Step 4: kube-scheduler asks an extender's pod, by the stanza that the command prints, and is told of no node."""
    reader.type("kubectl -n evenload-system get configmap")
    (stanza,) = yaml.safe_load(reader.type("evenload scheduler-config", only_stdout=True))["extenders"]
    (first, _) = [one for one in reader.pods() if component(one) == "extender"]
    reader.cluster.start_scheduler(extenders=[{**stanza, "urlPrefix": address(first)}])  # no DNS and no Service here
    reader.type("kubectl run web")
    waiting.until(lambda: reader.doctor()["extender asked"]["verdict"] == "ok", "doctor", reader.doctor)
    assert "in shadow mode" in reader.doctor()["extender asked"]["seen"]
    explained = reader.type("evenload explain pod", codes=(0, 4))  # 4 while a maximum is missing
    assert "shadow mode: " in explained
    assert "expected to win" not in explained
    reader.type("kubectl delete pod web")


def decide(reader: Reader, kubelet: pod_containers.Kubelet) -> None:
    """Step 5: the extenders take the policy over, and no pod was replaced for it."""
    before = {one["metadata"]["name"]: one for one in reader.pods()}
    reader.type(f"{UPGRADE} --set policy.extender.mode=Enforce")
    kubelet.refresh()
    extenders = [one for one in before.values() if component(one) == "extender"]
    waiting.until(lambda: {policy(one)["extender"]["mode"] for one in extenders} == {"Enforce"}, "Enforce")
    assert {one["metadata"]["name"] for one in reader.pods()} == set(before)
    reader.type("kubectl run web")
    waiting.until(lambda: "expected to win" in reader.type("evenload explain pod", codes=(0, 4)), "explain")
    reader.type("kubectl delete pod web")


def evict(reader: Reader, kubelet: pod_containers.Kubelet) -> None:
    """Step 6: the descheduler takes the policy over, and no pod was replaced for it."""
    before = {one["metadata"]["name"]: one for one in reader.pods()}
    reader.type(f"{UPGRADE} \\\n  --set policy.descheduler.mode=Enforce")
    kubelet.refresh()
    (descheduler,) = [one for one in before.values() if component(one) == "descheduler"]

    def enforces() -> bool:
        section = policy(descheduler)["descheduler"]
        return bool(section["mode"] == "Enforce" and section["protect"]["optIn"])

    waiting.until(enforces, "the descheduler to enforce")
    assert {one["metadata"]["name"] for one in reader.pods()} == set(before)
