"""metrics.k8s.io behind a real kube-apiserver, over kubelets that only say what their node and its pods use.

`tests/contract/test_metrics_server.py` lets the annotator read it, `tests/e2e/test_without_prometheus.py` all services.
The apiserver reaches the server through an APIService, a Service and an EndpointSlice, as in a cluster. With
EVENLOAD_METRICS_SERVER=real (`make -C lab metrics-server`) that is the real metrics-server, which takes minutes to
compile; else a stand-in, which answers as it does and passes the same tests. Each kubelet serves `/metrics/resource` by
TLS at a loopback address that its Node has as ExternalIP.
"""

import collections.abc
import contextlib
import ipaddress
import os
import pathlib
import random
import re
import ssl
import subprocess
import threading
import time
import typing

import yaml

from lab import cluster
from lab.cluster import ports, programs
from lab.cluster.demo import permissions
from runtime import certificates, clock
from tests import scripted_http
from tests.e2e import waiting

HERE = pathlib.Path(__file__).parent
COMPONENT = HERE.parents[1] / "deploy" / "kustomize" / "components" / "metrics-server" / "kustomization.yaml"
API = "v1beta1.metrics.k8s.io"
FIRST_ADDRESS = ipaddress.IPv4Address("127.0.8.1")
REAL = os.environ.get("EVENLOAD_METRICS_SERVER") == "real"
RESOLUTION_SECONDS = 10 if REAL else 2  # metrics-server takes no shorter one
IDLE = (0.1, 0.1)  # ratios of CPU and memory
GROUP_VERSION = "metrics.k8s.io/v1beta1"
SERVICE = "api/v1/namespaces/kube-system/services"
SLICES = "apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
API_SERVICES = "apis/apiregistration.k8s.io/v1/apiservices"


def operations(kind: str, name: str) -> list[dict[str, typing.Any]]:
    """The fields that the component adds to an object."""
    document = yaml.safe_load(COMPONENT.read_text(encoding="utf-8"))
    targets = [(one["target"], yaml.safe_load(one["patch"])) for one in document["patches"]]
    patches = [patch for target, patch in targets if target["kind"] == kind and re.fullmatch(target["name"], name)]
    return [one for patch in patches for one in patch if one["op"] == "add"]


def added_arguments(service: str) -> list[str]:
    """The arguments that the component adds to a service's."""
    return [one["value"] for one in operations("Deployment", f"evenload-{service}")]


def grant(running: cluster.Cluster, service: str) -> None:
    """Adds the component's rules to the roles of a service, and nothing else."""
    _set_rules(running, service, there=True)


def withdraw(running: cluster.Cluster, service: str) -> None:
    """Takes the component's rules off the roles of a service."""
    _set_rules(running, service, there=False)


def _set_rules(running: cluster.Cluster, service: str, *, there: bool) -> None:
    account = f"evenload-{service}"
    for kind in ("ClusterRole", "Role"):
        added = [one["value"] for one in operations(kind, account)]
        if added:
            path = f"{permissions.PATHS[kind].format(namespace=permissions.NAMESPACE)}/{account}"
            others = [rule for rule in running.api.get(path)["rules"] if rule not in added]
            running.api.patch(path, {"rules": [*others, *(added if there else [])]})
        where = permissions.NAMESPACE if kind == "Role" else ""
        for rule in added:
            user, name = f"system:serviceaccount:{permissions.NAMESPACE}:{account}", rule.get("resourceNames", [""])[0]
            right = permissions.Right(user, rule["verbs"][0], rule["apiGroups"][0], rule["resources"][0], name, where)
            permissions.await_right(running, right, allowed=there)


class Pod(typing.NamedTuple):
    """A pod that a kubelet runs: its name, and the cores and bytes that it uses."""

    namespace: str
    name: str
    cores: float
    used_bytes: float

    @property
    def labels(self) -> str:
        """The labels of its one container's series."""
        return f'container="main",namespace="{self.namespace}",pod="{self.name}"'


class Counters(typing.NamedTuple):
    """Unix seconds, CPU seconds and bytes in use of a node, and the CPU seconds of each of its pods."""

    at_seconds: float
    cpu_seconds: float
    used_bytes: float
    pods: collections.abc.Mapping[Pod, float]


class Kubelet:
    """The metrics of a kubelet about its node: CPU seconds that grow by the load, memory in use with that of pods."""

    def __init__(self, *, cores: float, memory_bytes: float) -> None:
        self._cores, self._memory_bytes = cores, memory_bytes
        self._lock = threading.Lock()
        self._cpu_ratio, self._memory_ratio, self._cpu_seconds = *IDLE, 1000.0  # metrics-server drops a node at 0
        self._pods: dict[Pod, float] = {}  # CPU seconds
        self._until_seconds = time.time()
        self.silent: frozenset[str] = frozenset()  # pods by name whose series it does not have

    def counters(self) -> Counters:
        """The counters of this moment."""
        with self._lock:
            at_seconds = self._advance()
            used_bytes = self._memory_ratio * self._memory_bytes + sum(pod.used_bytes for pod in self._pods)
            shown = {pod: seconds for pod, seconds in self._pods.items() if pod.name not in self.silent}
            return Counters(at_seconds, self._cpu_seconds, used_bytes, shown)

    def load(self, cpu_ratio: float, memory_ratio: float) -> None:
        """The load beside that of pods from now on."""
        with self._lock:
            self._advance()
            self._cpu_ratio, self._memory_ratio = cpu_ratio, memory_ratio

    def host(self, pods: collections.abc.Iterable[Pod]) -> None:
        """The pods from now on."""
        with self._lock:
            self._advance()
            self._pods = {pod: self._pods.get(pod, 0.0) for pod in pods}

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """Answers a scrape."""
        if exchange.path == "/metrics/resource":
            exchange.answer(self._page(), headers={"Content-Type": "text/plain; version=0.0.4"})
        else:
            exchange.answer("", 404)

    def _page(self) -> str:
        at_seconds, cpu_seconds, used_bytes, pods = self.counters()
        at_milliseconds = round(at_seconds * 1000)
        series = {
            "node_cpu_usage_seconds_total counter": [f" {cpu_seconds:.6f}"],
            "node_memory_working_set_bytes gauge": [f" {used_bytes:.0f}"],
            "container_cpu_usage_seconds_total counter": [f"{{{pod.labels}}} {used:.6f}" for pod, used in pods.items()],
            "container_memory_working_set_bytes gauge": [f"{{{pod.labels}}} {pod.used_bytes:.0f}" for pod in pods],
        }
        lines = [
            line
            for name, rows in series.items()
            for line in (f"# TYPE {name}", *(f"{name.split()[0]}{row} {at_milliseconds}" for row in rows))
        ]
        return "".join(f"{line}\n" for line in lines)

    def _advance(self) -> float:
        now_seconds = time.time()
        span_seconds = now_seconds - self._until_seconds
        self._cpu_seconds += (self._cpu_ratio * self._cores + sum(pod.cores for pod in self._pods)) * span_seconds
        self._pods = {pod: seconds + pod.cores * span_seconds for pod, seconds in self._pods.items()}
        self._until_seconds = now_seconds
        return now_seconds


class StandIn:
    """metrics.k8s.io as metrics-server serves it: the last two scrapes of each kubelet."""

    def __init__(self, kubelets: collections.abc.Mapping[str, Kubelet]) -> None:
        self._kubelets = kubelets
        self._lock = threading.Lock()
        self._scrapes = [self._scrape()]

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """Answers on a connection that ends: over one that is kept the apiserver would reach what was killed."""
        lists = {"nodes": ("NodeMetricsList", self.nodes), "pods": ("PodMetricsList", self.pods)}
        plural, status = exchange.path.removeprefix(f"/apis/{GROUP_VERSION}/"), 200
        if plural in lists:
            kind, items = lists[plural]
            body: object = {"kind": kind, "apiVersion": GROUP_VERSION, "metadata": {}, "items": items()}
        elif exchange.path == f"/apis/{GROUP_VERSION}":
            shared = {"singularName": "", "verbs": ["get", "list"]}
            resources = [
                {**shared, "name": "nodes", "namespaced": False, "kind": "NodeMetrics"},
                {**shared, "name": "pods", "namespaced": True, "kind": "PodMetrics"},
            ]
            body = {"kind": "APIResourceList", "groupVersion": GROUP_VERSION, "resources": resources}
        else:
            body, status = {"kind": "Status", "status": "Failure", "code": 404}, 404
        exchange.answer(body, status, {"Content-Type": "application/json", "Connection": "close"})

    def nodes(self) -> list[dict[str, object]]:
        """The items of the list of nodes; none before the second scrape."""
        return [
            _item({"name": name}, before, now, now.cpu_seconds - before.cpu_seconds, now.used_bytes)
            for name, before, now in self._twice()
        ]

    def pods(self) -> list[dict[str, object]]:
        """The items of the list of pods that both scrapes have."""
        return [
            _pod_item(pod, before, now) for _, before, now in self._twice() for pod in now.pods if pod in before.pods
        ]

    def _twice(self) -> list[tuple[str, Counters, Counters]]:
        with self._lock:
            if time.time() - next(iter(self._scrapes[-1].values())).at_seconds >= RESOLUTION_SECONDS:
                self._scrapes = [self._scrapes[-1], self._scrape()]
            if len(self._scrapes) < 2:
                return []
            before, now = self._scrapes
            return [(name, before[name], now[name]) for name in now]

    def _scrape(self) -> dict[str, Counters]:
        return {name: kubelet.counters() for name, kubelet in self._kubelets.items()}


def _pod_item(pod: Pod, before: Counters, now: Counters) -> dict[str, object]:
    metadata = {"name": pod.name, "namespace": pod.namespace}
    item = _item(metadata, before, now, now.pods[pod] - before.pods[pod], pod.used_bytes)
    return {**item, "containers": [{"name": "main", "usage": item.pop("usage")}]}


def _item(
    metadata: dict[str, str], before: Counters, now: Counters, cpu_seconds: float, used_bytes: float
) -> dict[str, object]:
    window_seconds = now.at_seconds - before.at_seconds
    nanocores = round(cpu_seconds / window_seconds * 1e9)
    at = clock.to_rfc3339(now.at_seconds)
    return {
        "metadata": {**metadata, "creationTimestamp": at, "labels": {}},
        "timestamp": at,
        "window": f"{window_seconds:.3f}s",
        "usage": {"cpu": f"{nanocores}n", "memory": f"{round(used_bytes / 1024)}Ki"},
    }


class Site:
    """A cluster with metrics-server; `start` and `kill` it, `kubelets` by node."""

    def __init__(
        self, running: cluster.Cluster, kubelets: dict[str, Kubelet], directory: pathlib.Path, tls: ssl.SSLContext
    ) -> None:
        self.cluster = running
        self.kubelets = kubelets
        self._log = directory / "metrics-server.log"
        self._address, self._port = ports.own_address(), ports.Ports(random.SystemRandom()).of("metrics-server")
        self._directory = directory
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None
        self._stand_in = contextlib.ExitStack()

    def start(self) -> None:
        """Starts metrics-server and waits until the apiserver serves its API with all nodes."""
        if REAL:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        else:
            answer, address = StandIn(self.kubelets).answer, (self._address, self._port)
            self._stand_in.enter_context(scripted_http.serving(answer, address=address, tls=self._tls))
        waiting.eventually(self.listed, waiting.START_SECONDS, "all nodes in metrics.k8s.io", self.log)

    def _command(self) -> list[str]:
        kubeconfig = str(self.cluster.kubeconfig)
        return [
            str(programs.built(HERE / "metrics_server")),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={self._address}",
            f"--secure-port={self._port}",
            f"--cert-dir={self._directory / 'certificates'}",
            "--kubelet-insecure-tls",
            "--kubelet-preferred-address-types=ExternalIP",
            "--kubelet-use-node-status-port",
            f"--kubelet-request-timeout={RESOLUTION_SECONDS // 2}s",  # has to be shorter than the resolution
            f"--metric-resolution={RESOLUTION_SECONDS}s",
        ]

    def listed(self) -> bool:
        """Whether metrics.k8s.io has all nodes."""
        try:
            items = self.cluster.api.items(f"apis/{GROUP_VERSION}/nodes")
        except cluster.ClusterError:
            return False
        return {item["metadata"]["name"] for item in items} == set(self.kubelets)

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._stand_in.close()

    def log(self) -> str:
        """The end of its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:] if self._log.exists() else ""

    def register(self) -> None:
        """The objects by which the apiserver finds metrics-server."""
        api = self.cluster.api
        name = {"name": "metrics-server", "namespace": "kube-system"}
        api.create(SERVICE, {"metadata": name, "spec": {"ports": [{"name": "https", "port": 443}]}})
        endpoints = {
            "metadata": {**name, "labels": {"kubernetes.io/service-name": "metrics-server"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": self._port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
        }
        api.create(SLICES, {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **endpoints})
        spec = {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {**name, "port": 443},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        api.create(API_SERVICES, {"metadata": {"name": API}, "spec": spec})


@contextlib.contextmanager
def started(running: cluster.Cluster, directory: pathlib.Path) -> collections.abc.Iterator[Site]:
    """A kubelet for each node and a running metrics-server, until the body ends."""
    nodes = running.api.items("api/v1/nodes")
    addresses = [str(FIRST_ADDRESS + index) for index in range(len(nodes))]
    authority = certificates.Authority.create(now_seconds=time.time())
    pair = authority.serving([*addresses, ports.own_address()], now_seconds=time.time())
    for name, text in (("kubelet.crt", pair.certificate), ("kubelet.key", pair.key)):
        (directory / name).write_text(text, encoding="utf-8")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(directory / "kubelet.crt", directory / "kubelet.key")
    with contextlib.ExitStack() as undo:
        kubelets: dict[str, Kubelet] = {}
        for node, address in zip(nodes, addresses, strict=True):
            name = node["metadata"]["name"]
            kubelets[name] = Kubelet(cores=8.0, memory_bytes=32 * 2.0**30)
            server = undo.enter_context(scripted_http.serving(kubelets[name].answer, address=(address, 0), tls=tls))
            every = [*node["status"]["addresses"], {"type": "ExternalIP", "address": address}]
            status = {"addresses": every, "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}}}
            running.api.patch(f"api/v1/nodes/{name}/status", {"status": status})
        site = Site(running, kubelets, directory, tls)
        site.register()
        undo.callback(site.kill)
        site.start()
        yield site
