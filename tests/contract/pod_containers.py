"""The pods of a cluster as containers of this machine: what a kubelet does with them that the fake one does not.

The container of a pod gets its command, environment, user and volumes from the pod's own spec, and runs in the image of
this tree as `lab.image.container` runs it. The network is the host's: addresses of pods are put on the loopback
interface, and `--listen=:PORT` is given the pod's, so that the apiserver reaches each pod where it looks for it. There
is no DNS; /etc/hosts has the names in `Kubelet.hosts`.
"""

import contextlib
import itertools
import pathlib
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from lab import cluster
from lab.image import archive, container

TOKEN_SECONDS: Final = 7200
WITHOUT_VOLUME: Final = "/tmp"  # noqa: S108 - `container` gives it to every command, a kubelet does not
Document = dict[str, Any]


class Kubelet:
    """Runs pods of one namespace until `remove`."""

    def __init__(
        self,
        running: cluster.Cluster,
        namespace: str,
        image: archive.Image,
        root: pathlib.Path,
        directory: pathlib.Path,
    ) -> None:
        self._cluster, self._path = running, f"api/v1/namespaces/{namespace}"
        self._image, self._root, self._directory = image, root, directory
        self._undo = contextlib.ExitStack()
        self._versions = itertools.count()
        self._mounted: dict[pathlib.Path, str] = {}  # the ConfigMap of a directory
        self.hosts: dict[str, str] = {}  # addresses by name
        self.containers: dict[str, container.Container] = {}  # by their pod

    def own(self, address: str) -> None:
        """Makes an address one of this machine's."""
        _loopback("add", address)
        self._undo.callback(_loopback, "del", address)

    def start(self, pod: Document) -> container.Container:
        """Runs the one container of a pod that has an address."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        (described,) = spec["containers"]
        folder = self._directory / name
        folder.mkdir(parents=True)
        (folder / "hosts").write_text("".join(f"{one} {host}\n" for host, one in self.hosts.items()), "utf-8")
        self.own(pod["status"]["podIP"])
        volumes = {one["name"]: self._volume(pod, one, folder) for one in spec["volumes"]}
        config = container.bundle(self._image, self._root, (), {})
        config["mounts"] = [
            *(one for one in config["mounts"] if one["destination"] != WITHOUT_VOLUME),
            _bind("/etc/hosts", folder / "hosts", read_only=True),
            *(
                _bind(one["mountPath"], volumes[one["name"]], read_only=one.get("readOnly", False))
                for one in described["volumeMounts"]
            ),
        ]
        environment = self._environment(pod, described)
        config["hostname"] = name
        config["root"]["readonly"] = described["securityContext"]["readOnlyRootFilesystem"]
        config["process"] |= {
            "args": _command(pod, described, environment),
            "env": [*self._image.config["Env"], *(f"{key}={value}" for key, value in environment.items())],
            "user": _user(pod),
        }
        self.containers[name] = self._undo.enter_context(container.running(folder, config))
        return self.containers[name]

    def refresh(self) -> None:
        """Brings mounted ConfigMaps up to date, which takes a kubelet up to a minute."""
        for path, name in self._mounted.items():
            self._write_data(name, path)

    def remove(self) -> None:
        """Ends every container and gives the addresses back."""
        self._undo.close()

    def _environment(self, pod: Document, described: Document) -> dict[str, str]:
        port = self._cluster.api.url.rpartition(":")[2]
        found = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        for source in described.get("envFrom", ()):
            found |= self._data(source["configMapRef"]["name"])
        for one in described["env"]:
            section, field = one["valueFrom"]["fieldRef"]["fieldPath"].split(".")
            found[one["name"]] = pod[section][field]
        return found

    def _volume(self, pod: Document, volume: Document, folder: pathlib.Path) -> pathlib.Path:
        """The directory that stands for a volume; the one of a claim stays when its pod goes."""
        claim = volume.get("persistentVolumeClaim")
        path: pathlib.Path = self._directory / claim["claimName"] if claim else folder / volume["name"]
        path.mkdir(exist_ok=True)
        if "projected" in volume:
            self._write_token(pod["spec"]["serviceAccountName"], path)
        elif "configMap" in volume:
            self._mounted[path] = volume["configMap"]["name"]
            self.refresh()
        else:
            user = _user(pod)
            shutil.chown(path, user["uid"], user["gid"])
        return path

    def _write_data(self, config_map: str, path: pathlib.Path) -> None:
        """The files of a ConfigMap, behind a link that is swapped, so that all of them change at once."""
        version = path / f"..{next(self._versions)}"
        version.mkdir()
        for name, text in self._data(config_map).items():
            (version / name).write_text(text, "utf-8")
            if not (path / name).is_symlink():
                (path / name).symlink_to(f"..data/{name}")
        new = path / "..new"
        new.symlink_to(version.name)
        new.rename(path / "..data")

    def _write_token(self, account: str, path: pathlib.Path) -> None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec = {"expirationSeconds": TOKEN_SECONDS}
        made = self._cluster.api.create(f"{self._path}/serviceaccounts/{account}/token", {**body, "spec": spec})
        authority = self._data("kube-root-ca.crt")["ca.crt"]
        texts = {"token": made["status"]["token"], "ca.crt": authority, "namespace": self._path.rpartition("/")[2]}
        for name, text in texts.items():
            (path / name).write_text(text, "utf-8")

    def _data(self, config_map: str) -> dict[str, str]:
        found: dict[str, str] = self._cluster.api.get(f"{self._path}/configmaps/{config_map}")["data"]
        return found


def _command(pod: Document, described: Document, environment: Mapping[str, str]) -> list[str]:
    words = [*described["command"], *described["args"]]
    for key, value in environment.items():
        words = [word.replace(f"$({key})", value) for word in words]
    return [word.replace("--listen=:", f"--listen={pod['status']['podIP']}:") for word in words]


def _user(pod: Document) -> dict[str, int]:
    context = pod["spec"]["securityContext"]
    return {"uid": context["runAsUser"], "gid": context["runAsGroup"]}


def _bind(path: str, source: pathlib.Path, *, read_only: bool) -> Document:
    options = ["rbind", "ro" if read_only else "rw"]
    return {"destination": path, "type": "bind", "source": str(source), "options": options}


def _loopback(action: str, address: str) -> None:
    subprocess.run(("ip", "address", action, f"{address}/32", "dev", "lo"), check=True)
