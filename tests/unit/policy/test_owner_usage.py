"""What owners' replicas use, as text: keys that outlive a rollout, what is read back, what is worth a write."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.contract import owner_usage
from policy.contract.owner_usage import Mean
from policy.schema import load_policy

NOW = 1_795_233_600.0  # 2026-11-21T04:00:00Z
MIB = 2.0**20
SYNC = load_policy.defaults().sync


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        pytest.param("ReplicaSet", "web-5d4f8c7b9", "shop/ReplicaSet/web", id="a Deployment's ReplicaSet"),
        pytest.param("ReplicaSet", "web-v2-7bd9c6fdf4", "shop/ReplicaSet/web-v2", id="the hash alone is cut off"),
        pytest.param("ReplicaSet", "web-canary", "shop/ReplicaSet/web-canary", id="a bare ReplicaSet keeps its name"),
        pytest.param("Job", "backup-29388240", "shop/Job/backup", id="a CronJob's Job"),
        pytest.param("Job", "import-7", "shop/Job/import-7", id="a Job of its own"),
        pytest.param("StatefulSet", "db-5d4f8c7b9", "shop/StatefulSet/db-5d4f8c7b9", id="another kind keeps its name"),
        pytest.param("ReplicaSet", "-5d4f8c7b9", "shop/ReplicaSet/-5d4f8c7b9", id="nothing would be left"),
    ],
)
def test_an_owner_is_called_the_same_in_all_its_versions(kind: str, name: str, key: str) -> None:
    assert owner_usage.owner_key("shop", kind, name) == key


MEANS = {
    "shop/StatefulSet/db": Mean(None, 3072 * MIB, 3),
    "shop/ReplicaSet/web": Mean(120.4, 256 * MIB, 7),
    "v/ReplicaSet/a": Mean(0.4, None, 1),
}


def test_the_text_is_what_people_can_read() -> None:
    assert owner_usage.encode(NOW, MEANS) == {
        "v": "1",
        "at": "2026-11-21T04:00:00Z",
        "ns.shop": "ReplicaSet/web 120m 256Mi 7\nStatefulSet/db - 3072Mi 3",
        "ns.v": "ReplicaSet/a 0.4m - 1",
    }


_AMOUNTS = st.none() | st.floats(0, 1e5)
_NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(
    st.dictionaries(
        st.builds("{}/ReplicaSet/{}".format, _NAMES, _NAMES),
        st.builds(
            lambda cpu, mebibytes, n: Mean(cpu, None if mebibytes is None else mebibytes * MIB, n),
            _AMOUNTS,
            _AMOUNTS,
            st.integers(1, 5000),
        ),
        max_size=8,
    )
)
def test_what_was_written_is_read_back_to_a_unit(means: dict[str, Mean]) -> None:
    read = owner_usage.decode(owner_usage.encode(NOW + 0.7, means))
    assert (read.at_seconds, read.refused, read.means.keys()) == (NOW, 0, means.keys())
    for key, mean in means.items():
        found = read.means[key]
        assert found.replicas == mean.replicas
        assert found.cpu_millicores == (
            None if mean.cpu_millicores is None else pytest.approx(mean.cpu_millicores, abs=1)
        )
        assert found.memory_bytes == (None if mean.memory_bytes is None else pytest.approx(mean.memory_bytes, abs=MIB))


@pytest.mark.parametrize(
    "line",
    [
        "ReplicaSet/web nan 1Mi 1",
        "ReplicaSet/web -1m 1Mi 1",
        "ReplicaSet/web 9999999m 1Mi 1",
        "ReplicaSet/web 1m 999999999Mi 1",
        "ReplicaSet/web 1 1Mi 1",
        "ReplicaSet/web 1m 1Mi",
        "ReplicaSet/web 1m 1Mi 1.5",
        "ReplicaSet/web \u0661m 1Mi 1",
        "",
    ],
)
def test_a_line_that_is_not_ours_costs_itself_only(line: str) -> None:
    data = owner_usage.encode(NOW, {}) | {"ns.shop": f"ReplicaSet/api 1m 1Mi 1\n{line}\nReplicaSet/z 2m 2Mi 1"}
    read = owner_usage.decode(data)
    assert (set(read.means), read.refused) == ({"shop/ReplicaSet/api", "shop/ReplicaSet/z"}, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [({}, "version"), ({"v": "2"}, "version"), ({"v": "1"}, "no_time"), ({"v": "1", "at": "now"}, "no_time")],
)
def test_data_without_a_version_and_a_time_are_unusable(data: dict[str, str], reason: str) -> None:
    with pytest.raises(owner_usage.UsageError, match="evenload-usage is unusable") as caught:
        owner_usage.decode(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("amount", "reason"), [(0.0, None), (100.0, None), (math.nan, "nan"), (-1.0, "negative"), (math.inf, "over_range")]
)
def test_amounts_that_cannot_be_have_a_reason(amount: float, reason: str | None) -> None:
    assert owner_usage.invalid_reason(amount, owner_usage.MOST_CPU_MILLICORES) == reason


def test_means_are_usable_for_an_hour_and_renewed_three_times_in_it() -> None:
    published = owner_usage.PublishedUsage(NOW, MEANS)
    assert owner_usage.usable(published, NOW + 3599, SYNC)
    assert not owner_usage.usable(published, NOW + 3600, SYNC)
    assert not owner_usage.usable(published, NOW - 120, SYNC)
    assert owner_usage.renew_after_seconds(SYNC) == 1200


def test_where_not_all_fit_recent_owners_come_first_and_then_large_ones() -> None:
    means = {f"n/ReplicaSet/{name}": Mean(1, MIB, size) for name, size in (("a", 1), ("b", 9), ("c", 5), ("d", 5))}
    line_bytes = len("n/ReplicaSet/a 1.0m 1.0Mi 1") + 1
    kept = owner_usage.fitting(means, {"n/ReplicaSet/a"}, most_bytes=3 * line_bytes)
    assert list(kept) == ["n/ReplicaSet/a", "n/ReplicaSet/b", "n/ReplicaSet/c"]
    assert owner_usage.fitting(means, ()).keys() == means.keys()


def test_a_name_too_long_to_fit_costs_no_other_owner_its_place() -> None:
    huge = f"n/ReplicaSet/{'x' * 2_000_000}"
    means = {huge: Mean(1, MIB, 900), "n/ReplicaSet/a": Mean(1, MIB, 5), "n/ReplicaSet/b": Mean(1, MIB, 4)}
    assert list(owner_usage.fitting(means, {huge})) == ["n/ReplicaSet/a", "n/ReplicaSet/b"]


def test_what_fits_is_counted_in_bytes_as_an_apiserver_counts() -> None:
    means = {f"n/ReplicaSet/{'字' * 300}{n}": Mean(1, MIB, 1) for n in range(1000)}
    data = owner_usage.encode(NOW, owner_usage.fitting(means, ()))
    assert owner_usage.size_bytes(means) > owner_usage.MOST_BYTES
    assert sum(len(text.encode()) for text in data.values()) <= owner_usage.MOST_BYTES + 1024


def test_all_that_fits_stays_under_what_an_apiserver_takes() -> None:
    many = {f"namespace-{n % 50}/ReplicaSet/service-{n}": Mean(n + 0.5, n * MIB, n) for n in range(40_000)}
    kept = owner_usage.fitting(many, ())
    data = owner_usage.encode(NOW, kept)
    assert 10_000 < len(kept) < len(many)
    assert sum(len(key) + len(text) for key, text in data.items()) < 1024 * 1024 - 64 * 1024


@pytest.mark.parametrize(
    ("after", "worth"),
    [
        pytest.param(Mean(119, 256 * MIB, 7), False, id="a small move"),
        pytest.param(Mean(145, 256 * MIB, 7), True, id="a fifth more CPU"),
        pytest.param(Mean(120, 310 * MIB, 7), True, id="a fifth more memory"),
        pytest.param(Mean(120, 256 * MIB, 70), False, id="more replicas of the same use"),
        pytest.param(Mean(None, 256 * MIB, 7), True, id="CPU no longer known"),
    ],
)
def test_only_moves_of_a_fifth_are_worth_a_write(after: Mean, worth: bool) -> None:
    before = {"shop/ReplicaSet/web": Mean(120, 256 * MIB, 7)}
    assert owner_usage.moved(before, {"shop/ReplicaSet/web": after}) is worth


def test_the_noise_of_small_pods_is_not() -> None:
    assert not owner_usage.moved({"a": Mean(1, MIB, 1)}, {"a": Mean(15, 20 * MIB, 1)})
    assert owner_usage.moved({"a": Mean(1, MIB, 1)}, {})
    assert owner_usage.moved({}, {"a": Mean(1, MIB, 1)})
