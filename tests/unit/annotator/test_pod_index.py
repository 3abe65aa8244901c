"""Who follows the pods from snapshot to snapshot knows what who looks at each of them knows."""

from hypothesis import given
from hypothesis import strategies as st

from annotator.placements import hot_counts, pod_index
from kube.pods.compact import Pod
from runtime import clock
from tests import builders

AT = clock.from_rfc3339(builders.SCHEDULED)
WEB = ("ReplicaSet", "web-5d4f8c7b9")
NAMES = ("default/a", "default/b", "default/c")


def kinds(name: str) -> list[Pod]:
    """A pod of this name in all the states that count for something, and a later one of the same name."""
    return [
        builders.lean_pod(name, node="node-1", owner=WEB),
        builders.lean_pod(name, node="node-1", owner=("StatefulSet", "db")),
        builders.lean_pod(name, node="node-1", owner=("StatefulSet", "db"), phase="Failed"),
        builders.lean_pod(name, node="node-1", owner=None),
        builders.lean_pod(name, node="", owner=WEB),
        builders.lean_pod(name, node="node-1", owner=WEB, metadata={"deletionTimestamp": builders.SCHEDULED}),
        builders.lean_pod(name, node="node-1", owner=WEB, status={"conditions": []}),
        builders.lean_pod(name, node="", owner=WEB, mutate=builders.placeholder),
        builders.lean_pod(name, node="node-1", owner=WEB, metadata={"uid": f"new-{name}"}),
    ]


POD = {name: kinds(name.removeprefix("default/")) for name in NAMES}
SNAPSHOTS = st.lists(st.fixed_dictionaries({}, optional={name: st.sampled_from(POD[name]) for name in NAMES}))


def rows(known: pod_index.PodIndex) -> dict[str, int]:
    """Where those are that are at work."""
    return {known.names[row]: row for row in known.at_work_since(AT).tolist()}


@given(snapshots=SNAPSHOTS)
def test_what_is_kept_is_what_the_pods_of_the_last_snapshot_say(snapshots: list[dict[str, Pod]]) -> None:
    known = pod_index.PodIndex()
    for pods in snapshots:
        known.follow(pods)
        living = [one for one in pods.values() if not (one.finished or one.deleting)]
        owned = {name for name, one in pods.items() if pod_index.owner_key(one)}
        works = {name for name in owned if pods[name] in living and pods[name].ready_since_seconds is not None}
        assert {name: known.owners[known.owner[row]] for name, row in rows(known).items()} == {
            name: pod_index.owner_key(pods[name]) for name in works
        }
        assert known.at_work_since(AT - 1).tolist() == []
        assert known.running_owners() == {pod_index.owner_key(one) for one in living} - {""}
        assert known.by_uid == {one.uid: one for one in pods.values()}
        assert hot_counts.waiting(known.unbound.values()) == hot_counts.waiting(pods.values())
        assert hot_counts.placeholders(known.placeholders.values()) == hot_counts.placeholders(pods.values())
        placed = [one for one in map(hot_counts.binding, pods.values()) if one is not None]
        assert sorted(known.placed_since(AT - 1)) == sorted((one.node, one.at_seconds) for one in placed)
        scheduled = [one for one in pods.values() if one.scheduled_at_seconds is not None]
        assert known.owners_placed_since(AT - 1) == {pod_index.owner_key(one) for one in scheduled} - {""}
        assert known.placed_since(AT) == []
        assert known.owners_placed_since(AT) == frozenset()


def test_what_pods_leave_behind_is_forgotten_in_time() -> None:
    """Pods come and go for ever, each under a name and with an owner of its own."""
    known = pod_index.PodIndex()
    for number in range(3 * pod_index.SPARE_ROWS):
        pod = builders.lean_pod(f"job-{number}", node="node-1", owner=("Job", f"job-{number}"))
        known.follow({pod.key: pod})
        assert rows(known).keys() == {pod.key}
    assert max(len(known.names), len(known.owners)) <= 2 * pod_index.SPARE_ROWS
