"""Whatever stands in a node's annotations, it is a reading or one of our refusals, and the extender answers."""

import json
import math
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from policy.contract import load_annotation, node_thresholds, relief_hint
from runtime import clock
from tests import clocks
from tests.unit.extender import test_app, worlds
from tests.unit.fuzz import mutating

WHOLE: dict[str, Any] = {
    "v": 1,
    "at": "2026-11-21T04:00:00Z",
    "m": {"cpu_avg_5m": 0.3127, "cpu_max_1h": 0.4402, "memory_avg_5m": 0},
    "hot": {"1m": 0, "5m": 2, "30m": 5},
}
UID = "11111111-2222-3333-4444-555555555555"
HINT = {"v": 1, "until": "2026-11-21T04:00:00Z", "workloads": [UID]}
LIMITS = {"cpu_avg_5m": 0.9, "memory_avg_5m": "80%", "cpu_max_1h": 0}
SAMPLES = [WHOLE, {**WHOLE, "m": {}}, {**WHOLE, "hot": {}}, HINT, LIMITS]
TEXTS = st.one_of(
    mutating.documents(SAMPLES).map(mutating.json_text),
    mutating.garbled([mutating.json_text(sample).encode() for sample in SAMPLES]).map(
        lambda text: text.decode("utf-8", "surrogateescape")
    ),
)
WORLD = test_app.World({"cool": worlds.IDLE})
WORLD.flask.config["PROPAGATE_EXCEPTIONS"] = False  # a bug of ours is a 500 here, as it is in the process


def decoded(text: str) -> load_annotation.Reading | None:
    """The reading; None where it is refused as it should be."""
    try:
        return load_annotation.decode(text)
    except load_annotation.AnnotationError as error:
        refused = error
    assert refused.reason in ("too_long", "not_json", "not_object", "version", "no_time")
    str(refused).encode()  # can be logged
    return None


@mutating.BOUNDED
@hypothesis.given(text=TEXTS)
@hypothesis.example(text=mutating.json_text(WHOLE))
def test_a_text_is_a_reading_that_is_the_same_when_written_again_or_refused_with_one_of_our_reasons(text: str) -> None:
    reading = decoded(text)
    hypothesis.event("read" if reading else "refused")
    if reading is None:
        return
    said = json.loads(text)["m"]
    assert reading.values.keys() | reading.invalid.keys() == said.keys()
    assert not reading.values.keys() & reading.invalid.keys()
    for name, value in reading.values.items():
        assert math.isfinite(value)
        assert 0 <= value <= load_annotation.MAX_RATIO
        assert value == said[name]
    assert all(count >= 0 for count in reading.hot.values())
    written = load_annotation.encode(reading)
    again = load_annotation.decode(written)
    assert load_annotation.encode(again) == written
    assert again.values == {name: round(value, load_annotation.DECIMALS) for name, value in reading.values.items()}
    assert (again.hot, again.invalid) == (dict(reading.hot), {})
    assert abs(again.at_seconds - reading.at_seconds) < 1


@hypothesis.settings(mutating.BOUNDED, max_examples=mutating.EXAMPLES or 60)
@hypothesis.given(load=TEXTS, hint=TEXTS, limits=TEXTS)
@hypothesis.example(
    load='{"v":1,"at":"2026-11-21T04:00:00Z","m":{"\\ud800":"x","cpu_avg_5m":0.1},"hot":{"\\ud800":3}}',
    hint='{"v":1,"until":"2030-11-21T04:00:00Z","workloads":["\\ud800"]}',
    limits='{"\\ud800": 1}',
)
def test_the_extender_answers_whatever_a_node_carries(load: str, hint: str, limits: str) -> None:
    """The apiserver lets no half of a surrogate pair into an annotation, but their escapes in its JSON."""
    hypothesis.assume(not any("\ud800" <= sign <= "\udfff" for sign in load + hint + limits))
    WORLD.rest()
    WORLD.view.nodes.node_changed(None, worlds.node("odd", load, relief=hint, thresholds=limits))
    for verb in ("filter", "prioritize", "explain"):
        answer = WORLD.post(verb, worlds.body(["odd", "cool"]))
        assert answer.status_code == 200, (verb, answer.text)
    assert len(WORLD.get("/nodes")["nodes"]) == 2
    assert len(WORLD.get("/decisions?pod=new&namespace=default")["decisions"][0]["nodes"]) == 2


@mutating.BOUNDED
@hypothesis.given(text=TEXTS)
@hypothesis.example(text=mutating.json_text(HINT))
@hypothesis.example(text=mutating.json_text({**HINT, "untils": {UID: "2026-11-21T03:00:00Z"}}))
def test_a_hint_or_a_nodes_own_limits_are_read_or_left_out(text: str) -> None:
    hint = relief_hint.decode(text)
    if hint is not None:
        again = relief_hint.decode(relief_hint.encode(hint))
        assert again is not None
        assert again.untils_seconds.keys() == hint.untils_seconds.keys()
    own = node_thresholds.decode(text)
    assert own is not None
    assert all(0 <= limit <= 1 for limit in own.limits.values())
    own.ignored(("cpu_avg_5m",)).encode()  # can be shown


@pytest.mark.parametrize("once", ['"cpu_avg_5m":NaN,', '"a":[[]],', '"\\ud800":1e999,', " "])
def test_the_work_grows_with_the_text(once: str) -> None:
    ends = f'{{"v":1,"at":"{clock.to_rfc3339(clocks.START_SECONDS)}","m":{{', '"x":1}}'
    mutating.assert_grows_with_the_text(decoded, once, ends)


def test_a_text_of_any_length_is_refused_unread() -> None:
    _, calls = mutating.calls(lambda: decoded("[" * 10_000_000))
    assert calls < 100
