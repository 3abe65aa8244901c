"""Everything in deploy/rbac is applied, and each service has an account there."""

import yaml

from lab.cluster.demo import permissions


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


def test_every_rule_of_a_bound_role_is_waited_for_as_its_service_would_ask() -> None:
    rights = list(permissions.granted(documents()))
    user = "system:serviceaccount:evenload-system:evenload-descheduler"
    assert permissions.Right(user, "create", "", "pods/eviction") in rights
    lease = permissions.Right(user, "get", "coordination.k8s.io", "leases", "evenload-descheduler", "evenload-system")
    assert lease in rights
    bound = [one for one in documents() if str(one["kind"]).endswith("Binding")]
    assert len({(right.user, bool(right.namespace)) for right in rights}) == len(bound)


def test_a_review_asks_for_the_subresource_apart() -> None:
    asked = permissions.Right("jane", "create", "", "pods/eviction", namespace="shop").review()
    assert asked["user"] == "jane"
    assert asked["resourceAttributes"] == {
        "verb": "create",
        "group": "",
        "resource": "pods",
        "subresource": "eviction",
        "name": "",
        "namespace": "shop",
    }
