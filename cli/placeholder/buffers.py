"""Room that an autoscaler keeps free, instead of pods that hold it: a CapacityBuffer and the PodTemplate of its name.

`size` sets a buffer's number; `status` reads what the autoscaler says of it, as if there were pods. No pod exists, so
none is preempted, and none is on a node that anybody could name.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

import msgspec

from cli.common import output
from kube import door, errors, kinds, objects

API: Final = "autoscaling.x-k8s.io/v1beta1"
SELECTOR: Final = "evenload.io/placeholder-set"
ANYWHERE: Final = "*"  # the node of a buffer's pods that have room
PROVISIONING: Final = "Provisioning"


class PodTemplate(objects.Object, frozen=True, kw_only=True):
    """The template of pods that are never made."""

    template: objects.Pod = objects.Pod()


class Numbers(msgspec.Struct, frozen=True):
    """Spec of a CapacityBuffer, which has no conditions, or its status, which the autoscaler writes."""

    replicas: int = 0
    conditions: tuple[objects.Condition, ...] = ()


class CapacityBuffer(objects.Object, frozen=True, kw_only=True):
    """A buffer of so many pods' room."""

    spec: Numbers = Numbers()
    status: Numbers = Numbers()

    @property
    def provided(self) -> int:
        """How many of its pods have room, as the condition Provisioning says: all that it counts, or none."""
        holds = any(one.type == PROVISIONING and one.status == "True" for one in self.status.conditions)
        return min(self.status.replicas, self.spec.replicas) if holds else 0

    def pods(self, template: objects.Pod) -> list[objects.Pod]:
        """The pods that it stands for; those without room wait since that was said, or since it was created."""
        changes = [one.last_transition_time for one in self.status.conditions if one.type == PROVISIONING]
        since = (*changes, self.metadata.creation_timestamp)[0]
        metadata = msgspec.structs.replace(template.metadata, name=self.name, creation_timestamp=since)
        waiting = msgspec.structs.replace(template, metadata=metadata)
        roomy = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(template.spec, node_name=ANYWHERE))
        return [roomy] * self.provided + [waiting] * (self.spec.replicas - self.provided)

    def remark(self) -> str:
        """Why some of its pods have no room, and the next step."""
        against = [f"{one.type} {one.status} ({one.reason})" for one in self.status.conditions if one.status != "True"]
        why = ", ".join(against) or f"no autoscaler has written {PROVISIONING} of all"
        return f"{self.key}: {why}; next: kubectl describe capacitybuffer {self.name} -n {self.namespace}"


TEMPLATES: Final = kinds.Kind("api/v1", "podtemplates", "PodTemplate", PodTemplate)
BUFFERS: Final = kinds.Kind(f"apis/{API}", "capacitybuffers", "CapacityBuffer", CapacityBuffer)


def read(kube: door.KubeDoor, namespace: str) -> list[tuple[CapacityBuffer, objects.Pod]]:
    """The sets of placeholders of a namespace ("": of all) that are buffers, each with its template."""
    with served():
        buffers = kube.list(BUFFERS, namespace=namespace, label_selector=SELECTOR).items
    listed = kube.list(TEMPLATES, namespace=namespace, label_selector=SELECTOR)
    templates = {one.key: one.template for one in listed.items}
    return [(one, templates.get(one.key, objects.Pod())) for one in sorted(buffers, key=lambda buffer: buffer.key)]


@contextlib.contextmanager
def served() -> Iterator[None]:
    """Ends the command where the apiserver knows no CapacityBuffer, with what is missing and the next step."""
    try:
        yield
    except errors.NotFound as error:
        if error.message.endswith('" not found'):  # an object of that name is missing, not the API
            raise
        output.fail(
            f"this cluster does not serve CapacityBuffer of {API}: install the CRD of an autoscaler that acts on it "
            "(docs/how-to/hold-room.md), or hold room by pods: --as pods, size --deployment"
        )
