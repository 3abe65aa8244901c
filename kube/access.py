"""Access reviews: may an account do something? Asked of the apiserver itself, which answers by the RBAC in force.

`evenload doctor` asks for the person at the keyboard (SelfSubjectAccessReview) and for the services' ServiceAccounts
(SubjectAccessReview, for which the asker needs a right of its own). Nothing is stored by asking. The services never
come here: they try, and say what was forbidden.
"""

from typing import NamedTuple

import msgspec

from kube.api.metadata import Object
from kube.http.client import Client
from kube.kinds import Kind


class Access(NamedTuple):
    """One right, in RBAC's words; `resource` may be "pods/eviction", the group "" is the core's, name "" is any."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """`list nodes`, `get configmaps/evenload-heartbeat in evenload-system`, `create leases.coordination.k8s.io`."""
        named = f"/{self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{named}{where}"


class Status(msgspec.Struct, frozen=True):
    """The apiserver's answer."""

    allowed: bool = False


class Review(Object, frozen=True, kw_only=True):
    """A SelfSubjectAccessReview or SubjectAccessReview as it comes back."""

    status: Status = Status()


_PATH = "apis/authorization.k8s.io/v1"
SELF_REVIEWS = Kind(_PATH, "selfsubjectaccessreviews", "SelfSubjectAccessReview", Review, namespaced=False)
REVIEWS = Kind(_PATH, "subjectaccessreviews", "SubjectAccessReview", Review, namespaced=False)


def may_i(client: Client, access: Access) -> bool:
    """Whether the caller has a right."""
    return client.review(SELF_REVIEWS, {"spec": {"resourceAttributes": _attributes(access)}}).status.allowed


def may_account(client: Client, access: Access, *, namespace: str, name: str) -> bool:
    """Whether a ServiceAccount has a right, by its user name and its groups; Forbidden when the caller may not ask."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    spec = {
        "user": f"system:serviceaccount:{namespace}:{name}",
        "groups": groups,
        "resourceAttributes": _attributes(access),
    }
    return client.review(REVIEWS, {"spec": spec}).status.allowed


def _attributes(access: Access) -> dict[str, str]:
    resource, _, subresource = access.resource.partition("/")
    attributes = access._asdict() | {"resource": resource, "subresource": subresource}
    return {key: value for key, value in attributes.items() if value}
