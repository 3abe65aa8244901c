from kube import objects
from kube_scheduler import pod_requests
from tests import builders

MIB = 2**20


def containers(*requests: dict[str, str]) -> builders.Mutator:
    def write(body: builders.Body) -> None:
        body["spec"]["containers"] = [
            {"name": f"c{number}", "resources": {"requests": one}} for number, one in enumerate(requests)
        ]

    return write


def scored(pod: objects.Pod) -> list[int]:
    found: list[int] = pod_requests.of_pod(pod).scored[:, 0].tolist()
    return found


def test_what_is_asked_for_counts_in_whole_numbers() -> None:
    pod = builders.pod(mutate=containers({"cpu": "0.5m", "memory": "1k", "example.com/gpu": "2"}))
    assert pod_requests.of_pod(pod).amounts == (("cpu", 1), ("memory", 1000), ("example.com/gpu", 2))
    assert pod_requests.of_pod(pod).base[:, 0].tolist() == [1, 1000, 1]
    assert not pod_requests.of_pod(pod).is_base


def test_each_container_without_requests_is_scored_as_if_it_had_some() -> None:
    assert scored(builders.pod(mutate=containers({}, {"cpu": "1"}, {"memory": "1Mi"}))) == [1200, 401 * MIB]
    assert pod_requests.of_pod(builders.pod(mutate=containers({}))).amounts == ()


def test_an_amount_of_zero_is_named_and_stays_zero() -> None:
    assert scored(builders.pod(mutate=containers({"cpu": "0", "memory": "0"}))) == [0, 0]


def test_requests_of_the_whole_pod_are_not_raised_by_its_containers() -> None:
    def level(body: builders.Body) -> None:
        containers({}, {})(body)
        body["spec"]["resources"] = {"requests": {"cpu": "150m"}}

    assert scored(builders.pod(mutate=level)) == [150, 400 * MIB]


def test_a_node_gives_what_is_allocatable() -> None:
    assert pod_requests.of_node(builders.node(cpu="2", memory="1Gi", pods="7")) == {
        "cpu": 2000,
        "memory": 1024 * MIB,
        "pods": 7,
    }
