"""The chart of deploy/helm makes the objects that Kustomize makes, by the real Helm 4, Helm 3 and kubectl.

`SAME` pairs values with kustomizations. Objects may differ in what `comparable` takes away, and in nothing else: the
labels that name the tool and the chart, the Namespace, which Helm makes itself, the way a ConfigMap that is read at the
start restarts its pods (Kustomize: a hash behind its name; the chart: a checksum in the pods' annotations), and the
annotation by which Helm leaves the ledger's claim.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lab.cluster import binaries
from lab.cluster.demo import permissions
from policy.loading import loader
from runtime import version
from tests import commands, shared, starting
from tests.contract import helm_client, test_kustomize, test_scheduler_config
from tests.contract.helm_client import Document, Helm
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
DEPLOY = helm_client.ROOT / "deploy"
KEPT_VALUES = helm_client.ROOT / "tests" / "unit" / "formats" / "v0_1_0" / "values.json"
GUIDE = Path("docs/start/fifteen-minutes.md").read_text(encoding="utf-8")
HASHED = re.compile(r"\b(evenload-settings|evenload-scheduler-config)-[a-z0-9]{10}\b")
ON = {"enabled": True}
NIGHTS = ["--time-zone=Europe/Berlin", "--during=20:00-07:00=2", "--during=Fri 20:00-Mon 07:00=0"]
PROPORTIONAL = {**ON, "sizing": {**ON, "proportional": True}}
# Everything that can be on at once; cert-manager's objects are of kinds that the test's apiserver does not know.
ALL: dict[str, Any] = {
    "ha": ON,
    "mtls": ON,
    "craneAnnotations": ON,
    "console": ON,
    "monitoring": ON,
    "placeholders": {**ON, "sizing": ON},
    "secondScheduler": ON,
}


# By name the values files of clouds' own Prometheus, with the console on, which asks it as well.
CLOUDS: dict[str, Any] = {
    path.stem: helm_client.merged(yaml.safe_load(path.read_text(encoding="utf-8")), {"console": ON})
    for path in sorted(helm_client.CHART.glob("values-*.yaml"))
}


class Same(NamedTuple):
    """Values, and the kustomizations that have the same objects, as directories below deploy/."""

    values: Mapping[str, Any]
    resources: tuple[str, ...] = ("kustomize/overlays/observe",)
    components: tuple[str, ...] = ()  # of the first resource


SAME = {
    "observe": Same({}),
    "enforce": Same({"policy": {"descheduler": {"mode": "Enforce"}}}, ("kustomize/overlays/enforce",)),
    "ha": Same({"ha": ON}, ("kustomize/overlays/ha",)),
    "mtls": Same({"mtls": ON}, ("kustomize/overlays/mtls",)),
    "cert-manager": Same({"mtls": {**ON, "certManager": True}}, ("kustomize/overlays/mtls",), ("cert-manager",)),
    "console": Same({"console": ON}, ("kustomize/overlays/console",)),
    "crane": Same({"craneAnnotations": ON}, components=("crane",)),
    "surge": Same({"descheduler": {"surge": ON}}, components=("surge",)),
    "metrics-server": Same({"source": "metrics-server"}, components=("metrics-server",)),
    "metrics-server with ha": Same(
        {"source": "metrics-server", "ha": ON}, ("kustomize/overlays/ha",), ("metrics-server",)
    ),
    "monitoring": Same({"monitoring": ON}, components=("monitoring",)),
    "monitoring with mtls": Same({"monitoring": ON, "mtls": ON}, ("kustomize/overlays/mtls",), ("monitoring-mtls",)),
    "placeholders": Same({"placeholders": {**ON, "burstClass": True}}, ("kustomize/overlays/observe", "placeholder")),
    "placeholders that soak": Same(
        {"placeholders": {**ON, "preset": "soak"}}, ("kustomize/overlays/observe", "placeholder/overlays/soak")
    ),
    "placeholders by the clock": Same(
        {"placeholders": {**ON, "sizing": {**ON, "extraArgs": NIGHTS}}},
        ("kustomize/overlays/observe", "placeholder/overlays/nights"),
    ),
    "placeholders in proportion": Same(
        {"placeholders": PROPORTIONAL}, ("kustomize/overlays/observe", "placeholder/overlays/proportional")
    ),
    "a second scheduler": Same({"secondScheduler": ON}, ("kustomize/overlays/observe", "scheduler/second")),
    "almost everything": Same(
        {**ALL, "placeholders": PROPORTIONAL, "secondScheduler": {}},
        ("kustomize/overlays/ha", "placeholder/overlays/proportional"),
        ("mtls", "crane", "console", "monitoring-mtls"),
    ),
}


@pytest.fixture(params=helm_client.MAJORS)
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(request.param, tmp_path)


@functools.cache
def kustomized(resource: str, components: tuple[str, ...] = ()) -> str:
    """Text of the objects of a kustomization below deploy/, with components; several entries of SAME have the first."""
    with tempfile.TemporaryDirectory(prefix="evenload-kustomize-") as directory:
        deploy = os.path.relpath(DEPLOY, Path(directory).resolve())
        document = {
            "resources": [f"{deploy}/{resource}"],
            "components": [f"{deploy}/kustomize/components/{name}" for name in components],
        }
        Path(directory, "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        command = [str(binaries.find_or_build()["kubectl"]), "kustomize", directory]
        environment = {**os.environ, "GOGC": "off"}
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return HASHED.sub(r"\1", answer.stdout)


def templates(document: Document) -> Iterator[Document]:
    """The metadata of an object and of its pods."""
    yield document["metadata"]
    spec = document.get("spec", {})
    for holder in (spec, spec.get("jobTemplate", {}).get("spec", {})):
        if "metadata" in holder.get("template", {}):
            yield holder["template"]["metadata"]


def comparable(documents: list[Document]) -> dict[tuple[str, str, str], Document]:
    """Objects by kind, namespace and name, without what may differ; a policy as its content."""
    result: dict[tuple[str, str, str], Document] = {}
    for one in documents:
        if one["kind"] == "Namespace":
            continue
        for metadata in templates(one):
            for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
                metadata["labels"].pop(label, None)
            annotations = metadata.pop("annotations", {})
            kept = {key: value for key, value in annotations.items() if not key.startswith(("checksum/", "helm.sh/"))}
            metadata.update({"annotations": kept} if kept else {})
        if one["metadata"]["name"] == "evenload-policy":
            one["data"] = loader.load(one["data"]["policy.yaml"], "policy.yaml").as_file()
        key = (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        assert key not in result, f"{key} twice"
        result[key] = one
    return result


@functools.cache
def by_kustomize(name: str) -> dict[tuple[str, str, str], Document]:
    """Objects of an entry of SAME, once for both majors of Helm; each resource by itself: two have the Namespace."""
    first, *others = SAME[name].resources
    texts = (kustomized(first, SAME[name].components), *map(kustomized, others))
    return comparable([one for text in texts for one in helm_client.documents(text)])


@pytest.mark.parametrize("name", SAME)
def test_helm_makes_the_objects_that_kustomize_makes(helm: Helm, name: str) -> None:
    rendered = comparable(helm_client.documents(helm.template(SAME[name].values, "--no-hooks")))
    expected = by_kustomize(name)
    assert rendered.keys() == expected.keys()
    for key, document in expected.items():
        assert rendered[key] == document, key


def test_with_the_default_values_the_policy_file_is_the_shipped_one_to_the_byte(helm: Helm) -> None:
    found = test_kustomize.by_name(helm_client.documents(helm.template({})))
    text = (DEPLOY / "policies" / "default.yaml").read_text(encoding="utf-8")
    assert found["ConfigMap", "evenload-policy"]["data"] == {"policy.yaml": text}
    assert loader.load(text, "default.yaml").as_file()["descheduler"]["mode"] == "Observe"  # type: ignore[index]


def test_a_policy_file_of_ones_own_is_taken_to_the_byte_and_not_beside_sections(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("# mine\napiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n", encoding="utf-8")
    given = f"--set-file=policyFile={file}"
    text = helm.template({}, given, "--set=policy=null")
    maps = {one["metadata"]["name"]: one for one in helm_client.documents(text)}
    assert maps["evenload-policy"]["data"]["policy.yaml"] == file.read_text(encoding="utf-8")
    both = (given, "--set=policy.descheduler.mode=Enforce", helm_client.KUBERNETES)
    answer = helm.run("template", str(helm_client.CHART), *both)
    assert answer.returncode != 0
    assert "policy and policyFile are both set" in answer.stderr


def test_the_values_that_helm_keeps_of_a_release_of_0_1_0_make_the_objects_of_today(helm: Helm, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(helm_client.CHART, chart)
    shutil.copy(KEPT_VALUES, chart / "values.yaml")  # --reuse-values puts them in place of the chart's own
    where = ("--namespace=evenload-system", helm_client.KUBERNETES)
    assert helm.succeed("template", helm_client.RELEASE, str(chart), *where) == helm.template({})


def test_in_another_namespace_no_object_names_the_usual_one(helm: Helm) -> None:
    usual, elsewhere = (helm.template(ALL, namespace=where) for where in ("evenload-system", "load-elsewhere"))
    assert "evenload-system" not in elsewhere
    with_checksums = re.compile(r"^ +checksum/.*\n", re.MULTILINE)  # of a configuration that names the namespace
    moved = with_checksums.sub("", elsewhere.replace("load-elsewhere", "evenload-system"))
    assert moved == with_checksums.sub("", usual)
    subjects = [one for document in helm_client.documents(elsewhere) for one in document.get("subjects", [])]
    assert {one["namespace"] for one in subjects} == {"load-elsewhere"}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("evenload-annotator", {"prometheus": {"url": "http://other:9090"}}),
        ("evenload-scheduler", {"secondScheduler": ON, "mtls": ON}),
    ],
)
def test_only_a_change_read_at_the_start_restarts_the_pods(helm: Helm, name: str, values: Mapping[str, Any]) -> None:
    def annotations(values: Mapping[str, Any]) -> Document:
        found = helm_client.documents(helm.template(helm_client.merged({"secondScheduler": ON}, values)))
        (one,) = [one for one in found if (one["kind"], one["metadata"]["name"]) == ("Deployment", name)]
        return dict(one["spec"]["template"]["metadata"]["annotations"])

    assert annotations(values) != annotations({})
    assert annotations({"policy": {"descheduler": {"mode": "Enforce"}}}) == annotations({})


def test_the_second_scheduler_asks_by_tls_where_mtls_is_on_and_has_no_gate_that_its_version_lacks(
    helm: Helm, tmp_path: Path
) -> None:
    values = {"secondScheduler": ON, "mtls": ON}
    objects = test_kustomize.by_name(helm_client.documents(helm.template(values, "--kube-version=v1.31.9-gke.1")))
    pod = objects["Deployment", "evenload-scheduler"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.k8s.io/kube-scheduler:v1.31.9"
    assert container["args"] == ["--config=/etc/kube-scheduler/config.yaml"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert {"name": "tls", "secret": {"secretName": "evenload-scheduler-tls"}} in pod["volumes"]
    config = yaml.safe_load(objects["ConfigMap", "evenload-scheduler-config"]["data"]["config.yaml"])
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "https://evenload-extender.evenload-system.svc:8900"
    assert extender["enableHTTPS"] is True
    files = {f"{mounts['tls']}/{name}" for name in ("ca.crt", "tls.crt", "tls.key")}
    assert set(extender["tlsConfig"].values()) == files


def test_kube_scheduler_understands_the_second_schedulers_configuration_with_tls(helm: Helm, tmp_path: Path) -> None:
    commands.output("certs", "--directory", str(tmp_path / "pki"))
    found = test_kustomize.by_name(helm_client.documents(helm.template({"secondScheduler": ON, "mtls": ON})))
    shipped = found["ConfigMap", "evenload-scheduler-config"]["data"]["config.yaml"]
    text = shipped.replace("/etc/evenload-tls", f"{tmp_path}/pki/scheduler")
    scheduler = test_scheduler_config.Scheduler(tmp_path)
    (extender,) = scheduler.understood(yaml.safe_load(text))["extenders"]
    assert extender["enableHTTPS"] is True


def test_the_linter_finds_nothing_and_a_package_holds_what_the_links_point_to(helm: Helm, tmp_path: Path) -> None:
    for values in ({}, ALL):
        helm.succeed("lint", "--strict", str(helm_client.CHART), helm.values(values))
    helm.succeed("package", str(helm_client.CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("evenload-*.tgz")
    where = ("--namespace=evenload-system", helm_client.KUBERNETES, helm_client.OPERATORS, helm.values(ALL))
    assert helm.succeed("template", helm_client.RELEASE, str(archive), *where) == helm.template(ALL)
    assert archive.stat().st_size < 200_000, "a release's Secret holds the chart, and may have 1 MiB"


def test_the_values_of_the_page_are_valid(helm: Helm) -> None:
    text = (helm_client.ROOT / "docs" / "start" / "helm.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# values\.yaml\n.*?)```", text, re.DOTALL)
    assert "evenload" in helm.template(yaml.safe_load(example))  # and test_helm_values.py has where each value goes


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        pytest.param("ha.enable=true", "enable", id="a misspelt value"),
        pytest.param("policy.descheduler.mode=Enforc", "/policy/descheduler/mode", id="a policy that cannot be"),
        pytest.param("extender.replicas=-1", "/extender/replicas", id="a negative number"),
        pytest.param("prometheus.url=prometheus:9090", "/prometheus/url", id="a URL without a scheme"),
        pytest.param(r"commonLabels.app\.kubernetes\.io/name=x", "/commonLabels", id="a label that selectors go by"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(helm: Helm, wrong: str, complaint: str) -> None:
    answer = helm.run("template", str(helm_client.CHART), f"--set={wrong}", helm_client.KUBERNETES)
    assert answer.returncode != 0
    assert complaint in answer.stderr.replace(".", "/"), answer.stderr


@pytest.mark.parametrize("value", ["monitoring.enabled", "mtls.certManager"])
def test_a_cluster_without_the_kinds_of_a_value_is_refused_in_one_sentence(helm: Helm, value: str) -> None:
    switches = (f"--set={value}=true", "--set=mtls.enabled=true")
    answer = helm.run("template", str(helm_client.CHART), helm_client.KUBERNETES, *switches)
    assert answer.returncode != 0
    assert re.search(rf"{value} needs \S+, which this cluster does not serve: .* set {value}=false", answer.stderr)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> test_kustomize.Site:
    """The site that this file shares with Kustomize's."""
    return shared.shared("kubectl", lambda: test_kustomize.plain_site(tmp_path_factory.mktemp("kubectl")))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_clouds_own_sidecar_is_beside_each_service_that_asks_prometheus(helm: Helm, cloud: str) -> None:
    found = test_kustomize.by_name(helm_client.documents(helm.template(CLOUDS[cloud])))
    specs = {name: one["spec"]["template"]["spec"] for (kind, name), one in found.items() if kind == "Deployment"}
    beside = {name: spec["initContainers"] for name, spec in specs.items() if "initContainers" in spec}
    assert set(beside) == {"evenload-annotator", "evenload-console", "evenload-descheduler"}
    for name, containers in beside.items():
        assert [one["restartPolicy"] for one in containers] == ["Always"]
        account = found["ServiceAccount", specs[name]["serviceAccountName"]]
        assert account["metadata"]["annotations"] == CLOUDS[cloud]["annotator"]["serviceAccountAnnotations"]


@pytest.mark.parametrize("values", [{}, ALL, *CLOUDS.values()], ids=["by default", "with everything", *CLOUDS])
def test_the_apiserver_accepts_every_object_and_warns_of_none(
    site: test_kustomize.Site, values: Mapping[str, Any], tmp_path: Path
) -> None:
    site.define(test_kustomize.CRDS)
    site.make_namespace()  # which refuses pods that are not `restricted`; the account below is in it
    accounts = permissions.PATHS["ServiceAccount"].format(namespace=test_kustomize.NAMESPACE)
    if not site.cluster.api.exists(f"{accounts}/evenload-doctor"):  # a bare Pod is refused without its account
        site.cluster.api.create(accounts, {"metadata": {"name": "evenload-doctor"}})
    text, other = (Helm(major, tmp_path).template(values) for major in helm_client.MAJORS)
    assert helm_client.documents(text) == helm_client.documents(other), "only the first is accepted below"
    (tmp_path / "rendered.yaml").write_text(text, encoding="utf-8")
    assert len(site.accepted("-f", str(tmp_path / "rendered.yaml"))) == len(helm_client.documents(text))


@pytest.mark.parametrize("major", helm_client.MAJORS)
def test_a_release_is_installed_upgraded_rolled_back_and_taken_away_but_for_the_ledger(
    site: test_kustomize.Site, major: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    helm = Helm(major, tmp_path, site.cluster.kubeconfig)
    request.addfinalizer(lambda: helm.run("uninstall", helm_client.RELEASE, where[0]))  # for the other major
    volume = f"ledger-{major}"
    site.cluster.api.create("api/v1/persistentvolumes", test_kustomize.disk(volume))
    before = ("--version=0.0.1", "--app-version=0.0.1")
    helm.succeed("package", str(helm_client.CHART), f"--destination={tmp_path}", *before)
    where = (f"--namespace={test_kustomize.NAMESPACE}", "--wait", "--timeout=300s")
    notes = helm.succeed(
        "install", helm_client.RELEASE, str(tmp_path / "evenload-0.0.1.tgz"), "--create-namespace", *where
    )
    assert "evicts nothing (mode Observe)" in notes
    few = {"evenload-annotator": (1, 1), "evenload-descheduler": (1, 1), "evenload-extender": (2, 2)}
    assert site.ready() == few
    assert versions(site) == {"0.0.1"}
    upgrade = ("upgrade", helm_client.RELEASE, str(helm_client.CHART))
    bad = {"descheduler": {"mode": "DryRun"}, "sync": {"staleAfter": "10s"}}  # which the schema cannot know
    values = helm.values(
        {"policy": bad, "annotator": {"podAnnotations": {"cluster.evenload.io/complete-after": "10m"}}}
    )
    run = functools.partial(checked, tmp_path)
    code, text, ended = helm.with_hook(site.cluster.api, "policy-check", run, *upgrade, values)
    assert (code, ended.returncode) == (1, 2), text
    assert "pre-upgrade hooks failed" in text
    assert "policy.yaml:6:15: sync.staleAfter: " in ended.stderr
    assert (versions(site), mode(site)) == ({"0.0.1"}, "Observe"), "nothing is applied"
    changed = helm.values({"ha": ON, "policy": {"descheduler": {"mode": "DryRun"}}})
    notes = helm.succeed(*upgrade, changed, *where)
    assert "in mode DryRun" in notes
    many = {"evenload-annotator": (2, 2), "evenload-descheduler": (2, 2), "evenload-extender": (3, 3)}
    waiting.until(lambda: site.ready() == many, "all replicas", site.ready)
    assert versions(site) == {version.VERSION}
    assert mode(site) == "DryRun"
    printed = [line.strip() for line in notes.splitlines() if line.startswith("  ")]
    upgrades = [shlex.split(line) for line in printed if line.startswith("helm upgrade ")]
    assert [words[-1] for words in upgrades] == [
        "image.repository=registry.example.com/evenload",
        "policy.extender.mode=Shadow",
    ]
    for words in upgrades:
        chart = words.index("deploy/helm/evenload")  # from the repository's root
        helm.succeed(*words[1:chart], str(helm_client.CHART), *words[chart + 1 :], *where[1:])
    assert "mode: Shadow" in site.kubectl("get", "configmap", "evenload-policy", where[0], "-o", "yaml").stdout
    others = [line for line in printed if not line.startswith("helm ")]
    assert len(others) == 3
    assert all(line in GUIDE for line in others), "test_fifteen_minutes types what the guide has"
    helm.succeed("rollback", helm_client.RELEASE, "1", *where)
    waiting.until(lambda: site.ready() == few, "the first release again", site.ready)
    assert (versions(site), mode(site)) == ({"0.0.1"}, "Observe")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(helm.succeed("get", "manifest", helm_client.RELEASE, where[0]), encoding="utf-8")
    helm.succeed("uninstall", helm_client.RELEASE, *where)

    def left() -> str:
        return site.kubectl("get", "-f", str(manifest), "--ignore-not-found", "-o", "name").stdout

    claim = "persistentvolumeclaim/evenload-ledger"
    waiting.until(lambda: left().split() == [claim], "only the ledger's claim to be left", left)
    site.kubectl("delete", claim, where[0])
    site.cluster.api.delete(f"api/v1/persistentvolumes/{volume}")


def checked(directory: Path, pod: Document) -> subprocess.CompletedProcess[str]:
    """Runs the command of the hook's pod over the policy that it mounts."""
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert not any("projected" in one for one in spec["volumes"]), "no token"
    (item,) = spec["volumes"][0]["downwardAPI"]["items"]
    (name,) = re.findall(r"'(.+)'", item["fieldRef"]["fieldPath"])
    (directory / item["path"]).write_text(pod["metadata"]["annotations"][name], encoding="utf-8")
    return starting.run(starting.Command("cli", (*container["command"][1:-1], item["path"]), {}, directory))


def versions(site: test_kustomize.Site) -> set[str]:
    """The version labels of the release's Deployments."""
    found = site.cluster.api.items(f"apis/apps/v1/namespaces/{test_kustomize.NAMESPACE}/deployments")
    return {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in found}


def mode(site: test_kustomize.Site) -> str:
    """The mode of the policy that is deployed."""
    found = site.cluster.api.get(f"api/v1/namespaces/{test_kustomize.NAMESPACE}/configmaps/evenload-policy")
    return loader.load(found["data"]["policy.yaml"], "policy.yaml").descheduler.mode
