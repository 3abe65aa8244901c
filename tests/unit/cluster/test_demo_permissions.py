"""Everything in deploy/rbac is applied, and each service has an account there."""

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
