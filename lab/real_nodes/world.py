"""The namespaces' inside: bridge, lxcfs, control plane, nodes and Prometheus. `starter` starts it as their PID 1.

Nothing is ended here: when this process ends, the kernel ends all others of its PID namespace.
"""

import pathlib
import subprocess
import sys
import threading
import time

import requests

from lab import cluster
from lab.cluster import binaries, components, extender_stanza, nodes
from lab.real_nodes import images, texts, vm, waiting
from lab.real_nodes.node import Node, run
from runtime import certificates

SCRAPE_SECONDS = 5
READY_SECONDS = 400.0
READY = "ready"  # the file that says so, with what a person wants to know
IMAGES = "images"  # the directory with archives that every node imports
ACCELERATOR = "accelerator"  # a file that names that of the machine with a kernel of its own
EXTENDER = "extender"  # a file that appears: kube-scheduler shall ask the extender at the address in it
_NEVER = threading.Event()


class World:
    """Everything of the real nodes under one directory."""

    def __init__(self, root: pathlib.Path, count: int, *, machine: bool) -> None:
        self._in_namespaces = [texts.Place(number, root) for number in range(1, count + 1)]
        self._machines = [vm.Place(1, root)] if machine else []
        self.places = [*self._in_namespaces, *self._machines]
        self._root = root
        self._plane = cluster.Cluster(
            directory=root / "plane",
            exporter=False,
            node_exporter=False,
            aggregation=True,
            audit=True,
            scrape_seconds=SCRAPE_SECONDS,
            kubelets=texts.GATEWAY,
        )

    def run(self, processors: list[int]) -> None:
        """Starts everything, says so, and restarts the nodes' programs that end, for ever."""
        self._connect()
        self._start_lxcfs()
        own = [*images.write_all(self._root).values()]
        self._plane.start()
        self._write_credentials()
        wanted = [tool for tool in binaries.TOOLS if tool.name == "node_exporter"]
        programs = binaries.find_or_build([*wanted, *binaries.REAL_NODES])
        for place in self._machines:
            how = vm.start(place, programs, own)  # a large image takes it minutes
            (self._root / ACCELERATOR).write_text(how, encoding="utf-8")
        archives = [*own, *sorted((self._root / IMAGES).iterdir())]
        started = [Node(place, programs, archives) for place in self._in_namespaces]
        for index, node in enumerate(started):
            node.start(processors[index % len(processors)])
        self._scrape()
        self._publish_apiserver()
        self._start_proxy(programs["kube-proxy"])
        waiting.until(lambda: self._are_ready(started), "the nodes to be Ready", READY_SECONDS)
        urls = f"{self._plane.kubeconfig}\n{self._plane.api_url}\n{self._plane.prometheus_url}\n"
        (self._root / READY).write_text(urls, encoding="utf-8")
        while not _NEVER.wait(0.5):
            for node in started:
                node.restart_ended()
            self._follow_extender()

    def _are_ready(self, started: list[Node]) -> bool:
        """Restarts the programs that ended, and says whether all nodes are Ready."""
        for node in started:
            node.restart_ended()
        ready = {item["metadata"]["name"] for item in self._plane.api.items("api/v1/nodes") if nodes.is_usable(item)}
        return ready.issuperset(place.name for place in self.places)

    def _follow_extender(self) -> None:
        """Restarts kube-scheduler when the file of an extender appears."""
        if (request := self._root / EXTENDER).exists():
            stanza = extender_stanza.at(request.read_text(encoding="utf-8"))
            self._plane.start_scheduler(extenders=[stanza])
            request.unlink()

    def _connect(self) -> None:
        """Makes the bridge. The ports of loopback answer at the gateway's address, too."""
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "rnbr", "type", "bridge")
        run("ip", "address", "add", f"{texts.GATEWAY}/24", "dev", "rnbr")
        run("ip", "link", "set", "rnbr", "up")
        run("ip", "route", "add", components.SERVICE_CIDR, "dev", "rnbr")  # without a route no Service is asked for
        for name in ("ip_forward", "conf/all/route_localnet", "conf/rnbr/route_localnet"):
            pathlib.Path(f"/proc/sys/net/ipv4/{name}").write_text("1", encoding="utf-8")  # of this namespace
        loopback = ["-p", "tcp", "-d", texts.GATEWAY, "-j", "DNAT", "--to-destination", "127.0.0.1"]
        run("iptables", "-t", "nat", "-A", "PREROUTING", "-i", "rnbr", *loopback)
        run("iptables", "-t", "nat", "-A", "OUTPUT", *loopback)

    def _start_lxcfs(self) -> None:
        directory = self._root / "lxcfs"
        directory.mkdir()
        command = ["lxcfs", "-f", "-p", str(self._root / "lxcfs.pid"), str(directory)]
        with (self._root / "lxcfs.log").open("wb") as log:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        waiting.until((directory / "proc" / "meminfo").exists, "lxcfs", 30)

    def _write_credentials(self) -> None:
        """Writes the kubeconfigs of kubelets and kube-proxies, kubelets' certificates and Prometheus' own."""
        pki, now_seconds = self._root / "plane" / "pki", time.time()
        own = certificates.Pair((pki / "ca.crt").read_text("utf-8"), (pki / "ca.key").read_text("utf-8"))
        authority = certificates.Authority(own)
        for place in self.places:
            place.directory.mkdir(parents=True)
            kubelet = self._kubeconfig(f"system:node:{place.name}", "system:nodes")
            (place.directory / "kubelet.kubeconfig").write_text(kubelet, encoding="utf-8")
            (place.directory / "proxy.kubeconfig").write_text(self._kubeconfig("system:kube-proxy"), encoding="utf-8")
            pair = authority.serving([place.name, place.address], now_seconds=now_seconds)
            (place.directory / "serving.crt").write_text(pair.certificate, encoding="utf-8")
            (place.directory / "serving.key").write_text(pair.key, encoding="utf-8")
        pair = authority.client("prometheus", ("system:masters",), now_seconds=now_seconds)
        (pki / "prometheus.crt").write_text(pair.certificate, encoding="utf-8")
        (pki / "prometheus.key").write_text(pair.key, encoding="utf-8")

    def _kubeconfig(self, user: str, *groups: str) -> str:
        text = self._plane.kubeconfig_for(user, groups).read_text(encoding="utf-8")
        return text.replace("127.0.0.1", texts.GATEWAY)

    def _scrape(self) -> None:
        """Lets Prometheus scrape the nodes."""
        pki = self._root / "plane" / "pki"
        files = {"ca_file": "ca.crt", "cert_file": "prometheus.crt", "key_file": "prometheus.key"}
        text = texts.prometheus(
            self.places, {key: str(pki / name) for key, name in files.items()}, scrape_seconds=SCRAPE_SECONDS
        )
        (self._root / "plane" / "configuration" / "prometheus.yaml").write_text(text, encoding="utf-8")
        with requests.Session() as session:
            session.trust_env = False
            session.post(f"{self._plane.prometheus_url}/-/reload", timeout=30).raise_for_status()

    def _start_proxy(self, program: pathlib.Path) -> None:
        """Starts the kube-proxy of the control plane's own network, and leads a fixed port to Prometheus."""
        with (self._root / "proxy.log").open("wb") as log:
            command = [str(program), "--config", str(self.places[0].directory / "proxy.yaml")]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        port = self._plane.prometheus_url.rsplit(":", 1)[1]
        for chain, address in (("PREROUTING", texts.GATEWAY), ("OUTPUT", "127.0.0.1")):
            rule = ["-p", "tcp", "-d", address, "--dport", str(texts.PROMETHEUS_PORT)]
            target = ["-j", "DNAT", "--to-destination", f"127.0.0.1:{port}"]
            run("iptables", "-t", "nat", "-I", chain, *rule, *target)

    def _publish_apiserver(self) -> None:
        """Makes the Service `kubernetes` lead to the apiserver, so that pods reach it."""
        port = int(self._plane.api_url.rsplit(":", 1)[1])
        labels = {"kubernetes.io/service-name": "kubernetes"}
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [texts.GATEWAY], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }
        self._plane.api.create("apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body)


if __name__ == "__main__":
    directory, count, numbers, machine = sys.argv[1:]
    World(pathlib.Path(directory), int(count), machine=machine == "vm").run([int(each) for each in numbers.split(",")])
