from typing import Any

import pytest

from kube.api import resources
from kube.api.resources import Resources
from tests import builders


def container(cpu: str = "0", memory: str = "0", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("containers", "init", "more", "millicores"),
    [
        ([container("100m"), container("200m")], [], {}, 300),
        ([container("100m")], [container("1"), container("500m")], {}, 1000),
        ([container("100m")], [sidecar("200m")], {}, 300),
        ([container("100m")], [sidecar("200m"), container("400m")], {}, 600),
        ([container("100m")], [container("400m"), sidecar("200m")], {}, 400),
        ([container("100m")], [container("1")], {"overhead": {"cpu": "50m"}}, 1050),
        ([container("100m")], [], {"resources": {"requests": {"cpu": "700m"}}}, 700),
        ([container("100m")], [], {"resources": {"requests": {"cpu": "700m"}}, "overhead": {"cpu": "50m"}}, 750),
        ([container("100m")], [], {"resources": {"requests": {"memory": "1Gi"}}}, 100),
        ([{"name": "c"}], [], {}, 0),
    ],
    ids=[
        "containers add up",
        "the largest init container counts, not their sum",
        "a sidecar runs beside the containers",
        "an init container runs beside the sidecars before it",
        "and not beside those after it",
        "overhead comes on top",
        "pod-level requests replace the sum",
        "overhead comes on top of pod-level requests too",
        "pod-level requests replace only what they name",
        "nothing requested is 0",
    ],
)
def test_effective_requests_are_the_schedulers(
    containers: list[Any], init: list[Any], more: dict[str, Any], millicores: float
) -> None:
    pod = builders.pod(spec={"containers": containers, "initContainers": init, **more})
    assert pod.requests.cpu_millicores == millicores


def test_extended_resources_are_kept_by_name() -> None:
    found = resources.resources({"cpu": 1, "nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "pods": "110"})
    named = ("cpu", "nvidia.com/gpu", "pods", "none")
    assert [found.get(name) for name in named] == [1000.0, 2.0, 110.0, 0.0]
    both = found.plus(resources.resources({"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}))
    assert (both.get("nvidia.com/gpu"), both.get("hugepages-2Mi")) == (3.0, 2.0**22)


def test_the_larger_is_taken_resource_by_resource() -> None:
    assert Resources(100.0, 5.0, 1).larger(Resources(50.0, 9.0, 2)) == Resources(100.0, 9.0, 2)


def test_a_quantity_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="'lots'"):
        resources.resources({"cpu": "lots"})


@pytest.mark.parametrize(
    "amounts",
    [
        {f"{'x' * 1000}.example.com/gpu": "1"},
        {"cpu": "0." + "0" * 1000 + "1"},
        {f"example.com/gpu-{at}": "1" for at in range(100)},
    ],
    ids=["a long name", "a long amount", "many of them"],
)
def test_amounts_that_take_much_memory_are_not_remembered(amounts: dict[str, resources.Quantity]) -> None:
    short = {"cpu": "250m", "memory": "1Gi"}
    assert resources.resources(short) is resources.resources(dict(short)), "as those of a workload's pods are"
    found = resources.resources(amounts)
    assert found == resources.resources(dict(amounts))
    assert found is not resources.resources(dict(amounts))


def test_a_resize_counts_the_largest_of_each_resource_and_keeps_the_text_of_the_spec() -> None:
    spec, allocated = {"cpu": "1"}, {"cpu": "1000m", "memory": "2Gi"}
    actual: dict[str, resources.Quantity] = {"memory": "3G", "example.com/gpu": 1}
    assert resources.effective(spec, allocated, actual, infeasible=False) == {
        "cpu": "1",
        "memory": "3G",
        "example.com/gpu": 1,
    }
    assert resources.effective({"cpu": "9"}, {"cpu": "2"}, {"cpu": "1"}, infeasible=True) == {"cpu": "2"}
    with pytest.raises(ValueError, match="'lots'"):
        resources.effective(spec, {"cpu": "lots"}, actual, infeasible=False)
