"""The objects above the pods: Deployments with their ReplicaSets, StatefulSets, Jobs, budgets, and what they count.

`owners` says how many replicas are wanted and what became of pods; the objects come with the first replica of a
workload and go with its last. Their replicas and statuses are written when somebody is about to read them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from kube import kinds
from simulator.apiserver import ApiServer, merge_patch
from simulator.controllers import objects
from simulator.controllers.objects import SelectedPods
from simulator.scenario import Owner


@dataclasses.dataclass(slots=True)
class ReplicaCounts:
    """An object that says how many pods it wants and has."""

    kind: kinds.Kind[Any]
    name: str
    namespace: str
    reference: objects.Body  # as its children name it
    selected: SelectedPods
    wanted: int = 0
    pods: int = 0
    ready: int = 0
    generation: int = 1
    written: tuple[int, int, int] = (0, 0, 0)
    gone: bool = False


@dataclasses.dataclass(slots=True)
class Workload:
    """All that one name stands for; of a bare pod there is no object."""

    number: int
    owner: Owner  # the first of its versions
    object: ReplicaCounts | None
    wanted: int = 0


class Template(NamedTuple):
    """A pod template: metadata without a name, and the spec as sent to the apiserver."""

    metadata: objects.Body
    spec: bytes


@dataclasses.dataclass(slots=True)
class Version:
    """An owner of the scenario: replicas that are made alike. `counting` are the objects above, the nearest first."""

    owner: Owner
    workload: Workload
    selected: SelectedPods
    counting: tuple[ReplicaCounts, ...]
    wanted: int = 0
    templates: dict[str, Template] = dataclasses.field(default_factory=dict)

    def template(self, node: str) -> Template:
        """Returns the template of the workload's pods; `node` is a DaemonSet's, else ""."""
        if node not in self.templates:
            reference = None if self.above is None else self.above.reference
            metadata = objects.pod_metadata(self.owner, self.selected, reference)
            self.templates[node] = Template(metadata, merge_patch.text(objects.pod_spec(self.owner, node)))
        return self.templates[node]

    @property
    def above(self) -> ReplicaCounts | None:
        """Returns the owner of the pods; None for bare pods."""
        return self.counting[0] if self.counting else None


class Workloads:
    """See the module. Owners are named by their index in the scenario."""

    def __init__(self, api: ApiServer, owners: Sequence[Owner]) -> None:
        self._api = api
        self._owners = owners
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._workloads: dict[int, Workload] = {}
        self._versions: dict[int, Version] = {}
        self._unwritten: dict[int, ReplicaCounts] = {}
        self._writing = False
        self._served = set(objects.KNOWN)
        api.serve(objects.DAEMON_SETS)
        for kind in objects.KNOWN.values():
            api.before_reading(kind, self._write)

    def want(self, index: int) -> Version:
        """One replica more of an owner, whose objects are made where there are none."""
        version = self._versions.get(index) or self._new_version(index)
        self.count(version, wanted=1)
        return version

    def drop(self, index: int) -> None:
        """One replica less; with the last one the objects go."""
        version = self._versions[index]
        self.count(version, wanted=-1)
        if not version.wanted:
            self._remove_version(index, version)

    def count(self, version: Version, *, wanted: int = 0, pods: int = 0, ready: int = 0) -> None:
        """So many replicas and pods more (or less, where negative), and so many of them Ready."""
        version.wanted += wanted
        version.workload.wanted += wanted
        for one in version.counting:
            one.wanted += wanted
            one.pods += pods
            one.ready += ready
            self._unwritten[id(one)] = one

    def _new_version(self, index: int) -> Version:
        owner = self._owners[index]
        workload = self._workload(owner)
        selected = SelectedPods(workload.number, kind=owner.kind)
        counting: tuple[ReplicaCounts, ...] = () if workload.object is None else (workload.object,)
        if owner.kind == kinds.DEPLOYMENTS.name and workload.object is not None:
            selected = SelectedPods(workload.number, objects.template_hash(owner, index))
            counting = (self._replica_set(owner, selected, workload.object.reference), workload.object)
        self._versions[index] = Version(owner, workload, selected, counting)
        return self._versions[index]

    def _replica_set(self, owner: Owner, selected: SelectedPods, above: objects.Body) -> ReplicaCounts:
        body = objects.replica_set(owner, selected, above)
        self._api.create(kinds.REPLICA_SETS, body, namespace=owner.namespace)
        return self._counted(kinds.REPLICA_SETS, body["metadata"]["name"], owner.namespace, selected)

    def _workload(self, owner: Owner) -> Workload:
        number = self._numbers.setdefault((owner.namespace, owner.kind, owner.name), len(self._numbers))
        if number not in self._workloads:
            self._ensure(kinds.NAMESPACES, {"metadata": {"name": owner.namespace}})
            self._workloads[number] = Workload(number, owner, self._object(owner, number))
            if owner.min_available is not None:
                body = objects.budget(owner, _budget_name(owner), number)
                self._api.create(kinds.BUDGETS, body, namespace=owner.namespace)
        name = objects.priority_class(owner.priority)
        if name:
            self._ensure(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": owner.priority})
        return self._workloads[number]

    def _object(self, owner: Owner, number: int) -> ReplicaCounts | None:
        kind = objects.kind_of(owner)
        if kind is None:
            return None
        if kind.name not in self._served:
            self._served.add(kind.name)
            self._api.serve(kind, scale=True)
            self._api.before_reading(kind, self._write)
        self._api.create(kind, objects.workload(owner, number), namespace=owner.namespace)
        return self._counted(kind, owner.name, owner.namespace, SelectedPods(number, kind=owner.kind))

    def _counted(self, kind: kinds.Kind[Any], name: str, namespace: str, selected: SelectedPods) -> ReplicaCounts:
        uid = self._api.body(kind, name, namespace=namespace)["metadata"]["uid"]
        return ReplicaCounts(kind, name, namespace, objects.reference(kind, name, uid), selected)

    def _ensure(self, kind: kinds.Kind[Any], body: objects.Body) -> None:
        if not self._api.body(kind, body["metadata"]["name"]):
            self._api.create(kind, body)

    def _remove_version(self, index: int, version: Version) -> None:
        del self._versions[index]
        for one in version.counting:
            if one is not version.workload.object:
                self._remove(one)
        workload, owner = version.workload, version.workload.owner
        if workload.wanted:
            return
        del self._workloads[workload.number]
        if workload.object is not None:
            self._remove(workload.object)
        if owner.min_available is not None:
            self._api.remove(kinds.BUDGETS, _budget_name(owner), namespace=owner.namespace)

    def _remove(self, counts: ReplicaCounts) -> None:
        counts.gone = True
        self._api.remove(counts.kind, counts.name, namespace=counts.namespace)

    def _write(self) -> None:
        if self._writing:
            return
        self._writing = True
        try:
            while self._unwritten:
                _, one = self._unwritten.popitem()
                counts = (one.wanted, one.pods, one.ready)
                if not one.gone and counts != one.written:  # pods that end may outlive what counted them
                    one.generation += one.wanted != one.written[0]
                    one.written = counts
                    self._write_one(one)
        finally:
            self._writing = False

    def _write_one(self, counts: ReplicaCounts) -> None:
        parts = {
            "metadata": {"generation": counts.generation},
            "spec": objects.size(counts.selected, counts.wanted),
            "status": objects.standing(counts.selected.kind, counts.pods, counts.ready, counts.generation),
        }
        self._api.rewrite(counts.kind, counts.name, parts, namespace=counts.namespace)


def _budget_name(owner: Owner) -> str:
    return f"{owner.kind.lower() or 'pod'}-{owner.name}"
