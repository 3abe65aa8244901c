"""The contract of kube.door.KubeDoor: one suite for the real apiserver and the simulated one."""

import contextlib
import functools
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Unpack

import pytest

from kube import errors, events, kinds, lease, objects
from kube.door import EvictionAnswer, KubeDoor, ScalesDoor, Selection, WatchEvent
from runtime import clock
from tests import builders, clocks

WATCH_SECONDS = 90


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"suite": "door"}}, "data": data}


def await_state(api: KubeDoor, kind: kinds.Kind[Any], namespace: str, ready: Any) -> Any:
    """The first object of a kind in a namespace for which `ready` holds, by list and watch; no sleeping."""
    listing = api.list(kind, namespace=namespace)
    for item in listing.items:
        if ready(item):
            return item
    watch = api.watch(
        kind, resource_version=listing.resource_version, namespace=namespace, timeout_seconds=WATCH_SECONDS
    )
    for event in watch:
        if event.object is not None and ready(event.object):
            watch.close()
            return event.object
    raise AssertionError(f"no {kind.name} in {namespace} came to the state awaited within {WATCH_SECONDS} s")


def changes(
    api: KubeDoor, kind: kinds.Kind[Any], version: str, count: int, **selection: Unpack[Selection]
) -> list[WatchEvent[Any]]:
    """So many changes after a version, without bookmarks."""
    watch = api.watch(kind, resource_version=version, timeout_seconds=WATCH_SECONDS, **selection)
    seen = [next(event for event in watch if event.type != "BOOKMARK") for _ in range(count)]
    watch.close()
    return seen


def elections(api: KubeDoor, namespace: str, at: clocks.ManualClock, *identities: str) -> Iterator[lease.Election]:
    """Candidates for the Lease `ours`, at a time that stands still: none runs out on a slow machine."""
    for name in identities:
        yield lease.Election(api, namespace=namespace, name="ours", identity=name, clock=at, rng=random.Random(7))


def running_pod(api: KubeDoor, namespace: str, name: str) -> objects.Pod:
    def plain(body: builders.Body) -> None:
        body["metadata"] = {"name": name, "labels": {"app": "web"}}
        del body["status"]

    api.create(kinds.PODS, builders.pod_body(name, mutate=plain), namespace=namespace)
    pod: objects.Pod = await_state(api, kinds.PODS, namespace, lambda pod: pod.name == name and pod.ready)
    return pod


class DoorSuite:
    """Inherit it and say in fixtures what `api` is, and what a `home` is: a namespace in which pods come to run."""

    quiet_seconds = 5  # for how long a watch without events is watched
    controllers = True  # whether workloads are observed

    @pytest.fixture
    def namespace(self, api: KubeDoor) -> Iterator[str]:
        """A fresh namespace."""
        name = f"door-{uuid.uuid4().hex[:8]}"
        api.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        yield name
        api.delete(kinds.NAMESPACES, name)

    def test_a_created_object_is_read_back_with_its_data(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one", at="now"), namespace=namespace)
        found = api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)
        assert (found.data, found.key, found.labels["suite"]) == ({"at": "now"}, f"{namespace}/one", "door")
        assert found.uid
        assert found.created_at_seconds > 1.7e9

    def test_creating_what_exists_is_a_conflict(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        with pytest.raises(errors.Conflict) as caught:
            api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        assert caught.value.status == 409
        assert "one" in str(caught.value)

    def test_an_undecodable_object_is_missing_and_costs_no_other(self, api: KubeDoor, namespace: str) -> None:
        """A time of the year 0, which the apiserver stores."""
        pod = objects.Reference(kind="Pod", name="web-1", namespace=namespace, uid="uid", api_version="v1")
        sound = builders.event_body(pod)
        before = api.list(kinds.EVENTS, namespace=namespace)
        for name, body in (("sound", sound), ("spoilt", {**sound, "eventTime": "0000-01-01T00:00:00.000000Z"})):
            named = {**body, "metadata": {"name": name, "namespace": namespace}}
            api.create(kinds.EVENTS, named, namespace=namespace)
        assert [one.name for one in api.list(kinds.EVENTS, namespace=namespace).items] == ["sound"]
        with pytest.raises(errors.Undecodable, match="Event spoilt"):
            api.get(kinds.EVENTS, "spoilt", namespace=namespace)
        told = changes(api, kinds.EVENTS, before.resource_version, 2, namespace=namespace)
        assert [(event.type, event.object and event.object.name) for event in told] == [
            ("ADDED", "sound"),
            ("DELETED", "spoilt"),
        ]

    def test_a_lease_with_an_impossible_time_keeps_its_holder(self, api: KubeDoor, namespace: str) -> None:
        spec = {"holderIdentity": "one", "renewTime": "0000-01-01T00:00:00.000000Z"}
        api.create(kinds.LEASES, {"metadata": {"name": "ours"}, "spec": spec}, namespace=namespace)
        (candidate,) = elections(api, namespace, held_still := clocks.ManualClock(), "two")
        candidate.attempt()
        assert (candidate.is_leader(), candidate.holder) == (False, "one")
        held_still.advance(15.1)
        candidate.attempt()
        assert candidate.is_leader()
        held = api.get(kinds.LEASES, "ours", namespace=namespace)
        assert (held.spec.holder_identity, held.undecodable) == ("two", "")

    def test_a_pod_that_cannot_be_decoded_is_read_in_part(self, api: KubeDoor, home: str) -> None:
        bound = running_pod(api, home, "web")
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}]
        api.merge_patch(kinds.PODS, "web", {"status": {"conditions": conditions}}, namespace=home, subresource="status")
        (listed,) = api.list(kinds.PODS, namespace=home).items
        for found in (listed, api.get(kinds.PODS, "web", namespace=home)):
            assert (found.uid, found.node_name, found.ready) == (bound.uid, bound.node_name, True)
            assert (found.undecodable, found.ready_since_seconds) == ("time", None)

    @pytest.mark.parametrize("verb", ["get", "patch", "replace", "delete"])
    def test_what_is_not_there_is_not_found(self, api: KubeDoor, namespace: str, verb: str) -> None:
        calls: dict[str, Callable[[], object]] = {
            "get": lambda: api.get(kinds.CONFIG_MAPS, "none", namespace=namespace),
            "patch": lambda: api.merge_patch(kinds.CONFIG_MAPS, "none", {"data": {}}, namespace=namespace),
            "replace": lambda: api.replace(
                kinds.CONFIG_MAPS, "none", {"metadata": {"name": "none", "resourceVersion": "1"}}, namespace=namespace
            ),
            "delete": lambda: api.delete(kinds.CONFIG_MAPS, "none", namespace=namespace),
        }
        with pytest.raises(errors.NotFound):
            calls[verb]()

    def test_a_body_that_breaks_the_schema_is_invalid(self, api: KubeDoor, namespace: str) -> None:
        with pytest.raises(errors.Invalid):
            api.create(kinds.CONFIG_MAPS, config_map("Not_A_Name"), namespace=namespace)
        with pytest.raises(errors.Invalid):
            api.create(kinds.CONFIG_MAPS, {"metadata": {"name": "a"}, "data": "text"}, namespace=namespace)

    def test_a_merge_patch_sets_keys_and_none_removes_them(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one", kept="1", gone="2"), namespace=namespace)
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"data": {"gone": None, "new": "3"}}, namespace=namespace)
        assert api.get(kinds.CONFIG_MAPS, "one", namespace=namespace).data == {"kept": "1", "new": "3"}

    def test_replacing_an_older_version_is_a_conflict(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        old = api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)
        body = {"metadata": {"name": "one", "resourceVersion": old.resource_version}, "data": {"turn": "1"}}
        api.replace(kinds.CONFIG_MAPS, "one", body, namespace=namespace)
        with pytest.raises(errors.Conflict):
            api.replace(kinds.CONFIG_MAPS, "one", {**body, "data": {"turn": "2"}}, namespace=namespace)
        assert api.get(kinds.CONFIG_MAPS, "one", namespace=namespace).data == {"turn": "1"}

    def test_dry_runs_leave_nothing_behind(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("ghost"), namespace=namespace, dry_run=True)
        api.create(kinds.CONFIG_MAPS, config_map("one", a="1"), namespace=namespace)
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"data": {"a": "2"}}, namespace=namespace, dry_run=True)
        api.delete(kinds.CONFIG_MAPS, "one", namespace=namespace, dry_run=True)
        found = api.list(kinds.CONFIG_MAPS, namespace=namespace, label_selector="suite=door").items
        assert [(one.name, one.data) for one in found] == [("one", {"a": "1"})]

    def test_deleting_by_uid_spares_a_namesake(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        with pytest.raises(errors.Conflict):
            api.delete(kinds.CONFIG_MAPS, "one", namespace=namespace, uid=str(uuid.uuid4()))
        api.delete(
            kinds.CONFIG_MAPS,
            "one",
            namespace=namespace,
            uid=api.get(kinds.CONFIG_MAPS, "one", namespace=namespace).uid,
        )
        with pytest.raises(errors.NotFound):
            api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)

    def test_a_list_comes_whole_however_small_the_pages(self, api: KubeDoor, namespace: str) -> None:
        for number in range(7):
            api.create(kinds.CONFIG_MAPS, config_map(f"map-{number}"), namespace=namespace)
        listing = api.list(kinds.CONFIG_MAPS, namespace=namespace, label_selector="suite=door", limit=3)
        assert [one.name for one in listing.items] == [f"map-{number}" for number in range(7)]
        assert int(listing.resource_version) > 0

    def test_a_list_from_the_cache_and_the_watch_that_goes_on_from_it_miss_nothing(
        self, api: KubeDoor, namespace: str
    ) -> None:
        wanted = {f"map-{number}" for number in range(7)}
        for name in wanted:
            api.create(kinds.CONFIG_MAPS, config_map(name), namespace=namespace)
        selection = {"namespace": namespace, "label_selector": "suite=door"}
        listing = api.list(kinds.CONFIG_MAPS, limit=3, from_cache=True, **selection)
        found = {one.name for one in listing.items}
        version = listing.resource_version
        watch = api.watch(kinds.CONFIG_MAPS, resource_version=version, timeout_seconds=WATCH_SECONDS, **selection)
        while found != wanted:
            event = next(watch)
            found |= {event.object.name} if event.object else set()
        watch.close()

    def test_an_empty_list_is_empty_and_has_a_version(self, api: KubeDoor, namespace: str) -> None:
        listing = api.list(kinds.BUDGETS, namespace=namespace)
        assert listing.items == ()
        assert listing.resource_version

    def test_field_selectors_choose_at_the_server(self, api: KubeDoor, namespace: str) -> None:
        for name in ("one", "two"):
            api.create(kinds.CONFIG_MAPS, config_map(name), namespace=namespace)
        found = api.list(kinds.CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=two").items
        assert [one.name for one in found] == ["two"]

    def test_label_selectors_mean_the_same_in_all_their_forms(self, api: KubeDoor, namespace: str) -> None:
        for name, labels in {"a": {"tier": "web", "n": "5"}, "b": {"tier": "db"}, "c": {"n": "7"}, "d": {}}.items():
            api.create(kinds.CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}}, namespace=namespace)
        ours = "metadata.name!=kube-root-ca.crt"  # which a real namespace has from some moment on
        texts = {
            "tier": "ab",
            "!tier": "cd",
            "tier=web": "a",
            "tier==web": "a",
            "tier!=web": "bcd",
            "tier in (web, db)": "ab",
            "tier notin (web)": "bcd",
            "n>5": "c",
            "n<7,tier": "a",
            "tier in (web,db), !n": "b",
            "tier=": "",
        }
        found = {
            text: "".join(one.name for one in listing.items)
            for text in texts
            for listing in [api.list(kinds.CONFIG_MAPS, namespace=namespace, label_selector=text, field_selector=ours)]
        }
        assert found == texts

    @pytest.mark.parametrize(
        "selection",
        [{"label_selector": "a in"}, {"label_selector": "a=b=c"}, {"field_selector": "data.a=b"}],
        ids=str,
    )
    def test_a_selector_that_is_none_is_invalid(self, api: KubeDoor, namespace: str, selection: dict[str, Any]) -> None:
        with pytest.raises(errors.Invalid):
            api.list(kinds.CONFIG_MAPS, namespace=namespace, **selection)

    def test_a_patch_that_changes_nothing_makes_no_new_version(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one", a="1"), namespace=namespace)
        before = api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"data": {"a": "1", "b": None}}, namespace=namespace)
        assert api.get(kinds.CONFIG_MAPS, "one", namespace=namespace) == before

    def test_a_patch_of_an_older_version_is_a_conflict_one_without_is_not(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        old = {"resourceVersion": api.get(kinds.CONFIG_MAPS, "one", namespace=namespace).resource_version}
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"metadata": old, "data": {"a": "1"}}, namespace=namespace)
        with pytest.raises(errors.Conflict):
            api.merge_patch(kinds.CONFIG_MAPS, "one", {"metadata": old, "data": {"a": "2"}}, namespace=namespace)
        assert api.get(kinds.CONFIG_MAPS, "one", namespace=namespace).data == {"a": "1"}

    def test_a_scale_is_patched_in_the_version_that_was_read(self, api: ScalesDoor, namespace: str) -> None:
        body = {"metadata": {"name": "web"}, "spec": builders.replica_set_body("web", replicas=0)["spec"]}
        api.create(kinds.REPLICA_SETS, body, namespace=namespace)
        await_state(api, kinds.REPLICA_SETS, namespace, lambda one: not self.controllers or not one.unobserved)
        scales = kinds.Kind("apis/apps/v1", "replicasets", "Scale", objects.Scale)
        scaled = functools.partial(api.merge_patch, kinds.REPLICA_SETS, "web", namespace=namespace, subresource="scale")
        before = api.scale(scales, "web", namespace=namespace)
        body = {"metadata": {"resourceVersion": before.resource_version}, "spec": {"replicas": 1}}
        scaled(body, dry_run=True)
        assert api.scale(scales, "web", namespace=namespace) == before
        scaled(body)
        after = api.scale(scales, "web", namespace=namespace)
        assert (after.spec.replicas, after.uid) == (1, before.uid)
        assert {one.manager for one in after.metadata.managed_fields} <= {"evenload"}
        with pytest.raises(errors.Conflict):
            scaled(body)

    def test_what_the_server_sets_no_writer_changes(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=namespace)
        before = api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)
        stolen = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"metadata": stolen, "data": {"a": "1"}}, namespace=namespace)
        after = api.get(kinds.CONFIG_MAPS, "one", namespace=namespace)
        assert (after.created_at_seconds, after.uid, after.data) == (before.created_at_seconds, before.uid, {"a": "1"})
        ending = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
        with pytest.raises(errors.Invalid):
            api.merge_patch(kinds.CONFIG_MAPS, "one", ending, namespace=namespace)
        other = {"name": "one", "uid": str(uuid.uuid4())}
        with pytest.raises(errors.Invalid):
            api.merge_patch(kinds.CONFIG_MAPS, "one", {"metadata": other}, namespace=namespace)
        with pytest.raises(errors.Conflict):
            api.replace(kinds.CONFIG_MAPS, "one", {"metadata": other}, namespace=namespace)

    def test_nothing_is_created_in_a_namespace_that_is_not_there(self, api: KubeDoor) -> None:
        with pytest.raises(errors.NotFound):
            api.create(kinds.CONFIG_MAPS, config_map("one"), namespace=f"none-{uuid.uuid4().hex[:8]}")

    @pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.plural)
    def test_every_kind_we_name_can_be_listed(self, api: KubeDoor, kind: kinds.Kind[objects.Object]) -> None:
        assert api.list(kind).resource_version

    def test_a_watch_tells_what_happened_since_the_list_in_order(self, api: KubeDoor, namespace: str) -> None:
        since = api.list(kinds.CONFIG_MAPS, namespace=namespace, label_selector="suite=door").resource_version
        api.create(kinds.CONFIG_MAPS, config_map("one", turn="1"), namespace=namespace)
        api.merge_patch(kinds.CONFIG_MAPS, "one", {"data": {"turn": "2"}}, namespace=namespace)
        api.delete(kinds.CONFIG_MAPS, "one", namespace=namespace)
        seen = changes(api, kinds.CONFIG_MAPS, since, 3, namespace=namespace, label_selector="suite=door")
        turns = [(event.type, event.object.data.get("turn")) for event in seen if event.object is not None]
        assert turns == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
        versions = [int(event.resource_version) for event in seen]
        assert versions == sorted(set(versions))

    def test_a_watch_by_label_sees_objects_enter_and_leave_its_selection(self, api: KubeDoor, namespace: str) -> None:
        api.create(kinds.CONFIG_MAPS, config_map("one", turn="1"), namespace=namespace)
        since = api.list(kinds.CONFIG_MAPS, namespace=namespace).resource_version
        for label, turn in (("other", "2"), ("door", "3"), ("door", "4")):
            body = {"metadata": {"labels": {"suite": label}}, "data": {"turn": turn}}
            api.merge_patch(kinds.CONFIG_MAPS, "one", body, namespace=namespace)
        seen = changes(api, kinds.CONFIG_MAPS, since, 3, namespace=namespace, label_selector="suite=door")
        turns = [(event.type, event.object.data["turn"]) for event in seen if event.object is not None]
        assert turns == [("DELETED", "1"), ("ADDED", "3"), ("MODIFIED", "4")]
        versions = [int(event.resource_version) for event in seen]
        assert versions == sorted(set(versions))

    def test_a_quiet_watch_gets_bookmarks_and_ends_when_its_time_is_over(self, api: KubeDoor, namespace: str) -> None:
        since = api.list(kinds.CONFIG_MAPS, namespace=namespace, label_selector="suite=none").resource_version
        watch = api.watch(
            kinds.CONFIG_MAPS,
            resource_version=since,
            namespace=namespace,
            label_selector="suite=none",
            timeout_seconds=self.quiet_seconds,
        )
        seen = list(watch)
        assert {event.type for event in seen} <= {"BOOKMARK"}
        assert all(event.object is None and event.resource_version for event in seen)

    def test_a_watch_closed_by_another_thread_ends_its_reader(self, api: KubeDoor, namespace: str) -> None:
        since = api.list(kinds.CONFIG_MAPS, namespace=namespace).resource_version
        watch = api.watch(kinds.CONFIG_MAPS, resource_version=since, namespace=namespace, label_selector="suite=none")
        ended = threading.Event()

        def read() -> None:
            for _event in watch:
                pass
            ended.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        watch.close()
        watch.close()
        assert ended.wait(WATCH_SECONDS)
        assert list(watch) == []

    def test_nodes_and_pods_decode_with_what_the_services_read(self, api: KubeDoor, home: str) -> None:
        node = api.list(kinds.NODES).items[0]
        assert node.ready
        assert node.allocatable.cpu_millicores >= 1000
        assert any(address.type == "InternalIP" for address in node.addresses)
        pod = running_pod(api, home, "web-1")
        assert (pod.phase, pod.status.qos_class, pod.owner) == ("Running", "Burstable", None)
        assert pod.requests.cpu_millicores == 250.0
        assert pod.node_name in {one.name for one in api.list(kinds.NODES).items}
        assert pod.scheduled_at_seconds is not None

    def test_a_pod_is_created_with_what_the_services_rely_on(self, api: KubeDoor, home: str) -> None:
        container = {"name": "main", "image": "pause", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
        spec = {"containers": [container], "schedulerName": "nobody"}
        api.create(kinds.PODS, {"metadata": {"name": "web-1"}, "spec": spec}, namespace=home)
        pod = api.get(kinds.PODS, "web-1", namespace=home)
        assert (pod.phase, pod.status.qos_class, pod.priority, pod.preempts) == ("Pending", "Guaranteed", 0, True)
        assert (pod.requests.cpu_millicores, pod.requests.memory_bytes) == (1000.0, 2.0**30)
        tolerated = {(one.key, one.effect, one.toleration_seconds) for one in pod.tolerations}
        lost = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        assert tolerated == {(key, "NoExecute", 300) for key in lost}
        unknown = {"metadata": {"name": "web-2"}, "spec": {**spec, "priorityClassName": "none"}}
        with pytest.raises(errors.Forbidden):
            api.create(kinds.PODS, unknown, namespace=home)
        api.delete(kinds.PODS, "web-1", namespace=home)  # nobody runs it, so it needs no grace
        with pytest.raises(errors.NotFound):
            api.get(kinds.PODS, "web-1", namespace=home)

    def test_an_eviction_takes_the_pod_and_a_dry_run_does_not(self, api: KubeDoor, home: str) -> None:
        pod = running_pod(api, home, "web-1")
        assert api.evict(namespace=home, name=pod.name, uid=pod.uid, dry_run=True).accepted
        assert not api.get(kinds.PODS, pod.name, namespace=home).deleting
        assert api.evict(namespace=home, name=pod.name, uid=pod.uid, dry_run=False).accepted
        try:
            assert api.get(kinds.PODS, pod.name, namespace=home).deleting
        except errors.NotFound:
            assert not api.list(kinds.PODS, namespace=home).items

    def test_an_evicted_pod_has_the_grace_period_of_the_eviction_or_its_own(self, api: KubeDoor, home: str) -> None:
        for name, wanted, granted in (("own", None, 30), ("shorter", 4.2, 5), ("longer", 45.0, 45)):
            pod = running_pod(api, home, name)
            at = api.list(kinds.PODS, namespace=home).resource_version
            api.evict(namespace=home, name=name, uid=pod.uid, dry_run=False, grace_period_seconds=wanted)
            with contextlib.closing(api.watch(kinds.PODS, resource_version=at, namespace=home)) as watch:
                leaving = next(one.object for one in watch if one.object is not None and one.object.deleting)
            assert (leaving.name, leaving.metadata.deletion_grace_period_seconds) == (name, granted)

    def test_evictions_that_cannot_be_are_answers(self, api: KubeDoor, home: str) -> None:
        gone = api.evict(namespace=home, name="none", uid="", dry_run=False)
        assert (gone.accepted, gone.status) == (False, 404)
        pod = running_pod(api, home, "web-1")
        namesake = api.evict(namespace=home, name=pod.name, uid=str(uuid.uuid4()), dry_run=False)
        assert (namesake.accepted, namesake.status) == (False, 409)
        assert not api.get(kinds.PODS, pod.name, namespace=home).deleting

    @pytest.mark.parametrize("dry_run", [True, False], ids=["asked as a dry run", "for real"])
    def test_an_eviction_of_a_pod_that_has_changed_is_a_conflict(self, api: KubeDoor, home: str, dry_run: bool) -> None:
        running_pod(api, home, "web-1")
        seen = api.get(kinds.PODS, "web-1", namespace=home)
        api.merge_patch(
            kinds.PODS, "web-1", {"metadata": {"labels": {"evenload.io/protected": "true"}}}, namespace=home
        )
        now = api.get(kinds.PODS, "web-1", namespace=home)

        def eviction_answer(pod: objects.Pod) -> EvictionAnswer:
            version = pod.resource_version
            return api.evict(namespace=home, name="web-1", uid=pod.uid, resource_version=version, dry_run=dry_run)

        assert (eviction_answer(seen).accepted, eviction_answer(seen).status) == (False, 409)
        assert not api.get(kinds.PODS, "web-1", namespace=home).deleting
        assert eviction_answer(now).accepted

    @pytest.mark.parametrize("dry_run", [True, False], ids=["asked as a dry run", "for real"])
    def test_a_budget_refuses_an_eviction_and_says_which(self, api: KubeDoor, home: str, dry_run: bool) -> None:
        pod = running_pod(api, home, "web-1")
        body = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
        api.create(kinds.BUDGETS, body, namespace=home)
        await_state(api, kinds.BUDGETS, home, lambda one: one.is_current)
        answer = api.evict(namespace=home, name=pod.name, uid=pod.uid, dry_run=dry_run)
        assert (answer.accepted, answer.status, answer.reason) == (False, 429, "DisruptionBudget")
        assert "web" in answer.message
        assert not api.get(kinds.PODS, pod.name, namespace=home).deleting

    def test_budgets_count_pods_and_allow_what_is_over(self, api: KubeDoor, home: str) -> None:
        pods = [running_pod(api, home, f"web-{number}") for number in (1, 2)]
        selector = {"selector": {"matchLabels": {"app": "web"}}}
        counted = {"metadata": {"name": "counted"}, "spec": {"minAvailable": 1, **selector}}
        api.create(kinds.BUDGETS, counted, namespace=home)

        def figures(budget: objects.DisruptionBudget) -> tuple[int, int, int, int]:
            status = budget.status
            return status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed

        await_state(api, kinds.BUDGETS, home, lambda one: figures(one) == (2, 2, 1, 1))
        assert api.evict(namespace=home, name=pods[0].name, uid=pods[0].uid, dry_run=False).accepted
        refused = api.evict(namespace=home, name=pods[1].name, uid=pods[1].uid, dry_run=False)
        assert (refused.status, refused.of_budget) == (429, True)
        await_state(api, kinds.BUDGETS, home, lambda one: figures(one) == (1, 1, 1, 0))
        api.delete(kinds.BUDGETS, "counted", namespace=home)
        scaled = {"metadata": {"name": "scaled"}, "spec": {"maxUnavailable": 1, **selector}}
        api.create(kinds.BUDGETS, scaled, namespace=home)  # of an owner's replicas, and these pods have no owner
        found = await_state(api, kinds.BUDGETS, home, lambda one: one.name == "scaled" and one.is_current)
        assert found.status.disruptions_allowed == 0
        assert not api.evict(namespace=home, name=pods[1].name, uid=pods[1].uid, dry_run=False).accepted

    def test_an_event_in_the_wrong_namespace_is_invalid(self, api: KubeDoor, namespace: str) -> None:
        node = events.reference(kinds.NODES, api.list(kinds.NODES).items[0])
        body = {**builders.event_body(node), "metadata": {"generateName": "a-"}}
        with pytest.raises(errors.Invalid):
            api.create(kinds.EVENTS, body, namespace=namespace)
        with pytest.raises(errors.Invalid):
            api.create(kinds.EVENTS, {**body, "note": "x" * 1025}, namespace="default")

    def test_events_about_a_pod_and_a_node_are_taken(self, api: KubeDoor, namespace: str) -> None:
        writer = events.EventWriter(api, controller="evenload.io/test", instance=namespace, clock=clock.WallClock())
        pod = objects.Reference(kind="Pod", name="web-1", namespace=namespace, uid=str(uuid.uuid4()), api_version="v1")
        node = events.reference(kinds.NODES, api.list(kinds.NODES).items[0])
        about = events.Reason.NODE_OVERLOADED
        writer.write(about, "é" * 2000, regarding=pod, related=node, action="Evict", annotations={"a": "b"})
        note = f"nowhere in {namespace}"  # the namespace of a Node's Events is everybody's
        writer.write(events.Reason.NO_FITTING_NODE, note, regarding=node, action="Plan", warning=True)
        (found,) = api.list(kinds.EVENTS, namespace=namespace).items
        assert (found.reason, found.type, found.regarding.name) == ("NodeOverloaded", "Normal", "web-1")
        assert found.related == node
        ours = [one for one in api.list(kinds.EVENTS, namespace="default").items if one.note == note]
        assert [(one.reason, one.regarding.kind) for one in ours] == [("NoFittingNode", "Node")]

    def test_of_two_candidates_one_leads_and_the_other_follows_on_release(self, api: KubeDoor, namespace: str) -> None:
        first, second = elections(api, namespace, clocks.ManualClock(), "first", "second")
        first.attempt()
        second.attempt()
        assert (first.is_leader(), second.is_leader(), second.holder) == (True, False, "first")
        stop = threading.Event()
        stop.set()
        first.run(stop)
        second.attempt()
        assert (first.is_leader(), second.is_leader()) == (False, True)
        held = api.get(kinds.LEASES, "ours", namespace=namespace)
        assert (held.spec.holder_identity, held.spec.lease_transitions) == ("second", 1)

    def test_a_deleted_lease_is_created_again_by_its_holder_alone(self, api: KubeDoor, namespace: str) -> None:
        holder, other = elections(api, namespace, held_still := clocks.ManualClock(), "holder", "other")
        holder.attempt()
        other.attempt()
        for _ in range(3):
            api.delete(kinds.LEASES, "ours", namespace=namespace)
            other.attempt()
            assert (holder.is_leader(), other.is_leader()) == (True, False)
            holder.attempt()
            held = api.get(kinds.LEASES, "ours", namespace=namespace)
            assert (holder.is_leader(), held.spec.holder_identity) == (True, "holder")
        api.delete(kinds.LEASES, "ours", namespace=namespace)
        other.attempt()
        held_still.advance(15.1)
        other.attempt()  # creates it
        other.attempt()
        assert (holder.is_leader(), other.is_leader()) == (False, True)
