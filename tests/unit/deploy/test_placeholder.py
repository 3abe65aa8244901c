"""The placeholder manifests hold room the way cluster-autoscaler and kube-scheduler expect it (field notes G)."""

import pathlib
from typing import Any

import pytest
import yaml

from kube import kinds, objects
from tests import builders

FOLDER = pathlib.Path(__file__).parents[3] / "deploy" / "placeholder"
Document = dict[str, Any]


def documents() -> dict[str, Document]:
    """Every object of the kustomization's own files by kind/name."""
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml"]
    found = [each for text in texts for each in yaml.safe_load_all(text)]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


@pytest.fixture
def deployment() -> Document:
    """The Deployment of placeholders."""
    return documents()["Deployment/placeholder"]


def test_placeholders_are_below_ordinary_pods_but_not_expendable_to_the_autoscaler() -> None:
    held = documents()["PriorityClass/evenload-placeholder"]
    assert -10 < held["value"] < 0
    assert held["globalDefault"] is False
    assert held["preemptionPolicy"] == "Never"
    assert documents()["PriorityClass/high-priority"]["value"] == 1_000_000


def test_a_placeholder_asks_for_exactly_what_it_may_use_and_leaves_at_once(deployment: Document) -> None:
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "300m", "memory": "600Mi"}
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["priorityClassName"] == "evenload-placeholder"
    assert "pause" in container["image"]


def test_placeholders_spread_softly_over_hosts_and_zones(deployment: Document) -> None:
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}


def test_a_placeholder_is_known_by_its_label_and_may_be_evicted_by_the_autoscaler(deployment: Document) -> None:
    template = deployment["spec"]["template"]["metadata"]
    assert template["labels"]["evenload.io/placeholder"] == "true"
    assert template["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["labels"].items()


def test_every_object_carries_the_recommended_labels() -> None:
    for name, document in documents().items():
        labels = document["metadata"]["labels"]
        wanted = {"app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"}
        assert wanted <= set(labels), name


def test_our_own_reader_understands_the_deployment(deployment: Document) -> None:
    read = builders.decoded(deployment, objects.Deployment)
    assert (read.name, read.spec_replicas) == ("placeholder", 10)
    assert kinds.DEPLOYMENTS.type is objects.Deployment
