"""The heartbeat: its digest, its ConfigMap, and which readings it keeps alive."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.contract import heartbeat
from policy.contract.heartbeat import EffectiveTimes

AT = 1795233600.0
TEXTS = {f"node-{n}": f"text {n}" for n in range(40)}


def _beat(texts: dict[str, str], at_seconds: float = AT) -> heartbeat.Heartbeat:
    return heartbeat.decode(heartbeat.encode(at_seconds, "abcdef123456", len(texts), heartbeat.digest(texts)))


def _view(texts: dict[str, str]) -> EffectiveTimes:
    view = EffectiveTimes()
    for node, text in texts.items():
        view.put(node, text)
    return view


@pytest.fixture
def view() -> EffectiveTimes:
    """All nodes with their texts."""
    return _view(TEXTS)


def _mates(node: str) -> list[str]:
    bucket = heartbeat.bucket_of(node)
    return [f"n{n}" for n in range(5000) if heartbeat.bucket_of(f"n{n}") == bucket]


_SETS = st.dictionaries(st.sampled_from(["b", "a", "c", *_mates("a")[:2]]), st.sampled_from(["x", "y"]))


@given(_SETS)
def test_the_digest_has_a_checksum_of_all_lines_and_of_those_of_each_bucket(texts: dict[str, str]) -> None:
    lines = {node: f"{node}={text}\n".encode() for node, text in sorted(texts.items())}
    found = heartbeat.digest(texts)
    assert found.whole == f"sha256:{hashlib.sha256(b''.join(lines.values())).hexdigest()}"
    for bucket in {heartbeat.bucket_of(node) for node in ("b", "a", "c")}:
        of_it = b"".join(line for node, line in lines.items() if heartbeat.bucket_of(node) == bucket)
        assert found.buckets[bucket] == hashlib.sha256(of_it).hexdigest()[:8]


def test_the_config_map_has_the_keys_of_the_design() -> None:
    data = heartbeat.encode(AT, "abcdef123456", 40, heartbeat.digest(TEXTS))
    assert list(data) == ["v", "at", "policy", "nodes", "digest", "buckets", "except"]
    assert (data["v"], data["at"], data["policy"], data["nodes"]) == ("1", "2026-11-21T04:00:00Z", "abcdef123456", "40")
    assert heartbeat.CONFIG_MAP == "evenload-heartbeat"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("v", "2", "version"),
        ("v", None, "version"),
        ("at", "yesterday", "no_time"),
        ("at", None, "no_time"),
        ("nodes", "-1", "nodes"),
        ("nodes", "many", "nodes"),
        ("nodes", "9" * 5000, "nodes"),
        ("digest", "md5:00", "digest"),
        ("digest", "sha256:" + "g" * 64, "digest"),
        ("digest", "sha256:" + "0" * 63, "digest"),
        ("digest", "0" * 64, "digest"),
        ("buckets", "", "buckets"),
        ("buckets", ",".join(["00000000"] * 255), "buckets"),
        ("buckets", ",".join(["0000000x"] * 256), "buckets"),
        ("buckets", ",".join(["0000000x", *["00000000"] * 255]), "buckets"),
    ],
)
def test_a_config_map_that_is_no_heartbeat_is_refused_with_its_part(key: str, value: str | None, reason: str) -> None:
    data = heartbeat.encode(AT, "abc", 40, heartbeat.digest(TEXTS))
    spoiled = {name: text for name, text in {**data, key: value}.items() if text is not None}
    with pytest.raises(heartbeat.HeartbeatError, match="evenload-heartbeat") as refused:
        heartbeat.decode(spoiled)
    assert refused.value.reason == reason


def test_a_matching_heartbeat_renews_every_reading(view: EffectiveTimes) -> None:
    assert view.accept(_beat(TEXTS, AT + 30), AT + 30)
    assert view.settle() == frozenset(TEXTS)
    assert view.matches()
    assert view.effective_seconds("node-1", AT) == AT + 30


def test_before_any_heartbeat_a_reading_has_its_own_time_only(view: EffectiveTimes) -> None:
    assert view.settle() == frozenset()
    assert view.matched_seconds("node-1") == -math.inf
    assert view.effective_seconds("node-1", AT) == AT
    assert not view.matches()
    assert not EffectiveTimes().matches()


def test_a_patch_in_flight_keeps_only_its_bucket_from_matching() -> None:
    view = _view({**TEXTS, "node-3": "old"})
    view.accept(_beat(TEXTS), AT)
    bucket = {node for node in TEXTS if heartbeat.bucket_of(node) == heartbeat.bucket_of("node-3")}
    assert view.settle() == frozenset(TEXTS) - bucket
    assert not view.matches()
    assert view.differing_nodes() == tuple(sorted(bucket))


def test_a_patch_that_arrives_after_its_heartbeat_is_confirmed_by_it() -> None:
    view = _view({**TEXTS, "node-3": "old"})
    view.accept(_beat(TEXTS), AT)
    view.settle()
    view.put("node-3", TEXTS["node-3"])
    assert "node-3" in view.settle()
    assert view.matches()
    assert view.differing_nodes() == ()


def test_a_deleted_node_disturbs_nobody_outside_its_bucket(view: EffectiveTimes) -> None:
    view.put("node-3", None)
    view.accept(_beat(TEXTS), AT)
    confirmed = view.settle()
    assert confirmed == {node for node in TEXTS if heartbeat.bucket_of(node) != heartbeat.bucket_of("node-3")}
    assert view.matched_seconds("node-3") == -math.inf


def test_a_new_text_does_not_inherit_the_confirmation_of_the_old_one(view: EffectiveTimes) -> None:
    view.accept(_beat(TEXTS), AT)
    view.settle()
    view.put("node-3", "put back by hand")
    view.settle()
    assert view.matched_seconds("node-3") == -math.inf
    assert view.matched_seconds("node-4") == AT


@pytest.mark.parametrize(
    ("ahead_seconds", "taken"),
    [pytest.param(60.0, True, id="a minute ahead is clock skew"), pytest.param(61.0, False, id="more is ignored")],
)
def test_a_heartbeat_from_the_future_is_ignored(ahead_seconds: float, taken: bool, view: EffectiveTimes) -> None:
    assert view.accept(_beat(TEXTS, AT + ahead_seconds), AT) is taken
    assert (view.settle() == frozenset(TEXTS)) is taken


def test_an_older_heartbeat_does_not_replace_a_newer_one(view: EffectiveTimes) -> None:
    view.accept(_beat(TEXTS, AT), AT)
    assert not view.accept(_beat({}, AT - 30), AT)
    view.settle()
    assert view.matched_seconds("node-1") == AT


def test_a_heartbeat_of_the_same_time_with_other_texts_replaces_the_last_one() -> None:
    changed = {**TEXTS, "node-3": "other"}
    view = _view(changed)
    view.accept(_beat(TEXTS, AT), AT)
    view.settle()
    assert view.accept(_beat(changed, AT), AT + 30)
    assert "node-3" in view.settle()
    assert view.matches()


def test_clocks_that_were_ahead_and_were_set_back_do_not_lock_heartbeats_out(view: EffectiveTimes) -> None:
    view.accept(_beat(TEXTS, AT + 1800), AT + 1800)
    view.settle()
    assert view.accept(_beat(TEXTS, AT), AT)
    view.settle()
    assert view.matched_seconds("node-1") == AT


def _without(texts: dict[str, str], *excluded: str, at_seconds: float = AT) -> heartbeat.Heartbeat:
    """A heartbeat that vouches for all of these nodes but some."""
    rest = {node: text for node, text in texts.items() if node not in excluded}
    data = heartbeat.encode(at_seconds, "abc", len(rest), heartbeat.digest(rest), excluded=excluded)
    return heartbeat.decode(data)


def test_an_excluded_node_ages_alone_whatever_it_carries() -> None:
    one, mate, third = _mates("n0")[:3]
    texts = {one: "old", mate: "b", third: "c"}
    for carried in ("old", "new", "tampered"):
        view = _view({**texts, one: carried})
        view.accept(_without(texts, one), AT)
        assert view.settle() == {mate, third}
        assert view.matched_seconds(one) == -math.inf
        assert view.differing_nodes() == (one,)
        assert not view.matches()


def test_the_whole_matches_when_the_excluded_nodes_are_gone(view: EffectiveTimes) -> None:
    view.accept(_without(TEXTS, "gone"), AT)
    view.settle()
    assert view.matches()


def test_a_heartbeat_without_the_key_excludes_nobody() -> None:
    data = heartbeat.encode(AT, "abc", 40, heartbeat.digest(TEXTS))
    del data["except"]
    assert heartbeat.decode(data).excluded == frozenset()
