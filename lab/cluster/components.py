"""The argument lists and configuration files of the control plane, as pure functions of where things are.

`control_plane` calls them when a component starts; nothing here touches a file or a port. Flags that differ from a
default say why beside them.
"""

import collections.abc
import json
import pathlib
import types
import typing

import yaml

LOOPBACK = "127.0.0.1"
SERVICE_CIDR = "10.96.0.0/16"
POD_CIDR = "10.128.0.0/10"
ISSUER = "https://kubernetes.default.svc"
FRONT_PROXY = "front-proxy-client"  # as which the apiserver asks the servers of aggregated APIs
OPEN_PATHS = "/healthz,/readyz,/livez,/metrics"
NODE_LEASE_SECONDS = 40
WORKERS = 64
# One annotates every node with a hint for kubelets that do not exist here, the other signs the certificates of such
# kubelets and watches the authority's files by four of the 128 inotify instances that a user has.
DISABLED_CONTROLLERS = "-ttl-controller,-certificatesigningrequest-signing-controller"

Arguments = list[str]
Stanzas = collections.abc.Sequence[collections.abc.Mapping[str, object]]


class Layout(typing.NamedTuple):
    """The files of one cluster, all under its directory, and the commands by name. As processes all of them are on
    loopback; as containers each has a host of its own, and what others reach listens on `listen`.
    """

    directory: pathlib.Path
    binaries: collections.abc.Mapping[str, pathlib.Path]
    hosts: collections.abc.Mapping[str, str] = types.MappingProxyType({})
    listen: str = LOOPBACK

    def host(self, name: str) -> str:
        """Where others reach a component."""
        return self.hosts.get(name, LOOPBACK)

    def binary(self, name: str) -> str:
        """The path of a command."""
        return str(self.binaries[name])

    def pki(self, name: str) -> str:
        """A certificate or key."""
        return str(self.directory / "pki" / name)

    def kubeconfig(self, name: str) -> str:
        """A component's kubeconfig."""
        return str(self.directory / "kubeconfigs" / name)

    def configuration(self, name: str) -> str:
        """A component's configuration file."""
        return str(self.directory / "configuration" / name)


def etcd(layout: Layout, *, client_port: int, peer_port: int) -> Arguments:
    """One member that keeps nothing safe from a power cut: the data live as long as the cluster."""
    peer = f"http://{LOOPBACK}:{peer_port}"
    return [
        layout.binary("etcd"),
        f"--data-dir={layout.directory / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls=http://{layout.listen}:{client_port}",
        f"--advertise-client-urls=http://{layout.host('etcd')}:{client_port}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def apiserver(
    layout: Layout, *, port: int, etcd_port: int, audit: bool, aggregation: bool = False, kubelets: bool = False
) -> Arguments:
    """RBAC on, admission as shipped (PodSecurity, PriorityClass, ValidatingAdmissionPolicy …)."""
    arguments = [
        layout.binary("kube-apiserver"),
        f"--etcd-servers=http://{layout.host('etcd')}:{etcd_port}",
        f"--bind-address={layout.listen}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # the `kubernetes` Service cannot have a loopback endpoint
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",  # as kubeadm: a kubelet writes to its own node and pods
        "--allow-privileged=true",
        f"--client-ca-file={layout.pki('ca.crt')}",
        f"--tls-cert-file={layout.pki('server.crt')}",
        f"--tls-private-key-file={layout.pki('server.key')}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={layout.pki('service-accounts.key')}",
        f"--service-account-signing-key-file={layout.pki('service-accounts.key')}",
        "--max-requests-inflight=1600",  # room for a thousand fake kubelets in one burst
        "--max-mutating-requests-inflight=800",
        "--profiling=false",
    ]
    if audit:
        arguments.append(f"--audit-policy-file={layout.configuration('audit-policy.yaml')}")
        arguments.append(f"--audit-log-path={layout.directory / 'logs' / 'audit.log'}")
    if aggregation:
        arguments += _aggregation(layout)
    if kubelets:  # for exec, logs and port-forward
        arguments += [
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={layout.pki('kubelet-client.crt')}",
            f"--kubelet-client-key={layout.pki('kubelet-client.key')}",
        ]
    return arguments


def _aggregation(layout: Layout) -> Arguments:
    """Flags for servers of aggregated APIs, as kubeadm has them: who speaks for users, and by what headers.

    The files are three more inotify instances (six instead of three), and all clusters of a user share 128.
    """
    return [
        "--enable-aggregator-routing=true",  # without kube-proxy a Service's address leads nowhere
        f"--requestheader-client-ca-file={layout.pki('ca.crt')}",  # as kubeadm: who speaks for users, by what headers
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={layout.pki('front-proxy.crt')}",
        f"--proxy-client-key-file={layout.pki('front-proxy.key')}",
    ]


def audit_policy() -> str:
    """Every write and eviction with its body, reads without, nothing of the nodes' and components' leases."""
    leases = [{"group": "coordination.k8s.io", "resources": ["leases"]}]
    rules = [
        {"level": "None", "resources": leases, "namespaces": ["kube-node-lease", "kube-system"]},
        {"level": "Metadata", "verbs": ["get", "list", "watch"]},
        {"level": "Request", "omitStages": ["RequestReceived"]},
    ]
    return yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}, sort_keys=False)


def controller_manager(layout: Layout, *, port: int, kubelets: bool = False) -> Arguments:
    """The default controllers, each under its own service account as in a real cluster, fast enough for scale."""
    kubeconfig = layout.kubeconfig("kube-controller-manager.kubeconfig")
    return [
        layout.binary("kube-controller-manager"),
        *_secure_server(layout, kubeconfig, port),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki('service-accounts.key')}",
        f"--root-ca-file={layout.pki('ca.crt')}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--controllers=*,{DISABLED_CONTROLLERS}",
        "--node-monitor-period=2s",  # default 5s; a new node loses its not-ready taint in this rhythm
        # default 50s: a machine on which kwok starves for so long has no dead nodes
        f"--node-monitor-grace-period={'40s' if kubelets else '10m'}",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
        "--concurrent-statefulset-syncs=20",
        "--concurrent-job-syncs=20",
        "--concurrent-gc-syncs=40",
        "--concurrent-namespace-syncs=20",
    ]


def scheduler(layout: Layout, *, port: int, gates: collections.abc.Mapping[str, bool]) -> Arguments:
    """kube-scheduler under the configuration file that `scheduler_configuration` renders; `gates`: by feature."""
    chosen = ",".join(f"{feature}={str(on).lower()}" for feature, on in gates.items())
    return [
        layout.binary("kube-scheduler"),
        *_secure_server(layout, layout.kubeconfig("kube-scheduler.kubeconfig"), port),
        f"--config={layout.configuration('scheduler.yaml')}",
        *([f"--feature-gates={chosen}"] if chosen else []),
    ]


def scheduler_configuration(kubeconfig: str, extenders: Stanzas, profiles: Stanzas = ()) -> str:
    """A KubeSchedulerConfiguration; `extenders` are its stanzas as the user writes them (urlPrefix, filterVerb, …), and
    so are `profiles`.
    """
    document: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
    }
    if extenders:
        document["extenders"] = [dict(extender) for extender in extenders]
    if profiles:
        document["profiles"] = [dict(profile) for profile in profiles]
    return yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False)


def kwok(
    layout: Layout, *, port: int, stages: collections.abc.Sequence[pathlib.Path], pod_cidr: str = POD_CIDR
) -> Arguments:
    """Fake kubelets for every node, following the stages of lab/cluster/stages."""
    return [
        layout.binary("kwok"),
        f"--kubeconfig={layout.kubeconfig('kwok.kubeconfig')}",
        "--manage-all-nodes=true",
        f"--cidr={pod_cidr}",
        f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
        f"--server-address={LOOPBACK}:{port}",
        f"--config={layout.configuration('kwok.yaml')}",
        *[f"--config={stage}" for stage in stages],
    ]


def kwok_configuration() -> str:
    """Workers enough for a thousand nodes; the default of 4 takes 10 s for their first status."""
    parallel = (
        "podPlayStageParallelism",
        "nodePlayStageParallelism",
        "nodeLeaseParallelism",
        "podsOnNodeSyncParallelism",
    )
    options: dict[str, object] = dict.fromkeys(parallel, WORKERS)
    document = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    return yaml.safe_dump(document, sort_keys=False)


def node_exporter(layout: Layout, *, port: int) -> Arguments:
    """The real node_exporter of this machine, so that queries are held to the real thing. They are about CPU and
    memory; with all its collectors each scrape took 20 ms.
    """
    collectors = [f"--collector.{name}" for name in ("cpu", "meminfo")]
    listen = f"--web.listen-address={layout.listen}:{port}"
    return [layout.binary("node_exporter"), listen, "--collector.disable-defaults", *collectors]


def _secure_server(layout: Layout, kubeconfig: str, port: int) -> Arguments:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.pki('server.crt')}",
        f"--tls-private-key-file={layout.pki('server.key')}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--authorization-always-allow-paths={OPEN_PATHS}",  # metrics without a token: benches read them
    ]
