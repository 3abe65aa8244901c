"""Limits of Kubernetes on identifiers: names, namespaces, kinds, API versions, uids.

kube-apiserver checks an object's own name by them, but hardly anything of an ownerReference, which its author writes:
any text up to the size of the object passes. `kube.api.metadata` reads owners by these limits, and callers that build a
request path of a reference check it here first. Pure functions of text; no other module of `kube` is imported.

The limits are apimachinery's (util/validation, CustomResourceDefinition names):

| identifier | limit |
|---|---|
| name | DNS-1123 subdomain, 253 characters |
| namespace | DNS-1123 label, 63 characters |
| API version | VERSION or GROUP/VERSION: a DNS-1035 label, a DNS-1123 subdomain |
| kind | a DNS-1035 label but for its capitals, 63 characters |
| uid | 36 characters; other API servers may write others, so up to 128 of any that need no escaping |
"""

import re
from typing import Final

LONGEST_NAME: Final = 253
LONGEST_LABEL: Final = 63
LONGEST_UID: Final = 128

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE: Final = re.compile(_LABEL)
_VERSION: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?")
_UID: Final = re.compile(r"[A-Za-z0-9](?:[-._A-Za-z0-9]*[A-Za-z0-9])?")


def is_name(text: str) -> bool:
    """Whether a workload, a node or an API group can have this name."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether a namespace can have this name."""
    return len(text) <= LONGEST_LABEL and _NAMESPACE.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Whether a kind can have this name: "ReplicaSet"."""
    return len(text) <= LONGEST_LABEL and _KIND.fullmatch(text) is not None


def is_api_version(text: str) -> bool:
    """Whether an API version is written so: "v1", "apps/v1"."""
    group, slash, version = text.rpartition("/")
    if slash and not is_name(group):
        return False
    return len(version) <= LONGEST_LABEL and _VERSION.fullmatch(version) is not None


def is_uid(text: str) -> bool:
    """Whether an object can have this uid."""
    return len(text) <= LONGEST_UID and _UID.fullmatch(text) is not None
