"""A release of Evenload's chart, of one version after the other, on a running cluster, judged object by object.

Helm reports success; the judges read the objects: each is as its version writes it, none is left over, none was deleted
and made again in between, and the size that others gave to a Deployment stays.
"""

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, Final

from lab import cluster
from lab.cluster import cache
from tests.contract import helm_client, test_helm, test_kustomize
from tests.contract.helm_client import Document, Helm

VERSIONS: Final = ("0.2.0", "0.3.0")  # given to both charts, so that an upgrade always changes the labels
LEAST_AGE: Final = 'duration("5m")'  # of pods by the guard; those of a run of minutes are younger
WHERE: Final = f"--namespace={test_kustomize.NAMESPACE}"
WAIT: Final = ("--wait", "--timeout=300s")
CLAIM: Final = ("PersistentVolumeClaim", "evenload-ledger")
PLACEHOLDER: Final = "placeholder"
REPLICAS: Final = 7  # of the placeholders, as their CronJob sets them, not the 10 that they begin with
VALUES: Final = {**test_helm.ALL, "policy": {"descheduler": {"mode": "DryRun"}}}  # 0.1.0 has all of them
LOADED: Final = {"ha": test_helm.ON, "policy": {"descheduler": {"mode": "Enforce"}}}  # beside real services
NEW_VALUES: Final = {"descheduler": {"surge": test_helm.ON}}  # which 0.2.0 lacks; brings rights and another guard
Key = tuple[str, str]  # kind and name
Trees = tuple[pathlib.Path, pathlib.Path]  # of the old and the new version


def play(directory: pathlib.Path, trees: Trees) -> tuple[list[str], str]:
    """Upgrades the chart with everything on and rolls it back, by each major of Helm; what broke, and a sentence."""
    broken, counts = list[str](), list[str]()
    with cluster.Cluster(nodes=3, prometheus=False, exporter=False, node_exporter=False) as running:
        running.api.create("api/v1/namespaces", {"metadata": {"name": test_kustomize.NAMESPACE}})
        for major in helm_client.MAJORS:
            release = Release(running, major, directory / major, trees)
            release.there_and_back()
            broken += release.broken
            counts.append(f"{major}: {release.counts}")
            cache.say(counts[-1])
    return broken, ", ".join(counts)


class Release:
    """The release on one cluster, by one major of Helm; `broken` are sentences about what changed and should not."""

    def __init__(self, running: cluster.Cluster, major: str, directory: pathlib.Path, trees: Trees) -> None:
        directory.mkdir()
        self.broken: list[str] = []
        self._site = test_kustomize.Site(running, directory)
        self._helm, self._directory, self._major = Helm(major, directory, running.kubeconfig), directory, major
        self._old, self._new = map(self._packaged, trees, VERSIONS)
        self._kinds: set[str] = set()
        self._uids: dict[Key, str] = {}
        self._scaled: dict[Key, Document] = {}  # what others changed
        self._volume = f"api/v1/persistentvolumes/ledger-{major}"
        running.api.create(self._volume.rpartition("/")[0], test_kustomize.disk(f"ledger-{major}"))

    def _packaged(self, tree: pathlib.Path, version: str) -> str:
        chart = self._directory / version
        shutil.copytree(tree / "deploy" / "helm" / "evenload", chart)
        guard = chart / "manifests" / "guard" / "evictions.yaml"
        text = guard.read_text(encoding="utf-8")
        assert LEAST_AGE in text
        guard.write_text(text.replace(LEAST_AGE, 'duration("0s")'), encoding="utf-8")
        named = (f"--version={version}", f"--app-version={version}")
        self._helm.succeed("package", str(chart), f"--destination={self._directory}", *named)
        return str(self._directory / f"evenload-{version}.tgz")

    def there_and_back(self) -> None:
        """Installs the old version with everything on, upgrades in three ways, rolls back and uninstalls."""
        self._site.define(test_kustomize.CRDS)
        self.install(VALUES, *WAIT)
        self.scale(PLACEHOLDER, REPLICAS)
        self.judge("install")
        self.upgrade()
        texts = self.texts
        self.upgrade_with(VALUES)
        if self.texts != texts:
            self.broken.append(f"{self._major}: --reuse-values makes other objects than the values in a file")
        self.upgrade_with({**VALUES, **NEW_VALUES})
        self.refused()
        self.rollback()
        self.remove()

    def install(self, values: helm_client.Values, *how: str) -> None:
        """Installs the old version."""
        self._helm.succeed("install", helm_client.RELEASE, self._old, WHERE, self._helm.values(values), *how)

    def upgrade(self, *how: str) -> None:
        """Upgrades to the new version, by default with the values of the release before, and judges."""
        self._change("upgrade", helm_client.RELEASE, self._new, *(how or ("--reuse-values",)))

    def upgrade_with(self, values: helm_client.Values) -> None:
        """Upgrades to the new version with these values and the defaults of its own, and judges."""
        self.upgrade(self._helm.values(values))

    def rollback(self) -> None:
        """Rolls back to what was installed, and judges."""
        self._change("rollback", helm_client.RELEASE, "1")

    def refused(self) -> None:
        """Judges that the old chart refuses the values of this release and names what it does not know."""
        answer = self._helm.run("upgrade", helm_client.RELEASE, self._old, WHERE, "--reuse-values")
        if not answer.returncode or "surge" not in answer.stderr:
            self.broken.append(f"{self._major}: surge expected of the old chart, it said {answer.stderr!r}")
        self.judge("a refused upgrade")

    def scale(self, name: str, replicas: int) -> None:
        """Gives a Deployment another size, as others than Helm do."""
        answer = self._site.kubectl("scale", f"deployment/{name}", f"--replicas={replicas}", WHERE)
        assert answer.returncode == 0, answer.stderr
        self._scaled["Deployment", name] = {"spec": {"replicas": replicas}}

    def _change(self, *command: str) -> None:
        answer = self._helm.run(*command, WHERE, *WAIT)
        if answer.returncode:
            self.broken.append(f"{self._major} {' '.join(command)}: {answer.stderr}")
        self.judge(f"{command[0]} {pathlib.Path(command[2]).name}")

    @property
    def texts(self) -> str:
        """All that Helm made of the chart, tests included."""
        return "".join(self._helm.succeed("get", part, helm_client.RELEASE, WHERE) for part in ("manifest", "hooks"))

    def judge(self, step: str) -> None:
        """Compares the objects of the cluster with those of the release."""
        manifest = self._directory / "manifest.yaml"
        manifest.write_text(self._helm.succeed("get", "manifest", helm_client.RELEASE, WHERE), encoding="utf-8")
        wanted = by_key(helm_client.documents(manifest.read_text(encoding="utf-8")))
        self._kinds |= {kind for kind, _ in wanted}
        live = by_key(self._listed(",".join(sorted(self._kinds)), "-A", "-l", "app.kubernetes.io/managed-by=Helm"))
        uids = {key: one["metadata"]["uid"] for key, one in live.items()}
        words = f"{self._major}, {step}"
        self.broken += [f"{words}: {key} is not there" for key in wanted.keys() - live.keys()]
        self.broken += [f"{words}: {key} is left over" for key in live.keys() - wanted.keys()]
        self.broken += [f"{words}: {key} was made again" for key in uids if self._uids.get(key, uids[key]) != uids[key]]
        for key in wanted.keys() & live.keys():
            changes = (*differences(wanted[key], live[key]), *differences(self._scaled.get(key, {}), live[key]))
            self.broken += [f"{words}: {key}{one}" for one in changes]
        self._uids |= uids

    def remove(self) -> None:
        """Uninstalls, judges that the ledger's claim alone is left, and deletes that, too."""
        self._helm.succeed("uninstall", helm_client.RELEASE, WHERE, *WAIT)
        left = by_key(self._listed("-f", str(self._directory / "manifest.yaml"), "--ignore-not-found"))
        leaving = {key for key, one in left.items() if "deletionTimestamp" in one["metadata"]}
        if left.keys() - leaving != {CLAIM} or left[CLAIM]["metadata"]["uid"] != self._uids[CLAIM]:
            self.broken.append(f"{self._major}, uninstall: {sorted(left)} are left, {CLAIM} expected")
        self._site.kubectl("delete", f"persistentvolumeclaim/{CLAIM[1]}", WHERE)
        self._site.cluster.api.delete(self._volume)

    def _listed(self, *what: str) -> list[Document]:
        answer = self._site.kubectl("get", *what, "-o", "json")
        assert answer.returncode == 0, answer.stderr
        document = json.loads(answer.stdout or '{"items": []}')
        items: list[Document] = document.get("items", [document])
        return items

    @property
    def counts(self) -> str:
        """How many objects it has been judged by."""
        return f"{len(self._uids)} objects of {len(self._kinds)} kinds"


def by_key(documents: list[Document]) -> dict[Key, Document]:
    """Objects by kind and name; no two of the chart differ in the namespace alone."""
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def differences(wanted: Any, live: Any, path: str = "") -> Iterator[str]:
    """Each place where an object is not what was written; the apiserver may add keys, and no entries of lists."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key, value in wanted.items():
            yield from differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        for number, (one, other) in enumerate(zip(wanted, live, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif (wanted or None) != (live or None):
        yield f"{path} is {live}, {wanted} expected"
