"""What others write into pods and is gone again leaves next to nothing behind, whatever its size.

A tenant with a quota of one pod creates and deletes it all day. Each of these pods is as large as the apiserver takes
and unlike the ones before; every service's form of a pod is decoded and dropped, and the bytes that stay are counted.
"""

import functools
import gc
import itertools
import pathlib
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from annotator.placements import pod_index
from descheduler.snapshot import interned_pods
from extender.state import usage_estimates
from kube import objects
from kube.pods import compact, pod_view
from tests import builders, pages
from tests.unit.extender import worlds
from tests.unit.extender.test_service import World

WRITTEN_BYTES = 64 * 1024
PODS = 8
MOST_BYTES_A_POD = 4096
PASSING, SPACING_SECONDS = 200, 20.0  # over an hour, twice the longest window
MOST_BYTES_A_PASSING_POD = 64
NUMBERS = itertools.count(1)  # no pod of any test is like another
FORMS: list[type[objects.IdentifiedObject]] = [compact.Pod, interned_pods.Pod]


def reference(number: int, name: str, **fields: Any) -> builders.Body:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{number}", **fields}


def long(number: int) -> str:
    return f"{number}-" + "x" * WRITTEN_BYTES


def several_owners(body: builders.Body, number: int) -> None:
    others = [reference(number * 10_000 + at, f"owner-{number}-{at}") for at in range(WRITTEN_BYTES // 100)]
    body["metadata"]["ownerReferences"] = [*others, reference(number, "web", controller=True)]


def metadata(field: str) -> Callable[[builders.Body, int], None]:
    return lambda body, number: body["metadata"][field].update({"x": long(number)})


def owner(field: str) -> Callable[[builders.Body, int], None]:
    def put(body: builders.Body, number: int) -> None:
        body["metadata"]["ownerReferences"] = [reference(number, "web", controller=True) | {field: long(number)}]

    return put


def annotation(key: str) -> Callable[[builders.Body, int], None]:
    return lambda body, number: body["metadata"]["annotations"].update({key: long(number)})


def labels(body: builders.Body, number: int) -> None:
    body["metadata"]["labels"] = {f"label-{number}-{at}": "x" * 60 for at in range(WRITTEN_BYTES // 80)}


def containers(body: builders.Body, number: int) -> None:
    requests = [{"cpu": f"{number * 10_000 + at}m"} for at in range(WRITTEN_BYTES // 80)]
    body["spec"]["containers"] = [{"name": f"c{at}", "resources": {"requests": one}} for at, one in enumerate(requests)]


def terms(body: builders.Body, number: int) -> None:
    values = [{"matchLabels": {"app": f"other-{number}-{at}"}} for at in range(WRITTEN_BYTES // 80)]
    required = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": value} for value in values]
    body["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
    }


def status(field: str) -> Callable[[builders.Body, int], None]:
    return lambda body, number: body["status"].update({field: long(number)})


WRITERS: dict[str, Callable[[builders.Body, int], None]] = {
    "owners without end": several_owners,
    "a long apiVersion": owner("apiVersion"),
    "a long kind": owner("kind"),
    "a long owner's name": owner("name"),
    "a long owner's uid": owner("uid"),
    "a long annotation": metadata("annotations"),
    "a long mirror annotation": annotation("kubernetes.io/config.mirror"),
    "a long source annotation": annotation("kubernetes.io/config.source"),
    "a long preset": annotation("evenload.io/placeholder-preset"),
    "a long opt-out": annotation("evenload.io/evictable"),
    "labels without end": labels,
    "containers without end": containers,
    "anti-affinity terms without end": terms,
    "a long phase": status("phase"),
    "a long nominated node": status("nominatedNodeName"),
}


def texts(write: Callable[[builders.Body, int], None]) -> list[bytes]:
    """Pods as the apiserver sends them."""
    numbers = itertools.islice(NUMBERS, PODS)
    return [
        msgspec.json.encode(
            builders.pod_body(f"p-{number}", node="n", mutate=lambda body, number=number: write(body, number))  # type: ignore[misc]
        )
        for number in numbers
    ]


def use(pod: objects.IdentifiedObject) -> None:
    """What the services ask of a pod of their watch."""
    if isinstance(pod, compact.Pod):
        pod_view.counts_as_load(pod)
        usage_estimates.estimate_key(pod)
        pod_index.owner_key(pod)


def empty_caches() -> None:
    """Empty every cache of ours: one filled by other tests could double its table, some 74 kB, in this one."""
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] in pages.PACKAGES:
            for item in vars(module).values():
                if isinstance(item, functools._lru_cache_wrapper):
                    item.cache_clear()
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__module__)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_pod_that_is_gone_leaves_nothing_of_its_size(
    form: type[objects.IdentifiedObject], write: Callable[[builders.Body, int], None]
) -> None:
    empty_caches()
    decoder = msgspec.json.Decoder(form)
    use(decoder.decode(texts(write)[0]))  # what is made once
    bodies = texts(write)
    gc.collect()
    tracemalloc.start()
    try:
        for body in bodies:
            use(decoder.decode(body))
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes / PODS < MOST_BYTES_A_POD


def test_an_extender_holds_nothing_of_pods_whose_windows_are_over(tmp_path: pathlib.Path) -> None:
    world, numbers = World(tmp_path / "policy.yaml"), itertools.count()
    world.service.view.nodes.node_changed(None, worlds.node("n", worlds.IDLE))

    def held_bytes() -> int:
        """Bytes beside caches, after further hours in which pods come, are placed and go."""
        for number in itertools.islice(numbers, PASSING):
            name = f"passing-{number}"
            waits, bound = builders.lean_pod(name, node=""), worlds.watch_sees(name, "n", world.clock.now())
            world.service._pod_changed(None, waits)
            world.service._pod_changed(waits, bound)
            world.service._pod_changed(bound, None)
            world.clock.advance(SPACING_SECONDS)
        world.service.view.placements.assumed(world.clock.now())
        empty_caches()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before_bytes = held_bytes()
        assert (held_bytes() - before_bytes) / PASSING < MOST_BYTES_A_PASSING_POD
    finally:
        tracemalloc.stop()
