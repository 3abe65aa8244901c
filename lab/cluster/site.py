"""One cluster's place on the machine: its directory, its ports, its certificates, and each component wired to them.

`control_plane` owns one and starts what `component` describes. Files are written here (pki, kubeconfigs,
configuration), the texts come from `components`, `monitoring`, `certificates` and `kubeconfigs`.
"""

import collections.abc
import dataclasses
import functools
import os
import pathlib
import sys
import time

import requests

from lab.cluster import api, cache, components, kubeconfigs, minors, monitoring, ports, processes
from runtime import certificates

STAGES = pathlib.Path(__file__).parent / "stages"
SERVER_NAMES = ("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
ADMIN = ("kubernetes-admin", ("system:masters",))  # user and groups, as the certificates say them
SCHEDULER = ("system:kube-scheduler", ())
KUBELET_CLIENT = ("kube-apiserver-kubelet-client", ("system:masters",))
CONTROLLER_MANAGER = ("system:kube-controller-manager", ())
ORDER = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok",
    "prometheus", "node-exporter", "load-exporter",
)  # fmt: skip
_PLAIN_PROBES = {
    "etcd": "/health",
    "kwok": "/healthz",
    "prometheus": "/-/ready",
    "node-exporter": "/",
    "load-exporter": "/readyz",
}
_TLS_PROBES = {"kube-apiserver": "/readyz", "kube-controller-manager": "/healthz", "kube-scheduler": "/readyz"}
_TLS_PROBES_OF_1_30 = {**_TLS_PROBES, "kube-scheduler": "/healthz"}  # it has /readyz from 1.31 on


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a cluster, from its user."""

    audit: bool = False
    aggregation: bool = False
    scrape_seconds: float = 1.0
    exporter_arguments: tuple[str, ...] = ()
    scheduler_gates: collections.abc.Mapping[str, bool] = dataclasses.field(default_factory=dict)
    stages: pathlib.Path = STAGES  # where kwok finds them
    pod_cidr: str = components.POD_CIDR
    kubelets: str = ""  # the address at which real kubelets reach the apiserver, "" where kwok plays them


class Site:
    """Files, ports and components of one cluster. `now_seconds` is when its certificates begin."""

    def __init__(self, layout: components.Layout, chosen: ports.Ports, settings: Settings) -> None:
        self.layout = layout
        self.ports = chosen
        self.settings = settings
        self.authority: certificates.Authority | None = None
        self.scheduler: pathlib.Path | None = None  # another program than kube-scheduler's own

    def url(self, name: str) -> str:
        """Where a component answers."""
        scheme = "https" if name in _TLS_PROBES else "http"
        return f"{scheme}://{self.layout.host(name)}:{self.ports.of(name)}"

    def prepare(self, *, now_seconds: float) -> None:
        """Makes the certificates and the configuration that does not depend on a port."""
        self.authority = certificates.Authority.create(now_seconds=now_seconds)
        kubelets = (self.settings.kubelets,) if self.settings.kubelets else ()
        names = tuple(dict.fromkeys((*SERVER_NAMES, self.layout.host("kube-apiserver"), *kubelets)))
        self._write_pair("ca", self.authority.pair)
        self._write_pair("server", self.authority.serving(names, now_seconds=now_seconds))
        self._write_pair("front-proxy", self.authority.client(components.FRONT_PROXY, (), now_seconds=now_seconds))
        self._write_pair("admin", self.authority.client(*ADMIN, now_seconds=now_seconds))
        if kubelets:
            self._write_pair("kubelet-client", self.authority.client(*KUBELET_CLIENT, now_seconds=now_seconds))
        accounts = certificates.new_key()
        self.write("pki/service-accounts.key", certificates.key_pem(accounts))
        self.write("configuration/audit-policy.yaml", components.audit_policy())
        self.write("configuration/kwok.yaml", components.kwok_configuration())
        targets = self.layout.directory / "configuration"
        self.write(
            "configuration/prometheus.yaml",
            monitoring.configuration(targets, scrape_seconds=self.settings.scrape_seconds),
        )

    def write_kubeconfigs(self) -> None:
        """The admin's kubeconfig and one per component, once the apiserver's port is certain."""
        users = {
            "kube-scheduler": SCHEDULER,
            "kube-controller-manager": CONTROLLER_MANAGER,
            "kwok": ("kwok", ("system:masters",)),
        }
        for name, (user, groups) in users.items():
            self.write(f"kubeconfigs/{name}.kubeconfig", self.client_kubeconfig(user, groups))
        self.write("kubeconfig", self.client_kubeconfig(*ADMIN))

    def client_kubeconfig(self, user: str, groups: collections.abc.Sequence[str], url: str = "") -> str:
        """A kubeconfig with a fresh client certificate, for the apiserver's own address or another `url` of it."""
        assert self.authority is not None, "prepare() makes the authority"
        pair = self.authority.client(user, groups, now_seconds=time.time())
        address = url or self.url("kube-apiserver")
        return kubeconfigs.with_certificate(address, self.authority.pair.certificate, user, pair)

    def token_kubeconfig(self, user: str, token: str) -> str:
        """A kubeconfig with a bearer token."""
        return kubeconfigs.with_token(self.url("kube-apiserver"), self._read("pki/ca.crt"), user, token)

    def write_scheduler(self, extenders: components.Stanzas, profiles: components.Stanzas = ()) -> None:
        """The scheduler's configuration with these extenders and profiles."""
        kubeconfig = self.layout.kubeconfig("kube-scheduler.kubeconfig")
        self.write("configuration/scheduler.yaml", components.scheduler_configuration(kubeconfig, extenders, profiles))

    def write_targets(self, jobs: collections.abc.Collection[str]) -> None:
        """Tells Prometheus where the exporters are."""
        addresses = {job: f"{self.layout.host(job)}:{self.ports.of(job)}" for job in jobs}
        for name, text in monitoring.targets(addresses).items():
            self.write(f"configuration/{name}", text)

    def admin(self) -> api.Api:
        """REST calls as the cluster's admin."""
        paths = [pathlib.Path(self.layout.pki(name)) for name in ("ca.crt", "admin.crt", "admin.key")]
        return api.Api(self.url("kube-apiserver"), ca=paths[0], certificate=paths[1], key=paths[2])

    def component(self, name: str) -> processes.Component:
        """How to run and ask a component; its command is rendered again at each start."""
        port_names = (name, "etcd-peer") if name == "etcd" else (name,)
        probe = functools.partial(self._answers, name)
        return processes.Component(name, functools.partial(self.arguments, name), probe, port_names)

    def arguments(self, name: str) -> components.Arguments:
        """The command of a component with the ports as they are now."""
        layout, port = self.layout, self.ports.of(name)
        if name == "etcd":
            return components.etcd(layout, client_port=port, peer_port=self.ports.of("etcd-peer"))
        if name == "kube-apiserver":
            wanted = self.settings
            return components.apiserver(
                layout,
                port=port,
                etcd_port=self.ports.of("etcd"),
                audit=wanted.audit,
                aggregation=wanted.aggregation,
                kubelets=bool(wanted.kubelets),
            )
        if name == "kube-controller-manager":
            return components.controller_manager(layout, port=port, kubelets=bool(self.settings.kubelets))
        if name == "kwok":
            return components.kwok(layout, port=port, stages=self._stages(), pod_cidr=self.settings.pod_cidr)
        if name == "kube-scheduler":
            if self.scheduler is not None:
                layout = layout._replace(binaries={name: self.scheduler})
            return components.scheduler(layout, port=port, gates=self.settings.scheduler_gates)
        if name == "load-exporter":
            return self._load_exporter(port)
        render = {
            "prometheus": monitoring.arguments,
            "node-exporter": components.node_exporter,
        }
        return render[name](layout, port=port)

    def write(self, relative: str, text: str) -> pathlib.Path:
        """Replaces a file of the cluster's directory, readable only by the user: most hold keys."""
        path = self.layout.directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(path)
        return path

    def _stages(self) -> list[pathlib.Path]:
        return [self.settings.stages / path.name for path in sorted(STAGES.glob("*.yaml"))]

    def _load_exporter(self, port: int) -> components.Arguments:
        command = [
            sys.executable,
            "-m",
            "lab.cluster.exporter",
            "--kubeconfig",
            str(self.layout.directory / "kubeconfig"),
        ]
        return [*command, "--listen", f"{self.layout.listen}:{port}", *self.settings.exporter_arguments]

    def _answers(self, name: str) -> bool:
        tls_probes = _TLS_PROBES_OF_1_30 if minors.chosen() == "1.30" or self.scheduler else _TLS_PROBES
        probe = _PLAIN_PROBES.get(name) or tls_probes[name]
        ca = self.layout.pki("ca.crt")
        with requests.Session() as session:
            session.trust_env = False
            if name in _TLS_PROBES:
                session.verify, session.cert = ca, (self.layout.pki("admin.crt"), self.layout.pki("admin.key"))
            try:
                return session.get(self.url(name) + probe, timeout=10).status_code == 200
            except requests.RequestException:
                return False

    def _write_pair(self, name: str, pair: certificates.Pair) -> None:
        self.write(f"pki/{name}.crt", pair.certificate)
        self.write(f"pki/{name}.key", pair.key)

    def _read(self, relative: str) -> str:
        return (self.layout.directory / relative).read_text(encoding="utf-8")


def default_directory(environment: collections.abc.Mapping[str, str] = os.environ) -> pathlib.Path:
    """Where `python -m lab.cluster up` keeps its cluster when no directory is given."""
    return cache.root(environment) / "clusters" / "default"
