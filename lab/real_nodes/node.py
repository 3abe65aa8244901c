"""One node: its cgroups, its namespaces, and the programs in them. `world` makes them, inside of its own namespaces."""

import pathlib
import subprocess
import uuid
from collections.abc import Mapping, Sequence

from lab.cluster import errors
from lab.real_nodes import machine, texts, waiting

LIMIT_SECONDS = 60.0
INIT = "init.pid"  # of the node's namespaces, as the world counts processes
MEMORY_BYTES = 2 << 30
DIRECTORIES = ("containerd", "kubelet", "cni", "manifests", "log", "varlog", "kernel")


def memory_cgroup(own: str) -> str:
    """The path of this process's memory cgroup by its /proc/self/cgroup: limits of a node go below it."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return path.rstrip("/")
    return ""


def cgroups(place: texts.Place, own: str) -> list[pathlib.Path]:
    """The cgroups of a node, one in each controller."""
    name = place.cgroup
    others = [machine.CGROUPS / controller / name for controller in (*machine.CONTROLLERS, "systemd")]
    memory = machine.CGROUPS / "memory" / memory_cgroup(own).lstrip("/") / name
    return [memory if path.parent.name == "memory" else path for path in others]


class Node:
    """A node with one processor and 2 GiB. `programs` are the paths of kubelet, kube-proxy and node_exporter."""

    def __init__(self, place: texts.Place, programs: Mapping[str, pathlib.Path], archives: Sequence[pathlib.Path]):
        self.place = place
        self._programs = programs
        self._archives = archives
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._init = 0
        own = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8")
        self._cgroups = cgroups(place, own)

    def start(self, processor: int) -> None:
        """Makes the node and starts its programs; it is Ready some seconds later."""
        self._make_cgroups(processor)
        write_files(self.place)
        self._start_init()
        self._connect()
        self.start_program("containerd")
        waiting.until(self._has_containerd, f"containerd of {self.place.name}", LIMIT_SECONDS)
        for archive in self._archives:
            self._run_inside("ctr", "-n", "k8s.io", "images", "import", str(archive))
        for name in ("kubelet", "node_exporter", "kube-proxy"):
            self.start_program(name)

    def restart_ended(self) -> None:
        """Starts programs again that have ended, as systemd would."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self.start_program(name)

    def start_program(self, name: str) -> None:
        """Starts containerd, kubelet, node_exporter or kube-proxy with its output in the node's log."""
        command = [str(self._programs.get(name, name)), *texts.arguments(self.place)[name]]
        with (self.place.directory / "log" / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._inside(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _make_cgroups(self, processor: int) -> None:
        for path in self._cgroups:
            path.mkdir(exist_ok=True)
            if path.parent.name == "cpuset":
                (path / "cpuset.cpus").write_text(str(processor), encoding="utf-8")
                (path / "cpuset.mems").write_text("0", encoding="utf-8")
                (path / "cgroup.clone_children").write_text("1", encoding="utf-8")
            if (limit := path / "memory.limit_in_bytes").exists():
                limit.write_text(str(MEMORY_BYTES), encoding="utf-8")

    def _start_init(self) -> None:
        namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup"]
        unshare = ["unshare", *namespaces, "--fork", "--kill-child", "--propagation", "private"]
        with (self.place.directory / "log" / "init.log").open("wb") as log:
            process = subprocess.Popen(
                self._in_cgroups(*unshare, "sh", "-ec", texts.init(self.place)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        ready = self.place.directory / "ready"
        waiting.until(lambda: ready.exists() or process.poll() is not None, self.place.name, LIMIT_SECONDS)
        if process.poll() is not None:
            log_path = self.place.directory / "log" / "init.log"
            raise errors.ComponentError(f"the init of {self.place.name} ended:\n{errors.log_tail(log_path)}")
        self._init = child_of(process.pid)
        (self.place.directory / INIT).write_text(str(self._init), encoding="utf-8")

    def _connect(self) -> None:
        """Connects the node with the bridge of the world, and its pods through it."""
        place, link = self.place, f"v{self.place.name}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self._init))
        run("ip", "link", "set", link, "master", "rnbr", "up")
        run("ip", "route", "add", place.pod_cidr, "via", place.address)
        self._run_inside("ip", "link", "set", "lo", "up")
        self._run_inside("ip", "address", "add", f"{place.address}/24", "dev", "eth0")
        self._run_inside("ip", "link", "set", "eth0", "up")
        self._run_inside("ip", "route", "add", "default", "via", texts.GATEWAY)
        self._run_inside("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def _has_containerd(self) -> bool:
        return subprocess.run(self._inside("ctr", "version"), capture_output=True, check=False).returncode == 0

    def _run_inside(self, *command: str) -> None:
        run(*self._inside(*command))

    def _inside(self, *command: str) -> list[str]:
        namespaces = ["-m", "-n", "-p", "-u", "-i", "-C"]
        return self._in_cgroups("nsenter", "-t", str(self._init), *namespaces, "--", *command)

    def _in_cgroups(self, *command: str) -> list[str]:
        """A command that joins the node's cgroups first."""
        joins = "".join(f"echo 0 > {path}/cgroup.procs; " for path in self._cgroups)
        return ["sh", "-ec", f'{joins}exec "$@"', "sh", *command]


def write_files(place: texts.Place) -> None:
    """Writes the configuration of a node's programs, and files that it has instead of the machine's."""
    here = place.directory
    for name in DIRECTORIES:
        (here / name).mkdir(parents=True, exist_ok=True)
    files = {
        "containerd.toml": texts.containerd(place),
        "cni/10-lab.conflist": texts.pod_network(place),
        "kubelet.yaml": texts.kubelet(place, place.root / "plane" / "pki" / "ca.crt"),
        "proxy.yaml": texts.proxy(place),
        "hosts": f"127.0.0.1 localhost\n{place.address} {place.name}\n",
        "machine-id": f"{uuid.uuid4().hex}\n",
        **{f"kernel/{name.replace('/', '.')}": f"{value}\n" for name, value in texts.KERNEL.items()},
    }
    for name, text in files.items():
        (here / name).write_text(text, encoding="utf-8")


def child_of(pid: int) -> int:
    """The only child of a process."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()[0])


def run(*command: str) -> None:
    """Runs a command to its end; ComponentError with its words."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise errors.ComponentError(f"{' '.join(command)}: {answer.stderr.strip()[-800:]}")
