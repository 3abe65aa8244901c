"""Everything in deploy/rbac is applied, and each service has an account there."""

import pytest
import yaml

from cluster.demo import permissions


def documents() -> list[dict[str, object]]:
    """Every object of deploy/rbac."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(permissions.FOLDER.glob("*.yaml")))
    return [document for text in texts for document in yaml.safe_load_all(text)]


def test_every_object_has_a_place_to_be_created_at() -> None:
    kinds = {str(document["kind"]) for document in documents()} - {"Kustomization"}
    assert kinds <= set(permissions.PATHS)


def test_each_service_has_an_account() -> None:
    accounts = {str(d["metadata"]["name"]) for d in documents() if d["kind"] == "ServiceAccount"}  # type: ignore[index]
    assert {f"evenload-{name}" for name in ("annotator", "extender", "descheduler")} <= accounts


@pytest.mark.parametrize("service", ["annotator", "extender", "descheduler"])
def test_one_right_of_every_rule_is_awaited_before_a_service_starts(service: str) -> None:
    asked = permissions.rights(service)
    text = (permissions.FOLDER / f"{service}.yaml").read_text(encoding="utf-8")
    rules = [rule for document in yaml.safe_load_all(text) for rule in document.get("rules", [])]
    assert len(asked) == len(rules) > 0
    assert all(right["verb"] and right["resource"] for right in asked)


def test_a_right_is_asked_for_as_the_apiserver_reads_it() -> None:
    heartbeat = {"namespace": permissions.NAMESPACE, "verb": "get", "group": "", "resource": "configmaps"}
    assert {**heartbeat, "subresource": "", "name": "evenload-heartbeat"} in permissions.rights("extender")
