"""The targets of fuzzing: for each its properties, which raise where one is broken, and texts to begin with.

The properties are those that Hypothesis checks in the unit tests, without its examples. `lab.campaigns.guided` feeds
them by coverage, a unit test with the texts of `corpus/`.
"""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.unit.fuzz import mutating, test_annotation, test_answers, test_arguments, test_policy

CORPUS: Final = pathlib.Path(__file__).with_name("corpus")
Property = Callable[[bytes], object]


class Target(NamedTuple):
    """Properties of bytes, and samples."""

    properties: Sequence[Property]
    samples: Sequence[bytes]

    def check(self, data: bytes) -> None:
        """Raises where a property of these bytes is broken."""
        for one in self.properties:
            one(data)


def _of_bytes(test: Any, name: str, **more: object) -> Property:
    inner: Callable[..., object] = test.hypothesis.inner_test
    return lambda data: inner(**{name: data}, **more)


def _of_text(test: Any) -> Property:
    inner: Callable[..., object] = test.hypothesis.inner_test
    return lambda data: inner(text=data.decode("utf-8", "surrogateescape"))


def _lists(data: bytes) -> None:
    for kind in test_answers.KINDS:
        test_answers.test_a_list_is_read_or_undecodable.hypothesis.inner_test(text=data, kind=kind)  # type: ignore[attr-defined]


def _texts(samples: Sequence[Any]) -> list[bytes]:
    return [json.dumps(one, separators=(",", ":")).encode() for one in samples]


_BEFORE_NAMES: Final = test_arguments.test_the_pod_that_is_read_before_the_names_is_the_one_of_the_whole_request
_WRITTEN_AGAIN: Final = (
    test_annotation.test_a_text_is_a_reading_that_is_the_same_when_written_again_or_refused_with_one_of_our_reasons
)
_POD: Final = b'{"Pod":' + test_arguments.compact(test_arguments.POD) + b',"Nodes":null'
TARGETS: Final[Mapping[str, Target]] = {
    "arguments": Target(
        (
            _of_bytes(test_arguments.test_a_body_is_a_request_or_refused, "body"),
            _of_bytes(test_arguments.test_a_body_is_a_question_about_victims_or_refused, "body"),
            _of_bytes(_BEFORE_NAMES, "head"),
        ),
        [*_texts(test_arguments.SAMPLES), _POD],
    ),
    "annotations": Target(
        (
            _of_text(_WRITTEN_AGAIN),
            _of_text(test_annotation.test_a_hint_or_a_nodes_own_limits_are_read_or_left_out),
        ),
        [mutating.json_text(one).encode() for one in test_annotation.SAMPLES],
    ),
    "policy": Target(
        (_of_text(test_policy.test_a_text_is_a_policy_that_can_be_written_and_read_again_or_refused),),
        [text.encode() for text in test_policy.FILES],
    ),
    "prometheus": Target(
        (_of_bytes(test_answers.test_prometheus_is_understood_partial_or_answers_garbage, "text"),),
        _texts([test_answers.VECTOR, test_answers.MATRIX, test_answers.REFUSED]),
    ),
    "watch": Target(
        (
            _lists,
            _of_bytes(test_answers.test_an_event_is_read_or_undecodable, "text"),
            _of_bytes(test_answers.test_a_refusal_is_an_error_whatever_it_says, "text"),
        ),
        _texts([*test_answers.PAGES, *test_answers.FRAMES, test_answers.STATUS]),
    ),
}
