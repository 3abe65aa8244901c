"""The outside of the real nodes: starts their namespaces, ends them, and removes what is left of them.

The world's processes are in one PID namespace whose init dies with the starter (PR_SET_PDEATHSIG), except where the
nodes are to stay. Left then are empty cgroups and a directory; `stop` removes them, and `start` does so first.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from lab.cluster import binaries, cache, errors, identity, processes
from lab.real_nodes import machine, node, texts, vm_files, waiting, world

START_SECONDS = 600.0
END_SECONDS = 60.0
_PID = "init.pid"


class Starter:
    """Real nodes of one directory. Those of another directory run beside them where its name is another one."""

    def __init__(self, directory: pathlib.Path | None = None) -> None:
        self.directory = directory or cache.here() / "real-nodes"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def init(self) -> int:
        """The process id whose namespaces are the world's: `nsenter -t INIT -m -n`."""
        return int((self.directory / _PID).read_text(encoding="utf-8").split()[0])

    def start(self, nodes: int, *, vm: bool = False, keep: bool = False, archives: Sequence[pathlib.Path] = ()) -> None:
        """Starts nodes that have the images of these docker-archives, too, until all are Ready.

        With `vm` also the node vm1, which has a kernel of its own and not these images.

        Errors: ClusterError, also where some run already.
        """
        binaries.find_or_build((*binaries.TOOLS, *binaries.REAL_NODES))  # the world has no network
        if vm:
            vm_files.kernel()
        with cache.locked(self.directory.with_name("real-nodes-start")), contextlib.ExitStack() as undo:
            if self._living() is not None:
                raise errors.ClusterError("real nodes run already; `python -m lab.real_nodes --down` ends them")
            self.stop()
            undo.callback(self.stop)
            (self.directory / world.IMAGES).mkdir(parents=True)
            for archive in archives:
                shutil.copy(archive, self.directory / world.IMAGES)
            self._spawn(nodes, vm=vm, keep=keep)
            waiting.until(self._is_ready, "the nodes to be Ready", START_SECONDS)
            undo.pop_all()

    def wait(self) -> None:
        """Waits until the world ends by itself, which is an error: ComponentError with the end of its log."""
        if self._process is not None:
            self._process.wait()
            raise errors.ComponentError(f"the nodes ended:\n{errors.log_tail(self.directory / 'world.log')}")

    def addresses(self) -> list[str]:
        """The kubeconfig, and where the apiserver and Prometheus answer."""
        return (self.directory / world.READY).read_text(encoding="utf-8").splitlines()

    def accelerator(self) -> str:
        """Names the accelerator of QEMU for the machine vm1: kvm, or tcg, some seven times slower; "" without vm1."""
        path = self.directory / world.ACCELERATOR
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def stop(self) -> None:
        """Ends the world and removes its cgroups and its directory; does nothing where there are none."""
        if (living := self._living()) is not None:
            identity.send(living, signal.SIGKILL)
            waiting.until(lambda: self._living() is None, "the nodes to end", END_SECONDS)
        if self._process is not None:
            self._process.kill()  # kills its child, too, where that is not recorded yet
            self._process.wait(END_SECONDS)
            self._process = None
        waiting.until(self._remove_cgroups, "the nodes' cgroups to be empty", END_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)

    def cgroups(self) -> list[pathlib.Path]:
        """The nodes' cgroups in all controllers; memory's lie below the cgroup of who started them."""
        pattern = f"{texts.CGROUP_PREFIX}{self.directory.name}-rn[0-9]"
        roots = [path for path in machine.CGROUPS.iterdir() if path.is_dir() and path.name != "memory"]
        return [*(machine.CGROUPS / "memory").rglob(pattern), *(path for root in roots for path in root.glob(pattern))]

    def ask_extender(self, url: str) -> None:
        """Restarts kube-scheduler with the shipped stanza, for an extender at this address."""
        request = self.directory / world.EXTENDER
        unfinished = request.with_suffix(".new")
        unfinished.write_text(url, encoding="utf-8")
        unfinished.rename(request)
        waiting.until(lambda: not request.exists(), "kube-scheduler to start with the extender", END_SECONDS)

    def _remove_cgroups(self) -> bool:
        """Removes the nodes' cgroups from the leaves; whether none is left."""
        for cgroup in self.cgroups():
            for directory, _, _ in os.walk(cgroup, topdown=False):
                try:
                    pathlib.Path(directory).rmdir()
                except OSError:
                    return False  # a process in it is still ending
        return True

    def _spawn(self, nodes: int, *, vm: bool, keep: bool) -> None:
        processors = ",".join(str(number) for number in sorted(os.sched_getaffinity(0)))
        die_with_us = [] if keep else ["setpriv", "--pdeathsig", "KILL"]
        unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
        program = [sys.executable, "-m", "lab.real_nodes.world", str(self.directory), str(nodes), processors]
        program += ["vm" if vm else ""]
        with (self.directory / "world.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*die_with_us, *unshare, *([] if keep else ["--kill-child"]), *program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=processes.ROOT,
                start_new_session=True,
            )
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        waiting.until(lambda: bool(children.read_text(encoding="utf-8").split()), "the namespaces", 30)
        init = identity.of(node.child_of(self._process.pid))
        if init is not None:
            (self.directory / _PID).write_text(" ".join(map(str, init)), encoding="utf-8")

    def _living(self) -> identity.Identity | None:
        try:
            pid, ticks, boot = (self.directory / _PID).read_text(encoding="utf-8").split()
        except FileNotFoundError:
            return None
        recorded = identity.Identity(int(pid), int(ticks), boot)
        return recorded if identity.is_alive(recorded) else None

    def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            log = self.directory / "world.log"
            raise errors.ComponentError(f"the real nodes did not start:\n{errors.log_tail(log)}")
        return (self.directory / world.READY).exists()
