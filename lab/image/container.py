"""The image under runc, as the manifests run it: no root, no capability, a read-only root, nothing of the host but its
network and what is mounted.

`Container` starts a command in an unpacked image, `__main__` measures with it and the contract suite proves with it.
The network is the host's, so a service listens on a port of this machine and reaches a control plane that runs here.
"""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lab.image import archive, engine

STOP_SECONDS: Final = 60.0
_NUMBERS: Final = itertools.count()
_NONE: Final[dict[str, list[str]]] = {
    name: [] for name in ("bounding", "effective", "inheritable", "permitted", "ambient")
}


def bundle(
    image: archive.Image, root: pathlib.Path, arguments: Sequence[str], mounts: Mapping[str, pathlib.Path]
) -> dict[str, Any]:
    """The config.json of a container; `mounts` are files and directories of the host by their paths inside.

    A mount below /var/lib can be written, any other is read-only. `arguments` follow the image's entry point, or are
    the whole command when they begin with a slash.
    """
    user, group = map(int, image.config["User"].split(":"))
    entry = [] if arguments[:1] and arguments[0].startswith("/") else image.config["Entrypoint"]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": group},
            "args": [*entry, *arguments],
            "env": image.config["Env"],
            "cwd": "/",
            "capabilities": _NONE,
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            _tmpfs("/dev", "755", "nosuid", "strictatime"),
            _tmpfs("/dev/shm", "1777", "nosuid", "noexec", "nodev"),  # noqa: S108 - a mount point
            _tmpfs("/tmp", "1777", "nosuid", "noexec", "nodev"),  # noqa: S108 - a mount point
            *(
                {
                    "destination": path,
                    "type": "bind",
                    "source": str(source),
                    "options": ["rbind", "rw" if path.startswith("/var/lib/") else "ro"],
                }
                for path, source in mounts.items()
            ),
        ],
        "linux": {"namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount")]},
    }


def _tmpfs(path: str, mode: str, *options: str) -> dict[str, Any]:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": [*options, f"mode={mode}"]}


class Container:
    """A command that runs in the image; its stdout and its stderr go to a file each, as runc copies each by itself and
    in no order.
    """

    def __init__(self, directory: pathlib.Path, config: Mapping[str, Any]) -> None:
        self._id = f"evenload-{os.getpid()}-{next(_NUMBERS)}"
        self._bundle = directory / self._id
        self._bundle.mkdir(parents=True)
        self._output, self._errors = self._bundle / "stdout", self._bundle / "stderr"
        (self._bundle / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            command = self._runc("run", "--bundle", str(self._bundle), self._id)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

    def _runc(self, *arguments: str) -> tuple[str, ...]:
        return ("runc", "--root", str(self._bundle.parent / "runc"), *arguments)

    def log(self) -> str:
        """Everything that it wrote, stdout first."""
        return self.printed() + self._errors.read_text(encoding="utf-8", errors="replace")

    def printed(self) -> str:
        """Its stdout."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def wait(self, timeout_seconds: float) -> int:
        """The exit code; TimeoutExpired after the limit."""
        return self._process.wait(timeout_seconds)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        engine.run(self._runc("kill", self._id, "TERM"))
        return self._process.wait(STOP_SECONDS)

    def remove(self) -> None:
        """SIGKILL, if it still runs, and the end of its records."""
        subprocess.run(self._runc("delete", "--force", self._id), capture_output=True, check=False)
        self._process.wait(STOP_SECONDS)


@contextlib.contextmanager
def running(directory: pathlib.Path, config: Mapping[str, Any]) -> Iterator[Container]:
    """A container while the body runs."""
    container = Container(directory, config)
    try:
        yield container
    finally:
        container.remove()
