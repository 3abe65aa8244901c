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
from lab.cluster.nodes import NodeShape
from lab.cluster.processes import Process

OBSERVERS = ("prometheus", "node-exporter")
EXPORTERS = ("node-exporter", "load-exporter")
KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "load-exporter")
SETTLE_SECONDS = 180.0
CLOSE_GRACE_SECONDS = 0.0  # nothing of a closed cluster is used again but its logs, and those are not buffered
TOKEN_SECONDS = 24 * 3600


class Cluster:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, Prometheus and the exporters.

    nodes: how many fake nodes, or their shapes. directory: where all state goes (a temporary one, removed at the end,
    by default). scheduler, prometheus, node_exporter, exporter: False leaves that component out; `exporter` may also
    be extra arguments of `python -m lab.cluster.exporter`. kubernetes: False leaves out all but Prometheus and the
    node_exporter; then there are no nodes and no `api`. scheduler_gates: kube-scheduler's feature gates. pod_cidr:
    addresses of the fake pods. aggregation: servers of aggregated APIs can be registered. detached: the processes
    outlive this one (`python -m lab.cluster down` ends them). Errors: errors.ClusterError from `start` and `__enter__`;
    what had been started is ended, the logs stay.
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
    ) -> None:
        self._shapes = _shapes(nodes)
        self._wanted_directory = directory
        self._settings = site.Settings(
            audit=audit,
            aggregation=aggregation,
            scrape_seconds=scrape_seconds,
            exporter_arguments=tuple(exporter or ()),
            scheduler_gates=scheduler_gates or {},
            pod_cidr=pod_cidr,
        )
        left_out = {"kube-scheduler": scheduler, "prometheus": prometheus, "node-exporter": node_exporter}
        left_out["load-exporter"] = exporter is not False
        there = (name for name in site.ORDER if left_out.get(name, True))
        self._names = tuple(name for name in there if kubernetes or name not in KUBERNETES)
        self._kubernetes = kubernetes
        self._detached = detached
        self._node_names: list[str] = []
        self._processes: dict[str, Process] = {}
        self._site: site.Site | None = None
        self._api: Api | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def directory(self) -> pathlib.Path:
        """Everything of this cluster; logs are in logs/."""
        return self._here.layout.directory

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The admin's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def api_url(self) -> str:
        """Where the apiserver answers."""
        return self._here.url("kube-apiserver")

    @property
    def prometheus_url(self) -> str:
        """Where Prometheus answers."""
        return self._here.url("prometheus")

    @property
    def exporter_url(self) -> str:
        """Where the load exporter answers."""
        return self._here.url("load-exporter")

    @property
    def node_exporter_url(self) -> str:
        """Where the real node_exporter answers."""
        return self._here.url("node-exporter")

    @property
    def scheduler_url(self) -> str:
        """Where kube-scheduler serves its metrics (https, the cluster's CA, no token needed)."""
        return self._here.url("kube-scheduler")

    @property
    def processes(self) -> collections.abc.Mapping[str, Process]:
        """The components by name, each with start, stop, kill, pause, resume."""
        return self._processes

    @property
    def api(self) -> Api:
        """REST calls as admin, for arrangements in tests."""
        if self._api is None:
            raise errors.ClusterError("the cluster is not started")
        return self._api

    def start(self) -> None:
        """Builds what is missing, starts everything, and returns when all nodes are Ready and pods can be created."""
        paths = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.module != "victoriametrics"])
        layout = components.Layout(self._make_directory(), paths)
        self._site = site.Site(layout, ports.Ports(random.SystemRandom()), self._settings)
        with contextlib.ExitStack() as undo:
            undo.callback(state.clean, layout.directory)  # the logs stay: the error names them
            undo.callback(self._end)
            self._start_watchdog()
            self._start_all()
            undo.pop_all()

    def close(self) -> None:
        """Ends every process and removes what the cluster made; a directory given by the caller keeps its logs."""
        self._end()
        state.clean(self.directory)
        if self._wanted_directory is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start_scheduler(
        self, *, extenders: collections.abc.Sequence[collections.abc.Mapping[str, object]] = ()
    ) -> None:
        """(Re)starts kube-scheduler with these extender stanzas, until it is ready. ComponentError shows its log."""
        self._here.write_scheduler(extenders)
        process = self._processes.get("kube-scheduler") or self._process("kube-scheduler")
        process.stop()
        process.start()

    def add_nodes(self, new: collections.abc.Sequence[NodeShape]) -> None:
        """Registers further nodes and waits until pods can go there."""
        nodes.create(self.api, new, first_index=len(self._node_names))
        self._node_names.extend(shape.name for shape in new)
        nodes.wait_ready(self.api, self._node_names)
        self._record()

    def kubeconfig_for(self, user: str, groups: collections.abc.Sequence[str] = ()) -> pathlib.Path:
        """A kubeconfig with a client certificate for that user and those groups; RBAC decides what it may do."""
        return self._here.write(
            f"kubeconfigs/{kubeconfigs.file_name(user)}", self._here.client_kubeconfig(user, groups)
        )

    def service_account_kubeconfig(self, namespace: str, name: str) -> pathlib.Path:
        """A kubeconfig with a token of an existing ServiceAccount, good for a day (TokenRequest)."""
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = self.api.create(path, body)["status"]["token"]
        user = f"system:serviceaccount:{namespace}:{name}"
        return self._here.write(f"kubeconfigs/{kubeconfigs.file_name(user)}", self._here.token_kubeconfig(user, token))

    def scrape(self, addresses: collections.abc.Sequence[str]) -> None:
        """Lets Prometheus scrape Evenload's services at these HOST:PORTs, and at no others."""
        name, text = monitoring.services(addresses)
        self._here.write(f"configuration/{name}", text)

    def backfill(self, openmetrics: str) -> None:
        """Puts history into Prometheus: OpenMetrics text, seconds as timestamps. Prometheus is restarted to see it.

        Call it before live data matter: a restarted Prometheus drops its own samples older than the newest
        back-filled one.
        """
        prometheus = self._processes["prometheus"]
        prometheus.stop()
        monitoring.create_blocks(self._here.layout, openmetrics)
        prometheus.start()

    @property
    def _here(self) -> site.Site:
        if self._site is None:
            raise errors.ClusterError("the cluster is not started: use it as `with cluster.Cluster(…) as running:`")
        return self._site

    def _make_directory(self) -> pathlib.Path:
        if self._wanted_directory is None:
            return pathlib.Path(tempfile.mkdtemp(prefix="evenload-cluster-"))
        directory = self._wanted_directory.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        recorded = state.read(directory)
        if recorded and (running := state.alive(recorded)):
            names = ", ".join(record.name for record in running)
            raise errors.ClusterError(
                f"a cluster runs in {directory} already ({names}). "
                f"`python -m lab.cluster down --directory {directory}` ends it."
            )
        state.clean(directory)
        for name in self._names:
            (directory / "logs" / f"{name}.log").unlink(missing_ok=True)
        return directory

    def _start_all(self) -> None:
        here = self._here
        here.prepare(now_seconds=time.time())
        here.write_targets([name for name in EXPORTERS if name in self._names])
        if self._kubernetes:
            self._start_apiserver()
        self._spawn(*self._names)
        if self._kubernetes:
            nodes.create(self.api, self._shapes)
            self._node_names = [shape.name for shape in self._shapes]
        for process in self._processes.values():
            process.wait_ready()
        here.write_targets([name for name in EXPORTERS if name in self._names])
        if self._kubernetes:
            nodes.wait_ready(self.api, self._node_names)
            self._wait_for_service_account()
        self._record()

    def _start_apiserver(self) -> None:
        here = self._here
        self._spawn("etcd")
        self._processes["etcd"].wait_ready()
        self._spawn("kube-apiserver", *OBSERVERS)
        self._processes["kube-apiserver"].wait_ready()
        self._api = here.admin()
        here.write_kubeconfigs()
        here.write_scheduler(())

    def _spawn(self, *names: str) -> None:
        for name in names:
            if name in self._names:
                (self._processes.get(name) or self._process(name)).spawn()

    def _process(self, name: str) -> Process:
        here = self._here
        log = self.directory / "logs" / f"{name}.log"
        self._processes[name] = Process(here.component(name), log, here.ports, self._record)
        return self._processes[name]

    def _wait_for_service_account(self) -> None:
        """Pods are refused until the controller-manager has made `default` in the namespace `default`."""
        limit = time.monotonic() + SETTLE_SECONDS
        while not self.api.exists("api/v1/namespaces/default/serviceaccounts/default"):
            if time.monotonic() > limit:
                log = self._processes["kube-controller-manager"].log_path
                raise errors.ComponentError(f"no ServiceAccount default/default after {SETTLE_SECONDS:g} s; see {log}")
            time.sleep(processes.POLL_SECONDS)

    def _record(self) -> None:
        records = tuple(
            state.Record(process.name, process.identity, str(process.log_path))
            for process in self._processes.values()
            if process.identity is not None
        )
        addresses = {name: self._here.url(name) for name in self._processes}
        temporary = self._wanted_directory is None
        state.write(self.directory, state.State(records, addresses, len(self._node_names), temporary))

    def _start_watchdog(self) -> None:
        if not self._detached:
            command = [sys.executable, "-m", "lab.cluster.watchdog", str(self.directory)]
            quiet = subprocess.DEVNULL  # or it would hold a pipe open that others read to its end
            self._watchdog = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd=processes.ROOT, start_new_session=True
            )

    def _end(self) -> None:
        recorded = state.read(self.directory)
        if recorded:
            state.stop(recorded, grace_seconds=CLOSE_GRACE_SECONDS)
        for process in self._processes.values():
            process.kill()
        if self._api is not None:
            self._api.close()
        (self.directory / state.FILE_NAME).unlink(missing_ok=True)
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None


def _shapes(shapes: int | collections.abc.Sequence[NodeShape]) -> tuple[NodeShape, ...]:
    return nodes.shapes(shapes)
