"""Fields of every Kubernetes object: metadata, an owner, conditions.

The base of the structs in `kube.api.nodes`, `kube.api.pods` and the rest; `kube.objects` lists them all. Times are
decoded as datetimes and given as Unix seconds by properties.
"""

import datetime
from typing import ClassVar

import msgspec

from kube.api import identifiers

Moment = datetime.datetime | None
LONGEST_OWNER = identifiers.LONGEST_NAME * 2 + identifiers.LONGEST_LABEL * 2 + identifiers.LONGEST_UID


def seconds(moment: Moment) -> float | None:
    """Unix seconds of a decoded time, or None."""
    return None if moment is None else moment.timestamp()


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Owner reference as the object's author wrote it: kube-apiserver only requires that no field of it is empty."""

    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether it is no longer than a real owner's can be."""
        return len(self.kind) + len(self.name) + len(self.uid) + len(self.api_version) <= LONGEST_OWNER

    @property
    def is_possible(self) -> bool:
        """Whether an object can have this kind, name, uid and API version."""
        return (
            identifiers.is_kind(self.kind)
            and identifiers.is_name(self.name)
            and identifiers.is_uid(self.uid)
            and (not self.api_version or identifiers.is_api_version(self.api_version))
        )

    @property
    def is_daemonset(self) -> bool:
        """Whether it says that it is one of Kubernetes' own DaemonSets."""
        return self.kind == "DaemonSet" and self.api_version.startswith("apps/")


def controller(references: tuple[OwnerReference, ...]) -> OwnerReference | None:
    """The controlling owner (controller: true) as it is written, or None for a bare object."""
    for one in references:  # a generator takes three times as long, and this is asked often
        if one.controller:
            return one
    return None


class Identity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of metadata that says which object it is, in which version, whose, and whether it is going away."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: Moment = None
    owner_references: tuple[OwnerReference, ...] = ()


class LabelledMetadata(Identity, frozen=True, gc=False, rename="camel"):
    """The part of metadata that is read of most kinds. Annotations are not: they are up to 256 KB of an object, and
    watches keep thousands of owners and budgets.
    """

    generation: int = 0
    creation_timestamp: Moment = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}


class Metadata(LabelledMetadata, frozen=True, gc=False, rename="camel"):
    """The part of metadata that is read of nodes and pods."""

    annotations: dict[str, str] = {}


class IdentifiedObject(msgspec.Struct, frozen=True, kw_only=True):
    """Any object, as far as watching it needs: what doors, stores and reflectors handle.

    Kinds that are kept by the hundred thousand are made from it directly and decode only what their one reader needs
    (`kube.pods.compact`); all others are an `Object`.
    """

    counts_in_part: ClassVar[bool] = False  # although it cannot be decoded whole (`kube.api.salvage`)
    metadata: Identity = Identity()

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """metadata.namespace, "" for cluster-wide kinds."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """ "namespace/name", or just the name of a cluster-wide object: how reflectors index."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    @property
    def resource_version(self) -> str:
        """metadata.resourceVersion."""
        return self.metadata.resource_version

    @property
    def deleting(self) -> bool:
        """Whether a deletionTimestamp is set: it is going away."""
        return self.metadata.deletion_timestamp is not None

    @property
    def grace_ends_at_seconds(self) -> float | None:
        """When the grace period of its deletion ends (deletionTimestamp); None while it is not being deleted."""
        return seconds(self.metadata.deletion_timestamp)

    @property
    def owner(self) -> OwnerReference | None:
        """The controlling owner (controller: true), or None for a bare object."""
        return controller(self.metadata.owner_references)


class Object(IdentifiedObject, frozen=True, kw_only=True):
    """Any object with its metadata flattened, without annotations."""

    metadata: LabelledMetadata = LabelledMetadata()

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels; do not change it."""
        return self.metadata.labels

    @property
    def created_at_seconds(self) -> float:
        """Unix seconds; 0.0 where the apiserver has not set it."""
        return seconds(self.metadata.creation_timestamp) or 0.0


class AnnotatedObject(Object, frozen=True, kw_only=True):
    """An object with its annotations: a node or a pod."""

    metadata: Metadata = Metadata()

    @property
    def annotations(self) -> dict[str, str]:
        """metadata.annotations; do not change it."""
        return self.metadata.annotations


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of status.conditions."""

    type: str
    status: str
    reason: str = ""
    last_transition_time: Moment = None


def holding(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of a type if its status is True, else None: Unknown and absent do not hold."""
    for one in conditions:
        if one.type == kind and one.status == "True":
            return one
    return None


def holding_since_seconds(conditions: tuple[Condition, ...], kind: str) -> float | None:
    """When the condition became True, in Unix seconds; None while it is not."""
    condition = holding(conditions, kind)
    return None if condition is None else seconds(condition.last_transition_time)
