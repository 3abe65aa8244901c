"""A real Kubernetes control plane with Prometheus on this machine, as one object.

    with cluster.Cluster(nodes=100) as running:
        running.kubeconfig, running.prometheus_url, running.processes["prometheus"].kill()

Tests, benches and the demo use it as a context manager; `python -m lab.cluster up` starts one that stays. Everything of
a cluster lies in its directory and listens on free loopback ports, so several run side by side.
"""

import collections.abc
import contextlib
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import typing

from lab.cluster import binaries, components, errors, kubeconfigs, monitoring, nodes, ports, processes, site, state
from lab.cluster.api import Api
from lab.cluster.components import Stanzas
from lab.cluster.nodes import NodeShape
from lab.cluster.nodes import shapes as node_shapes
from lab.cluster.processes import Process

OBSERVERS = ("prometheus", "node-exporter")
EXPORTERS = ("node-exporter", "load-exporter")
KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "load-exporter")
SETTLE_SECONDS = 180.0
CLOSE_GRACE_SECONDS = 0.0  # nothing of a closed cluster is used again but its logs, and those are not buffered


class Cluster:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, Prometheus and the exporters.

    nodes: how many fake nodes, or their shapes. directory: where all state goes (a temporary one, removed at the end,
    by default). scheduler, prometheus, node_exporter, exporter: False leaves that component out; `exporter` may also
    be extra arguments of `python -m lab.cluster.exporter`. kubernetes: False leaves out all but Prometheus and the
    node_exporter; then there are no nodes and no `api`. scheduler_gates: kube-scheduler's feature gates. pod_cidr:
    addresses of the fake pods. kubelets: the apiserver's address for real ones, without kwok. aggregation: servers of
    aggregated APIs can be registered. detached: the processes outlive this one (`python -m lab.cluster down` ends
    them). Errors: errors.ClusterError from `start` and `__enter__`; what had been started is ended, the logs stay.
    """

    def __init__(
        self,
        nodes: int | collections.abc.Sequence[NodeShape] = 0,
        *,
        directory: pathlib.Path | None = None,
        kubernetes: bool = True,
        scheduler: bool = True,
        scheduler_gates: collections.abc.Mapping[str, bool] | None = None,
        prometheus: bool = True,
        exporter: collections.abc.Sequence[str] | typing.Literal[False] | None = None,
        scrape_seconds: float = 1.0,
        node_exporter: bool = True,
        audit: bool = False,
        aggregation: bool = False,
        detached: bool = False,
        pod_cidr: str = components.POD_CIDR,
        kubelets: str = "",
    ) -> None:
        self._shapes = node_shapes(nodes)
        self._wanted_directory = directory
        self._settings = site.Settings(
            audit=audit,
            aggregation=aggregation,
            scrape_seconds=scrape_seconds,
            exporter_arguments=tuple(exporter or ()),
            scheduler_gates=scheduler_gates or {},
            pod_cidr=pod_cidr,
            kubelets=kubelets,
        )
        left_out = {"kube-scheduler": scheduler, "prometheus": prometheus, "node-exporter": node_exporter}
        left_out |= {"load-exporter": exporter is not False, "kwok": not kubelets}
        there = (name for name in site.ORDER if left_out.get(name, True))
        self._names = tuple(name for name in there if kubernetes or name not in KUBERNETES)
        self._detached = detached
        self._node_names: list[str] = []
        self._components: _Components | None = None
        self._api: Api | None = None

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def directory(self) -> pathlib.Path:
        """Everything of this cluster; logs are in logs/."""
        return self._started.site.layout.directory

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The admin's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def api_url(self) -> str:
        """Where the apiserver answers."""
        return self._started.site.url("kube-apiserver")

    @property
    def prometheus_url(self) -> str:
        """Where Prometheus answers."""
        return self._started.site.url("prometheus")

    @property
    def exporter_url(self) -> str:
        """Where the load exporter answers."""
        return self.url("load-exporter")

    def url(self, component: str) -> str:
        """Where a component answers: node-exporter, kube-scheduler (https, the cluster's CA) ..."""
        return self._started.site.url(component)

    @property
    def processes(self) -> collections.abc.Mapping[str, Process]:
        """The components by name, each with start, stop, kill, pause, resume."""
        return self._started.processes

    @property
    def api(self) -> Api:
        """REST calls as admin, for arrangements in tests."""
        if self._api is None:
            raise errors.ClusterError("the cluster is not started")
        return self._api

    def start(self) -> None:
        """Builds what is missing, starts everything, and returns when all nodes are Ready and pods can be created."""
        paths = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.module != "victoriametrics"])
        layout = components.Layout(_new_directory(self._wanted_directory, self._names), paths)
        here = site.Site(layout, ports.Ports(random.SystemRandom()), self._settings)
        self._components = _Components(here, self._names, temporary=self._wanted_directory is None)
        with contextlib.ExitStack() as undo:
            undo.callback(state.clean, layout.directory)  # the logs stay: the error names them
            undo.callback(self._end)
            if not self._detached:
                self._components.start_watchdog()
            self._start_all()
            undo.pop_all()

    def close(self) -> None:
        """Ends every process and removes what the cluster made; a directory given by the caller keeps its logs."""
        self._end()
        state.clean(self.directory)
        if self._wanted_directory is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start_scheduler(
        self, *, extenders: Stanzas = (), profiles: Stanzas = (), program: pathlib.Path | None = None
    ) -> None:
        """(Re)starts kube-scheduler (or a `program` in its place), until it is ready. ComponentError shows its log."""
        self._started.site.write_scheduler(extenders, profiles)
        self._started.site.scheduler = program
        process = self._started.process("kube-scheduler")
        process.stop()
        process.start()

    def add_nodes(self, new: collections.abc.Sequence[NodeShape]) -> None:
        """Registers further nodes and waits until pods can go there."""
        nodes.create(self.api, new, first_index=len(self._node_names))
        self._node_names.extend(shape.name for shape in new)
        nodes.wait_ready(self.api, self._node_names)
        self._started.record(nodes=len(self._node_names))

    def kubeconfig_for(self, user: str, groups: collections.abc.Sequence[str] = ()) -> pathlib.Path:
        """A kubeconfig with a client certificate for that user and those groups; RBAC decides what it may do."""
        text = self._started.site.client_kubeconfig(user, groups)
        return self._started.site.write(f"kubeconfigs/{kubeconfigs.file_name(user)}", text)

    def service_account_kubeconfig(self, namespace: str, name: str) -> pathlib.Path:
        """A kubeconfig with a token of an existing ServiceAccount, good for a day (TokenRequest)."""
        token = self.api.token(namespace, name)
        user = f"system:serviceaccount:{namespace}:{name}"
        return self._started.site.write(
            f"kubeconfigs/{kubeconfigs.file_name(user)}", self._started.site.token_kubeconfig(user, token)
        )

    def scrape(self, addresses: collections.abc.Sequence[str]) -> None:
        """Lets Prometheus scrape Evenload's services at these HOST:PORTs, and at no others."""
        name, text = monitoring.services(addresses)
        self._started.site.write(f"configuration/{name}", text)

    def backfill(self, openmetrics: str) -> None:
        """Puts history into Prometheus: OpenMetrics text, seconds as timestamps. Call it before live data matter: the
        restart that shows it drops Prometheus' own samples older than the newest back-filled one.
        """
        prometheus = self.processes["prometheus"]
        prometheus.stop()
        monitoring.create_blocks(self._started.site.layout, openmetrics)
        prometheus.start()

    @property
    def _started(self) -> "_Components":
        if self._components is None:
            raise errors.ClusterError("the cluster is not started: use it as `with cluster.Cluster(…) as running:`")
        return self._components

    def _start_all(self) -> None:
        here = self._started.site
        here.prepare(now_seconds=time.time())
        here.write_targets([name for name in EXPORTERS if name in self._names])
        if "kube-apiserver" in self._names:
            self._start_apiserver()
        self._started.spawn(*self._names)
        if "kube-apiserver" in self._names:
            nodes.create(self.api, self._shapes)
            self._node_names = [shape.name for shape in self._shapes]
        for process in self.processes.values():
            process.wait_ready()
        here.write_targets([name for name in EXPORTERS if name in self._names])
        if "kube-apiserver" in self._names:
            nodes.wait_ready(self.api, self._node_names)
            _wait_for_service_account(self.api, self.processes["kube-controller-manager"].log_path)
        self._started.record(nodes=len(self._node_names))

    def _start_apiserver(self) -> None:
        self._started.spawn("etcd")
        self.processes["etcd"].wait_ready()
        self._started.spawn("kube-apiserver", *OBSERVERS)
        self.processes["kube-apiserver"].wait_ready()
        self._api = self._started.site.admin()
        self._started.site.write_kubeconfigs()
        self._started.site.write_scheduler(())

    def _end(self) -> None:
        if self._api is not None:
            self._api.close()
        self._started.end()


class _Components:
    """The processes of a control plane: starts them by name, records them for `down` and the watchdog, ends them."""

    def __init__(self, here: site.Site, names: collections.abc.Sequence[str], *, temporary: bool) -> None:
        self.site = here
        self.processes: dict[str, Process] = {}
        self._names, self._temporary = names, temporary
        self._nodes = 0
        self._watchdog: subprocess.Popen[bytes] | None = None

    def spawn(self, *names: str) -> None:
        """Starts those of the names that belong to the cluster, without waiting for them."""
        for name in names:
            if name in self._names:
                self.process(name).spawn()

    def process(self, name: str) -> Process:
        """The process of a component, which may not have been started yet."""
        if name not in self.processes:
            log = self.site.layout.directory / "logs" / f"{name}.log"
            self.processes[name] = Process(self.site.component(name), log, self.site.ports, self.record)
        return self.processes[name]

    def record(self, *, nodes: int | None = None) -> None:
        """Writes which processes run, their addresses, and the number of nodes."""
        self._nodes = self._nodes if nodes is None else nodes
        records = tuple(
            state.Record(process.name, process.identity, str(process.log_path))
            for process in self.processes.values()
            if process.identity is not None
        )
        addresses = {name: self.site.url(name) for name in self.processes}
        state.write(self.site.layout.directory, state.State(records, addresses, self._nodes, self._temporary))

    def start_watchdog(self) -> None:
        """Starts the process that ends all others when this one dies."""
        command = [sys.executable, "-m", "lab.cluster.watchdog", str(self.site.layout.directory)]
        quiet = subprocess.DEVNULL  # or it would hold a pipe open that others read to its end
        self._watchdog = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd=processes.ROOT, start_new_session=True
        )

    def end(self) -> None:
        """Ends every process, those of the record first: another process may have started some."""
        recorded = state.read(self.site.layout.directory)
        if recorded:
            state.stop(recorded, grace_seconds=CLOSE_GRACE_SECONDS)
        for process in self.processes.values():
            process.kill()
        (self.site.layout.directory / state.FILE_NAME).unlink(missing_ok=True)
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None


def _new_directory(wanted: pathlib.Path | None, names: collections.abc.Sequence[str]) -> pathlib.Path:
    """A temporary directory, or the wanted one without what an earlier cluster left. ClusterError while that runs."""
    if wanted is None:
        return pathlib.Path(tempfile.mkdtemp(prefix="evenload-cluster-"))
    directory = wanted.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    recorded = state.read(directory)
    if recorded and (running := state.alive(recorded)):
        words = ", ".join(record.name for record in running)
        raise errors.ClusterError(
            f"a cluster runs in {directory} already ({words}). "
            f"`python -m lab.cluster down --directory {directory}` ends it."
        )
    state.clean(directory)
    for name in names:
        (directory / "logs" / f"{name}.log").unlink(missing_ok=True)
    return directory


def _wait_for_service_account(api: Api, log: pathlib.Path) -> None:
    """Pods are refused until the controller-manager has made `default` in the namespace `default`."""
    limit = time.monotonic() + SETTLE_SECONDS
    while not api.exists("api/v1/namespaces/default/serviceaccounts/default"):
        if time.monotonic() > limit:
            raise errors.ComponentError(f"no ServiceAccount default/default after {SETTLE_SECONDS:g} s; see {log}")
        time.sleep(processes.POLL_SECONDS)
