"""Lists are decoded while they arrive; decoders are made by whichever thread asks first."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kube import errors, objects
from kube.http import decoding

# The annotation of Deepest is evaluated while msgspec has `Inner` half built; another thread then wants `Inner`, too.
TWO_THREADS = """
import threading

import msgspec

from kube import objects
from kube.http import decoding

begun, answered = threading.Event(), threading.Event()


class Slow(type):
    def __getitem__(cls, item):
        begun.set()
        answered.wait(1.0)
        return item


class Late(metaclass=Slow):
    pass


class Deepest(msgspec.Struct, frozen=True):
    text: "Late[str]" = ""


class Inner(msgspec.Struct, frozen=True):
    deepest: Deepest = Deepest()


class First(objects.IdentifiedObject, frozen=True, kw_only=True):
    inner: Inner = Inner()


class Second(objects.IdentifiedObject, frozen=True, kw_only=True):
    inner: Inner = Inner()


first = threading.Thread(target=decoding.page, args=("GET /first", First, [b'{"metadata":{},"items":[]}']))
first.start()
assert begun.wait(60)
print(decoding.one("GET /second", Second, b'{"inner":{"deepest":{"text":"whole"}}}').inner.deepest.text)
answered.set()
first.join()
"""


def test_a_decoder_made_while_another_thread_makes_one_is_whole() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


NAMES = [f"node-{at}" for at in range(300)]
TRAPS = {
    "plain": {},
    "a cut in a string": {"annotations": {"note": '},{"metadata":{"name":"no node"'}},
    "a cut within an item": {"managed": [{"metadata": {"a": 1}}, {"metadata": {"name": "no node"}}]},
}


def listed(more: dict[str, object], separators: tuple[str, str], items: list[str] = NAMES) -> bytes:
    """A list of 4 MB, as Go writes it or with spaces."""
    padding = "x" * (4 * decoding.PART_BYTES // len(NAMES))
    nodes = [{"metadata": {"name": name, "labels": {"padding": padding}, **more}} for name in items]
    page = {"kind": "NodeList", "metadata": {"resourceVersion": "7", "continue": "next"}, "items": nodes}
    return json.dumps(page, separators=separators).encode()


def pieces(body: bytes, rng: random.Random, most_bytes: int) -> Iterator[bytes]:
    """The body cut anywhere."""
    while body:
        size = rng.randint(1, most_bytes)
        yield body[:size]
        body = body[size:]


@pytest.mark.parametrize("more", TRAPS.values(), ids=list(TRAPS))
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["as Go writes it", "with spaces"])
@pytest.mark.parametrize("most_bytes", [100_000, 3 << 20, 1 << 30], ids=["small pieces", "large ones", "one"])
def test_a_list_is_the_same_however_it_arrives(
    more: dict[str, object], separators: tuple[str, str], most_bytes: int
) -> None:
    body = listed(more, separators)
    found = decoding.page("GET /nodes", objects.Node, pieces(body, random.Random(most_bytes), most_bytes))
    assert found.items is not None
    assert [node.name for node in found.items] == NAMES
    assert found.metadata == decoding.ListMeta("7", "next")
    assert found.items[-1].annotations == more.get("annotations", {})


def test_items_are_decoded_while_the_rest_is_on_its_way() -> None:
    made: list[str] = []

    class Noted(objects.IdentifiedObject, frozen=True, kw_only=True):
        def __post_init__(self) -> None:
            made.append(self.name)

    body = listed({}, (",", ":"))
    cut = 3 * len(body) // 4

    def arriving() -> Iterator[bytes]:
        yield from pieces(body[:cut], random.Random(1), 100_000)
        assert len(made) > len(NAMES) / 4
        yield body[cut:]

    decoding.page("GET /nodes", Noted, arriving())
    assert sorted(made) == sorted(NAMES)


@pytest.mark.parametrize("body", [b"", b"{}", listed({}, (",", ":"))[:-9], listed({}, (",", ":")) + b"x", b'{"a":\xff'])
def test_what_is_no_list_is_undecodable(body: bytes) -> None:
    with pytest.raises(errors.Undecodable, match="GET /nodes: expected Kubernetes JSON"):
        decoding.page("GET /nodes", objects.Node, pieces(body, random.Random(1), 300_000))


def test_an_empty_list_and_one_with_null_have_no_items() -> None:
    assert decoding.page("GET /nodes", objects.Node, [listed({}, (",", ":"), [])]).items == ()
    assert decoding.page("GET /nodes", objects.Node, [b'{"metadata":{},"items":null}']).items == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"Too many requests, please try again later.\n", errors.FLOW_CONTROL, id="plain text"),
        pytest.param(b'{"message": "%b"}' % (b"no" * 9999), errors.FLOW_CONTROL, id="a service's, however long"),
        pytest.param(b'{"kind":"Status","code":429,"message":"no"}', "", id="a webhook's, which gives no reason"),
    ],
)
def test_a_429_that_is_no_status_was_answered_before_anything_looked(body: bytes, reason: str) -> None:
    found = decoding.failure("POST eviction", 429, {"Retry-After": "1"}, body)
    assert (found.reason, found.retry_after_seconds, len(found.message) < 1000) == (reason, 1.0, True)
