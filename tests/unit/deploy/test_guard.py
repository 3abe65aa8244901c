"""The guard's limits, keys and the account it watches are those that the descheduler and its policy speak of.

What the expressions do is proved on the real apiserver (tests/contract/test_guard.py).
"""

import json
import pathlib
from typing import Any

import yaml

from descheduler import keys, protections
from policy.schema import LoadPolicy

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
Document = dict[str, Any]


def documents(path: str) -> list[Document]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8")))


EVICTIONS, EVICTIONS_BINDING = documents("guard/evictions.yaml")
DELETIONS, DELETIONS_BINDING = documents("guard/deletions.yaml")


def limit(name: str) -> str:
    """The expression of a variable."""
    (found,) = [str(one["expression"]) for one in EVICTIONS["spec"]["variables"] if one["name"] == name]
    return found


def test_the_limits_are_the_defaults_of_the_policy_file() -> None:
    protect = LoadPolicy.of({}).descheduler.protect
    assert set(protect.namespaces) <= set(json.loads(limit("protectedNamespaces")))
    assert int(limit("priorityAtLeast")) == protect.priority_at_least
    assert limit("minPodAge") == f'duration("{protect.min_pod_age_seconds / 60:.0f}m")'


def test_it_watches_the_account_of_the_shipped_rights() -> None:
    account = next(one for one in documents("rbac/descheduler.yaml") if one["kind"] == "ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    for policy in (EVICTIONS, DELETIONS):
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"] == f'request.userInfo.username == "{user}"'


def test_label_and_annotations_are_the_ones_that_the_descheduler_reads() -> None:
    rules = " ".join(one["expression"] for one in EVICTIONS["spec"]["validations"])
    for key in (protections.PROTECTED_LABEL, *keys.EVICTABLE):
        assert f'"{key}"' in rules


def test_what_cannot_be_judged_is_refused() -> None:
    for policy, binding in ((EVICTIONS, EVICTIONS_BINDING), (DELETIONS, DELETIONS_BINDING)):
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert EVICTIONS_BINDING["spec"]["paramRef"] == {"selector": {}, "parameterNotFoundAction": "Deny"}
