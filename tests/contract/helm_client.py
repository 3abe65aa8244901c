"""The real Helm, of both majors that are in use, and the chart of deploy/helm that it renders and installs."""

import collections.abc
import functools
import json
import os
import pathlib
import subprocess
from typing import Any

import yaml

from lab.cluster import api, programs
from lab.cluster.demo import permissions
from tests.e2e import waiting

ROOT = pathlib.Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "evenload"
MAJORS = ("helm", "helm3")
RELEASE = "evenload"
KUBERNETES = "--kube-version=v1.36.3"  # for a Helm that has no cluster to ask
OPERATORS = "--api-versions=monitoring.coreos.com/v1,cert-manager.io/v1"
Document = dict[str, Any]
Ended = subprocess.CompletedProcess[str]
Values = collections.abc.Mapping[str, object]
_rendered: dict[tuple[pathlib.Path, str, tuple[str, ...]], str] = {}  # by program, values and command


class Helm:
    """A built Helm with a home of its own; without a kubeconfig it can render, lint and package."""

    def __init__(self, major: str, home: pathlib.Path, kubeconfig: pathlib.Path | None = None) -> None:
        self._program = program(major)
        self._home = home
        self._environment = {
            **os.environ,
            "HELM_CACHE_HOME": str(home / "cache"),
            "HELM_CONFIG_HOME": str(home / "config"),
            "HELM_DATA_HOME": str(home / "data"),
            "KUBECONFIG": str(kubeconfig or home / "none"),
            "GOGC": "off",  # Helm ends before a collection pays
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Answer of Helm, whatever its exit code."""
        command = [str(self._program), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=400, env=self._environment, cwd=self._home
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A Helm that goes on beside the test."""
        command = [str(self._program), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self._environment, cwd=self._home)

    def succeed(self, *arguments: str) -> str:
        """Stdout of a Helm that must succeed."""
        answer = self.run(*arguments)
        assert answer.returncode == 0, f"helm {' '.join(arguments)}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    def with_hook(
        self, api: api.Api, component: str, run: collections.abc.Callable[[Document], Ended], *arguments: str
    ) -> tuple[int, str, Ended]:
        """Exit code and output of Helm, whose hook's pod a function plays for the kubelet; and how that ended."""
        path, selector = f"api/v1/namespaces/{permissions.NAMESPACE}/pods", f"app.kubernetes.io/component={component}"

        def pods() -> list[Document]:
            """Those that run, after which the fake kubelet leaves their status alone."""
            return [one for one in api.items(path, labelSelector=selector) if one["status"]["phase"] == "Running"]

        with self.start(*arguments, f"--namespace={permissions.NAMESPACE}", "--timeout=300s") as helm:
            try:
                (pod,) = waiting.until(pods, "Helm to create the pod")
                ended = run(pod)
                phase = "Failed" if ended.returncode else "Succeeded"
                api.patch(f"{path}/{pod['metadata']['name']}/status", {"status": {"phase": phase}})
                stdout, stderr = helm.communicate(timeout=300)
            finally:
                helm.kill()
        return helm.returncode, stdout + stderr, ended

    def values(self, values: Values) -> str:
        """The option that gives values by a file."""
        path = self._home / "values.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        return f"--values={path}"

    def template(self, values: Values, *options: str, namespace: str = "evenload-system") -> str:
        """Text of the objects of a release with these values, in a cluster of Kubernetes 1.36.3; rendered once."""
        command = ("template", RELEASE, str(CHART), f"--namespace={namespace}", KUBERNETES, OPERATORS, *options)
        key = (self._program, json.dumps(values), command)
        if key not in _rendered:
            _rendered[key] = self.succeed(*command, self.values(values))
        return _rendered[key]


@functools.cache
def program(major: str) -> pathlib.Path:
    """The built Helm of a major."""
    return programs.built(pathlib.Path(__file__).with_name(major))


def documents(text: str) -> list[Document]:
    """The objects of a rendered text."""
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def merged(*parts: Values) -> dict[str, Any]:
    """Values over values, section by section, as Helm merges them."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            inner = isinstance(value, collections.abc.Mapping) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if inner else value  # type: ignore[arg-type]
    return result
