import tracemalloc
from collections.abc import Callable

import pytest

from kube.api import quantities


@pytest.mark.parametrize(
    ("read", "text", "amount"),
    [
        (quantities.cpu_millicores, "250m", 250.0),
        (quantities.cpu_millicores, "2", 2000.0),
        (quantities.cpu_millicores, "0.1", 100.0),
        (quantities.cpu_millicores, "1.001", 1001.0),
        (quantities.cpu_millicores, "1e3", 1_000_000.0),
        (quantities.cpu_millicores, "100n", 0.0001),
        (quantities.cpu_millicores, "0", 0.0),
        (quantities.amount, "1Gi", 2.0**30),
        (quantities.amount, "500M", 5e8),
        (quantities.amount, "1k", 1000.0),
        (quantities.amount, "128974848", 128974848.0),
        (quantities.amount, "1E", 1e18),
        (quantities.amount, "1Ei", 2.0**60),
        (quantities.amount, ".5Ki", 512.0),
        (quantities.amount, "1500m", 1.5),
        (quantities.amount, "-1", -1.0),
    ],
)
def test_cpu_is_millicores_and_memory_is_bytes(read: Callable[[str], float], text: str, amount: float) -> None:
    assert read(text) == amount


@pytest.mark.parametrize(
    "text", ["", "NaN", "Infinity", "-inf", "1_0", "1K", "Ki", " 1", "1 ", "1Kib", "٣", "1e1000", "0x10", "one"]
)
def test_what_kubernetes_would_refuse_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="Kubernetes suffix") as caught:
        quantities.amount(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["1e999", "9e307k"])
def test_a_number_beyond_every_float_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        quantities.amount(text)


def test_long_texts_of_a_client_are_read_and_not_kept() -> None:
    quantities.amount("1")  # what the parser's library takes is not the question
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for at in range(1, 21):
        assert quantities.amount("0" * 2**19 + str(at)) == at
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 2**20
