"""Which ConfigMaps the shipped rights let our services touch: the two that the annotator keeps, by name."""

from policy.contract import heartbeat, owner_usage
from tests.unit.deploy.manifests import DEPLOY, Document, load

OURS = {heartbeat.CONFIG_MAP, owner_usage.CONFIG_MAP}


def rules(service: str) -> list[Document]:
    """The rules about ConfigMaps of one service."""
    documents = load(DEPLOY / "rbac" / f"{service}.yaml")
    every = [rule for document in documents for rule in document.get("rules", [])]
    return [rule for rule in every if "configmaps" in rule["resources"]]


def test_the_annotator_changes_its_two_config_maps_and_no_other() -> None:
    found = rules("annotator")
    assert {name for rule in found for name in rule.get("resourceNames", [])} == OURS
    assert all(rule["verbs"] == ["create"] for rule in found if "resourceNames" not in rule)
    (usage,) = [rule for rule in found if owner_usage.CONFIG_MAP in rule.get("resourceNames", [])]
    assert usage["verbs"] == ["update"]


def test_the_extender_reads_these_two_and_no_other() -> None:
    (rule,) = rules("extender")
    assert set(rule["resourceNames"]) == OURS
    assert set(rule["verbs"]) == {"list", "watch"}
