"""Valid samples turned into what an attacker, a broken disk or another version might send, and how much work that is.

The three suites beside this module fuzz what others write: a node's annotation, kube-scheduler's ExtenderArgs, the
policy file. In `make test` they take the same hundred examples each time; `make -C lab fuzz` takes others, and more,
and prints how to repeat what it finds. `calls` counts function calls instead of looking at a clock: a parser whose work
grows faster than its input shows it there on any machine.
"""

import collections.abc
import functools
import json
import os
import sys
from typing import Any, Final, TypeVar

import hypothesis
from hypothesis import strategies as st

T = TypeVar("T")
EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "0"))

# Settings of every fuzz test: always the same examples, or many others.
BOUNDED: Final = hypothesis.settings(
    max_examples=EXAMPLES or 100,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
SURROGATE: Final = "\ud800"
ODD_TEXTS: Final = [
    "",
    " ",
    "\0",
    "\n",
    SURROGATE,
    "\ufeff",
    "\U0001f600",
    "a" * 300,
    "__class__",
    "%s{0}",
    "../x",
    "ı",
]
ODD_NUMBERS: Final = [0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(10**400), 0.1, -0.0, 1e308, 5e-324, 1.5, 1.5000001]
ODD_VALUES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=6),
    st.recursive(st.just([]) | st.just({}), lambda inner: st.lists(inner, max_size=2), max_leaves=4),
)
_BITS: Final = [b"", b"\0", b'"', b"\\", b"\\u0000", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN"]
_BITS_MORE: Final = [
    b"1e999",
    b"-",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\n",
    b"\t",
    b"true",
    b"9" * 30,
]


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    inner: collections.abc.Iterable[tuple[Any, Any]] = ()
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = enumerate(document)
    return [path, *(found for key, value in inner for found in places(value, (*path, key)))]


def changed(document: Any, path: tuple[Any, ...], change: collections.abc.Callable[[Any], Any]) -> Any:
    """A copy with another value at a place."""
    if not path:
        return change(document)
    copied = dict(document) if isinstance(document, dict) else list(document)
    copied[path[0]] = changed(document[path[0]], path[1:], change)
    return copied


@st.composite
def documents(draw: st.DrawFn, samples: collections.abc.Sequence[Any]) -> Any:
    """A sample with a few values replaced, keys added or taken away, values nested into themselves."""
    document = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(places(document)))
        document = changed(document, path, draw(st.sampled_from(_CHANGES))(draw))
    return document


def _another(draw: st.DrawFn) -> collections.abc.Callable[[Any], Any]:
    value = draw(ODD_VALUES)
    return lambda _old: value


def _one_more(draw: st.DrawFn) -> collections.abc.Callable[[Any], Any]:
    key, value = draw(st.sampled_from(ODD_TEXTS)), draw(ODD_VALUES)
    return lambda old: {**old, key: value} if isinstance(old, dict) else [old, value]


def _one_less(draw: st.DrawFn) -> collections.abc.Callable[[Any], Any]:
    at = draw(st.integers(0, 20))

    def shorter(old: Any) -> Any:
        if isinstance(old, dict):
            return {key: value for number, (key, value) in enumerate(old.items()) if number != at % len(old)}
        return old[at:] if isinstance(old, str | list) else None

    return shorter


def _within_itself(draw: st.DrawFn) -> collections.abc.Callable[[Any], Any]:
    depth = draw(st.sampled_from([1, 2, 40]))

    def nested(old: Any) -> Any:
        for _ in range(depth):
            old = [old]
        return old

    return nested


def _much(draw: st.DrawFn) -> collections.abc.Callable[[Any], Any]:
    times = draw(st.sampled_from([2, 50, 500]))
    return lambda old: old * times if isinstance(old, str | list) else [old] * times


_CHANGES: Final = [_another, _another, _one_more, _one_less, _within_itself, _much]


@st.composite
def garbled(draw: st.DrawFn, samples: collections.abc.Sequence[bytes]) -> bytes:
    """A sample with a few bytes changed, cut out, doubled, moved or put in."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        begin, length = draw(st.integers(0, len(text))), draw(st.sampled_from([0, 1, 1, 2, 8, 60]))
        piece = text[begin : begin + length]
        put_in = draw(st.one_of(st.sampled_from([*_BITS, *_BITS_MORE, piece, piece * 2]), st.binary(max_size=4)))
        text = text[:begin] + put_in + text[begin + length :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 7)) == 0 else text


def json_text(document: Any) -> str:
    """JSON, with the NaN and the halves of surrogate pairs that other writers let through."""
    return json.dumps(document)


def calls(work: collections.abc.Callable[[], T]) -> tuple[T, int]:
    """What work gives, and how many functions were called for it, ours, Python's and those written in C."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work(), counted
    finally:
        sys.setprofile(before)


def assert_grows_with_the_text(read: collections.abc.Callable[[str], object], once: str, ends: tuple[str, str]) -> None:
    """Four times the text may be at most six times the work."""
    texts = [ends[0] + once * times + ends[1] for times in (250, 1000)]
    small, large = (calls(functools.partial(read, text))[1] for text in texts)
    assert large <= 6 * small + 1000, f"{large} calls for four times what took {small}"
