"""The guard's limits, keys and the accounts it watches are those that the services and their policy speak of."""

import json
import re

import pytest
import yaml

from annotator.publish import crane_keys
from descheduler.planning import protections
from descheduler.snapshot import pod_annotations
from kube.http import client
from policy.contract import load_annotation, relief_hint
from policy.schema.load_policy import LoadPolicy
from tests.unit.deploy.manifests import COMPONENTS, DEPLOY, SERVICES, Document, load, only

EVICTIONS, EVICTIONS_BINDING = load(DEPLOY / "guard" / "evictions.yaml")
PODS, PODS_BINDING = load(DEPLOY / "guard" / "pods.yaml")
NODES, NODES_BINDING = load(DEPLOY / "guard" / "nodes.yaml")
SCALES, SCALES_BINDING = load(DEPLOY / "guard" / "scales.yaml")
SURGES, SURGES_BINDING = load(COMPONENTS / "surge" / "guard.yaml")


def limit(name: str) -> str:
    """The expression of a variable."""
    (found,) = [str(one["expression"]) for one in EVICTIONS["spec"]["variables"] if one["name"] == name]
    return found


def test_the_limits_are_the_defaults_of_the_policy_file() -> None:
    protect = LoadPolicy.of({}).descheduler.protect
    shipped, own = limit("protectedNamespaces").rsplit(", ", 1)
    assert own == 'request.userInfo.username.split(":")[2]]'
    assert set(protect.namespaces) <= {*json.loads(f"{shipped}]"), "evenload-system"}
    assert f"{shipped}, {own}" == SCALES["spec"]["variables"][1]["expression"]
    assert int(limit("priorityAtLeast")) == protect.priority_at_least
    assert limit("minPodAge") == f'duration("{protect.min_pod_age_seconds / 60:.0f}m")'


@pytest.mark.parametrize("namespace", ["evenload-system", "load"])
@pytest.mark.parametrize(
    ("policy", "services"),
    [(NODES, {"annotator", "descheduler"}), *((one, {"descheduler"}) for one in (EVICTIONS, PODS, SCALES, SURGES))],
    ids=["nodes", "evictions", "pods", "scales", "surges"],
)
def test_it_watches_the_accounts_of_the_shipped_rights_in_every_namespace(
    policy: Document, services: set[str], namespace: str
) -> None:
    expression = policy["spec"]["matchConditions"][0]["expression"]
    (pattern,) = re.fullmatch(r'request\.userInfo\.username\.matches\("(.*)"\)', expression).groups()  # type: ignore[union-attr]
    held = set()
    for service in SERVICES:
        account = only(DEPLOY / "rbac" / f"{service}.yaml", "ServiceAccount")["metadata"]
        held |= {service} if re.search(pattern, f"system:serviceaccount:{namespace}:{account['name']}") else set()
    assert held == services


def test_label_and_annotations_are_the_ones_that_the_services_read_and_write() -> None:
    rules = " ".join(one["expression"] for one in EVICTIONS["spec"]["validations"])
    for key in (protections.PROTECTED_LABEL, *pod_annotations.EVICTABLE):
        assert f'"{key}"' in rules
    assert EVICTIONS["spec"]["matchConstraints"]["objectSelector"] == {"matchLabels": client.EVICTED_BY}
    ((key, value),) = client.EVICTED_BY.items()
    assert f'labels["{key}"].orValue("") == "{value}"' in PODS["spec"]["validations"][-1]["expression"]
    assert all(key.startswith("evenload.io/") for key in (load_annotation.KEY, relief_hint.KEY))


def test_the_component_crane_lets_the_annotator_write_all_of_cranes_keys_and_has_it_do_so() -> None:
    (component,) = load(COMPONENTS / "crane" / "kustomization.yaml")
    deployment, guard = (yaml.safe_load(one["patch"]) for one in component["patches"])
    assert deployment[-1]["value"] == "--crane-annotations"
    assert guard[0]["value"] == NODES["spec"]["variables"][0]["name"]
    assert json.loads(guard[1]["value"]) == list(crane_keys.KEYS.values())


def test_what_cannot_be_judged_is_refused() -> None:
    surge = ((SCALES, SCALES_BINDING), (SURGES, SURGES_BINDING))
    for policy, binding in ((EVICTIONS, EVICTIONS_BINDING), (PODS, PODS_BINDING), (NODES, NODES_BINDING), *surge):
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert EVICTIONS_BINDING["spec"]["paramRef"] == {"selector": {}, "parameterNotFoundAction": "Deny"}
