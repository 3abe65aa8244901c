"""The configuration of a node's programs and of Prometheus, as pure functions of where things are."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import yaml

from lab.real_nodes import images, machine

GATEWAY = "10.77.0.1"  # the control plane and Prometheus, as nodes reach them
POD_CIDR = "10.78.0.0/16"
PROMETHEUS_PORT = 9090  # leads to the port on which Prometheus listens
CGROUP_PREFIX = "evenload-"
# kubelet sets these for the whole machine unless they are so: in a node it reads files that say so.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_COLLECTORS = ("cpu", "meminfo", "loadavg")
_LXCFS = ("cpuinfo", "meminfo", "stat", "uptime", "loadavg", "diskstats", "swaps")


class Place(NamedTuple):
    """A node's number, from 1, and the directory of all nodes' files."""

    number: int
    root: pathlib.Path

    @property
    def name(self) -> str:
        """The node's name."""
        return f"rn{self.number}"

    @property
    def address(self) -> str:
        """The node's InternalIP."""
        return f"10.77.0.{10 + self.number}"

    @property
    def pod_cidr(self) -> str:
        """The addresses of the node's pods."""
        return f"10.78.{self.number}.0/24"

    @property
    def cgroup(self) -> str:
        """The name of the node's cgroups: other worlds of this machine, in other directories, have other names."""
        return f"{CGROUP_PREFIX}{self.root.name}-{self.name}"

    @property
    def directory(self) -> pathlib.Path:
        """The node's files."""
        return self.root / "nodes" / self.name


def arguments(place: Place) -> dict[str, list[str]]:
    """The arguments of a node's programs, by their names."""
    here = place.directory
    named = [f"--node-ip={place.address}", f"--hostname-override={place.name}"]
    return {
        "containerd": ["--config", f"{here}/containerd.toml"],
        "kubelet": ["--config", f"{here}/kubelet.yaml", "--kubeconfig", f"{here}/kubelet.kubeconfig", *named],
        "node_exporter": ["--collector.disable-defaults", *(f"--collector.{name}" for name in _COLLECTORS)],
        "kube-proxy": ["--config", f"{here}/proxy.yaml"],
    }


def containerd(place: Place) -> str:
    """containerd 1.6 without the snapshotters that are not here. Nothing gets a lower oom_score_adj than its own."""
    unused = ["internal.v1.opt", *(f"snapshotter.v1.{name}" for name in ("btrfs", "zfs", "aufs", "devmapper"))]
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = {json.dumps([f"io.containerd.{name}" for name in unused])}
[grpc]
address = "/run/containerd/containerd.sock"
[{cri}]
sandbox_image = "{images.PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[{cri}.containerd]
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{place.directory}/cni"
"""


def pod_network(place: Place) -> str:
    """A bridge for the pods of a node, as CNI reads it."""
    ranges = [[{"subnet": place.pod_cidr}]]
    addresses = {"type": "host-local", "dataDir": "/run/cni", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge, ports]})


def kubelet(place: Place, authority: pathlib.Path) -> str:
    """A KubeletConfiguration; 1798 of the node's 2048 MiB are allocatable."""
    eviction = {"memory.available": "50Mi"} | dict.fromkeys(
        ("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "1%"
    )
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "staticPodPath": str(place.directory / "manifests"),
        "tlsCertFile": str(place.directory / "serving.crt"),
        "tlsPrivateKeyFile": str(place.directory / "serving.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "failSwapOn": False,
        "kubeReserved": {"cpu": "50m", "memory": "200Mi"},
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": eviction,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    return yaml.safe_dump(document, sort_keys=False)


def proxy(place: Place) -> str:
    """A KubeProxyConfiguration that leaves the limits of conntrack alone: those are the machine's. The world's own
    kube-proxy, by which kube-scheduler reaches Services, has the first node's.
    """
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(place.directory / "proxy.kubeconfig")},
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": place.name,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return yaml.safe_dump(document, sort_keys=False)


def prometheus(places: Sequence[Place], pki: Mapping[str, str], *, scrape_seconds: int) -> str:
    """A configuration with the jobs of node-exporter, kubelet and cAdvisor; `pki` is Prometheus' tls_config."""

    def job(name: str, port: int, **more: object) -> dict[str, object]:
        targets = [f"{place.address}:{port}" for place in places]
        return {"job_name": name, **more, "static_configs": [{"targets": targets}]}

    kubelets = {"scheme": "https", "tls_config": dict(pki)}
    jobs = [
        job("node-exporter", 9100),
        job("cadvisor", 10250, metrics_path="/metrics/cadvisor", track_timestamps_staleness=True, **kubelets),
        job("kubelet", 10250, metrics_path="/metrics", **kubelets),
    ]
    rhythm = {"scrape_interval": f"{scrape_seconds}s", "scrape_timeout": f"{scrape_seconds}s"}
    return yaml.safe_dump({"global": rhythm, "scrape_configs": jobs}, sort_keys=False)


def init(place: Place) -> str:
    """The shell script of a node's init: its mounts, then the program that waits and reaps."""
    here, lxcfs, cgroups = place.directory, place.root / "lxcfs", machine.CGROUPS
    lines = [
        "mount --make-rprivate /",
        "mount -t proc proc /proc",
        f"hostname {place.name}",
        "mount -t sysfs sysfs /sys",
        f"mount -t tmpfs -o mode=755 tmpfs {cgroups}",
        *(
            f"mkdir {cgroups}/{name}; mount -t cgroup -o {option} cgroup {cgroups}/{name}"
            for name, option in [*((name, name) for name in machine.CONTROLLERS), ("systemd", "none,name=systemd")]
        ),
        *(f"[ ! -e {lxcfs}/proc/{name} ] || mount --bind {lxcfs}/proc/{name} /proc/{name}" for name in _LXCFS),
        f"mount --bind {lxcfs}/sys/devices/system/cpu /sys/devices/system/cpu",
        *(
            f"[ ! -e /proc/sys/{name} ] || mount --bind {here}/kernel/{name.replace('/', '.')} /proc/sys/{name}"
            for name in KERNEL
        ),
        "mount -t tmpfs -o mode=755 tmpfs /run",
        "mount -t tmpfs -o mode=755 tmpfs /var/lib",  # so that the machine gets no /var/lib/kubelet
        "mkdir -p /run/lock",
        *(
            f"mkdir -p {target}; mount --bind {here}/{source} {target}"
            for source, target in (
                ("kubelet", "/var/lib/kubelet"),
                ("containerd", "/var/lib/containerd"),
                ("varlog", "/var/log"),
            )
        ),
        *(f"[ ! -e /etc/{name} ] || mount --bind {here}/{name} /etc/{name}" for name in ("hosts", "machine-id")),
        "mount --make-rshared /",
        f"touch {here}/ready",
        f"exec {place.root}/pause",
    ]
    return "\n".join(lines)
