"""The placeholder manifests hold room the way cluster-autoscaler and kube-scheduler expect it (field notes G)."""

import click
import pytest
import yaml

from cli.placeholder import choice, command, render
from tests.unit.deploy.manifests import DEPLOY, Document

FOLDER = DEPLOY / "placeholder"
KUSTOMIZATIONS = [".", *(f"overlays/{path.name}" for path in sorted((FOLDER / "overlays").iterdir()))]


def documents(name: str = ".") -> dict[str, Document]:
    """Every object of a kustomization by kind/name."""
    root = FOLDER / name
    found = render.build(yaml.safe_load((root / "kustomization.yaml").read_text(encoding="utf-8")), root)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def only(texts: dict[str, Document], kind: str) -> Document:
    """The one object of a kind."""
    (document,) = [each for each in texts.values() if each["kind"] == kind]
    return document


@pytest.fixture
def deployment() -> Document:
    """The Deployment of placeholders."""
    return documents()["Deployment/placeholder"]


def test_placeholders_are_below_ordinary_pods_but_not_expendable_to_the_autoscaler() -> None:
    held = documents()["PriorityClass/evenload-placeholder"]
    assert choice.CUTOFF < held["value"] < 0
    assert held["preemptionPolicy"] == "Never"
    assert documents()["PriorityClass/high-priority"]["value"] == 1_000_000


def test_those_that_soak_up_free_room_are_expendable_and_a_set_of_their_own() -> None:
    found = documents("overlays/soak")
    soak, first = only(found, "Deployment"), documents()["Deployment/placeholder"]
    spec, template = soak["spec"], soak["spec"]["template"]
    held = only(found, "PriorityClass")
    assert held["value"] < choice.CUTOFF
    assert held["preemptionPolicy"] == "Never"
    assert template["spec"]["priorityClassName"] == held["metadata"]["name"]
    assert template["metadata"]["annotations"]["evenload.io/placeholder-preset"] == "soak"
    assert soak["metadata"]["name"] != first["metadata"]["name"]
    assert not spec["selector"]["matchLabels"].items() <= first["spec"]["template"]["metadata"]["labels"].items()
    assert not first["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_a_placeholder_asks_for_exactly_what_it_may_use_and_leaves_at_once(deployment: Document) -> None:
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "300m", "memory": "600Mi"}
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["priorityClassName"] == "evenload-placeholder"
    assert "pause" in container["image"]


def test_a_rollout_asks_for_no_room_beyond_the_number_and_needs_no_pod_to_run(deployment: Document) -> None:
    assert deployment["spec"]["strategy"] == {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}
    assert deployment["metadata"]["annotations"] == {"argocd.argoproj.io/ignore-healthcheck": "true"}


@pytest.mark.parametrize("name", [name for name in KUSTOMIZATIONS if name != "overlays/buffers"])
def test_every_set_selects_and_spreads_its_own_pods_softly_over_hosts_and_zones(name: str) -> None:
    spec = only(documents(name), "Deployment")["spec"]
    selector = spec["selector"]["matchLabels"]
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["whenUnsatisfiable"] == "ScheduleAnyway" for each in spread)
    assert all(each["labelSelector"]["matchLabels"] == selector for each in spread)


def test_a_placeholder_is_known_by_its_label_and_may_be_evicted_by_the_autoscaler(deployment: Document) -> None:
    template = deployment["spec"]["template"]["metadata"]
    assert template["labels"]["evenload.io/placeholder"] == "true"
    assert template["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"


@pytest.mark.parametrize("name", ["overlays/nights", "overlays/proportional"])
def test_where_the_number_changes_a_job_of_ours_sets_it_and_nobody_else_says_one(name: str) -> None:
    found = documents(name)
    deployment, pod = only(found, "Deployment"), only(found, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "replicas" not in deployment["spec"]
    assert container["command"] == ["evenload", "placeholder", "size"]
    options = command.size.make_context("size", list(container["args"]), resilient_parsing=False).params
    assert (options["namespace"], options["deployment"]) == ("evenload-system", deployment["metadata"]["name"])
    assert (options["max_replicas"] is None) == (options["nodes_per_replica"] is None) == (name == "overlays/nights")
    assert isinstance(command.size, click.Command)


@pytest.mark.parametrize("name", ["overlays/nights", "overlays/proportional"])
def test_the_job_may_set_that_number_and_with_proportion_count_nodes_for_it_and_nothing_else(name: str) -> None:
    found = documents(name)
    account = only(found, "ServiceAccount")["metadata"]
    pod = only(found, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    scale = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["placeholder"]}
    reading = [{**scale, "resources": ["deployments"], "verbs": ["get"]}] if name == "overlays/proportional" else []
    assert only(found, "Role")["rules"] == [{**scale, "verbs": ["patch"]}, *reading]
    subject = [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
    for key, binding in found.items():
        if binding["kind"].endswith("Binding"):
            assert binding["subjects"] == subject, key
            assert f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}" in found
    counting = [each["rules"] for each in found.values() if each["kind"] == "ClusterRole"]
    nodes = [[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]]
    assert counting == (nodes if name == "overlays/proportional" else [])
