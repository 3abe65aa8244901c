"""Upgrade from 0.1.0 and back: files that 0.1.0 wrote are read without a loss, and texts written now are its own.

`v0_1_0/` holds them, made by 0.1.0's code: a ledger as SQL, a Node's annotations and two ConfigMaps, a policy with
every key, that policy and the defaults as 0.1.0 understood them, and its chart's values, which
tests/contract/test_helm.py reads. 0.1.0 reads what is written now as long as it is the same, byte for byte; a test that
fails here changes docs/reference/compatibility.md.
"""

import contextlib
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from descheduler.ledger import sql_schema
from descheduler.ledger.database import LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from lab.release import changelog
from policy.contract import heartbeat, load_annotation, node_thresholds, owner_usage, relief_hint
from policy.loading import loader
from policy.schema import load_policy
from tests.unit.descheduler import test_ledger

ROOT: Final = pathlib.Path(__file__).parents[3]
HERE: Final = pathlib.Path(__file__).with_name("v0_1_0")
STEPS: Final = 6  # of its ledger's schema
TABLES: Final = ("evictions", "runs", "events", "breaker_resets", "set_asides")
NODE, BEAT, USAGE = list(yaml.safe_load_all((HERE / "objects.yaml").read_text(encoding="utf-8")))
ANNOTATIONS: Final[Mapping[str, str]] = NODE["metadata"]["annotations"]
LOAD: Final = ANNOTATIONS[load_annotation.KEY]
RELIEF: Final = ANNOTATIONS[relief_hint.KEY]
# Defaults of 0.1.0 that have changed since, as CHANGELOG.md announces, with what they are now.
CHANGED: Final[Mapping[str, object]] = {"spread": "stretch"}


def content(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, by table."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.row_factory = sqlite3.Row
        return {name: [dict(row) for row in file.execute(f"SELECT * FROM {name}")] for name in TABLES}  # noqa: S608


def schema(path: pathlib.Path) -> dict[str, list[tuple[Any, ...]]]:
    """The columns of every table, and the indexes."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        columns = {name: file.execute(f"PRAGMA table_info({name})").fetchall() for name in TABLES}
        columns["indexes"] = file.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'").fetchall()
    return {name: sorted(rows) for name, rows in columns.items()}


def within(now: object, before: object) -> bool:
    """Whether all that was there is there still; what was added is no loss."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in now and within(now[key], value) for key, value in before.items())
    if isinstance(before, list) and isinstance(now, list):
        return len(now) == len(before) and all(map(within, now, before))
    return now == before


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value that is no mapping, with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}".removeprefix("."))
    else:
        yield path, value


@pytest.fixture
def old(tmp_path: pathlib.Path) -> pathlib.Path:
    """The ledger of 0.1.0 as a file."""
    path = tmp_path / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.executescript((HERE / "ledger.sql").read_text(encoding="utf-8"))
    return path


@pytest.fixture
def opened(old: pathlib.Path) -> Iterator[Ledger]:
    """That ledger, opened."""
    ledger = Ledger(old).open()
    yield ledger
    ledger.close()


def test_a_ledger_is_opened_and_every_value_of_every_row_stays(old: pathlib.Path) -> None:
    before = content(old)
    assert {name: len(rows) for name, rows in before.items()} == {
        "evictions": 11,
        "runs": 1,
        "events": 2,
        "breaker_resets": 1,
        "set_asides": 1,
    }
    Ledger(old).open().close()
    after = content(old)
    for name, rows in before.items():
        assert [
            {key: row[key] for key in row_before} for row_before, row in zip(rows, after[name], strict=True)
        ] == rows


def test_its_rows_are_found_and_counted(opened: Ledger) -> None:
    rows = opened.rows(Query())
    assert len(rows) == 11
    assert {row.result for row in rows} >= {
        "evicted",
        "refused",
        "failed",
        "unknown",
        "intended",
        "dry_run",
        "observed",
    }
    (whole,) = [row for row in rows if row.result == "evicted"]
    assert (whole.landed_node, whole.load_30m_ratio, whole.flow) == ("cool", 0.6, "namespaces=shop")
    assert [row.result for row in opened.open_rows()] == ["unknown", "intended"]
    past = opened.history("Enforce", now_seconds=whole.at_seconds + 800, window_seconds=0.0)
    assert past.in_last_hour == 4  # of an open or a done eviction
    assert [event.reason for event in opened.events()] == ["Evicted", "NodeOverloaded"]
    assert opened.set_aside_at_seconds() is not None


def test_new_rows_follow_the_old_ones(opened: Ledger) -> None:
    last = max(row.id for row in opened.rows(Query()))
    assert test_ledger.record(opened, "evicted", name="new") == last + 1


def test_a_step_of_the_schema_that_was_released_never_changes(old: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "again.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.executescript(";".join(sql_schema.STEPS[:STEPS]))
    assert schema(path) == schema(old)


def test_0_1_0_opens_a_ledger_of_this_version_because_no_step_was_added() -> None:
    """When one is: 0.1.0 refuses the file with exit code 2, and docs/reference/compatibility.md must say so."""
    assert len(sql_schema.STEPS) == STEPS


def test_a_ledger_of_a_later_version_is_refused_and_stays_as_it_is(old: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(old)) as file, file:
        file.execute("ALTER TABLE evictions ADD COLUMN later TEXT NOT NULL DEFAULT 'x'")
        file.execute(f"PRAGMA user_version = {len(sql_schema.STEPS) + 1}")
    before = content(old)
    with pytest.raises(LedgerError, match=f"schema version {len(sql_schema.STEPS) + 1}"):
        Ledger(old).open()
    assert content(old) == before


def test_the_load_annotation_is_read_and_written_alike() -> None:
    reading = load_annotation.decode(LOAD)
    assert reading.values["cpu_avg_5m"] == 0.3127
    assert reading.values["gpu_avg_5m"] == 0.5, "of a metric that no policy here has"
    assert not reading.invalid
    assert load_annotation.encode(reading) == LOAD


def test_the_heartbeat_is_read_confirms_the_annotation_and_is_written_alike() -> None:
    beat = heartbeat.decode(BEAT["data"])
    assert beat.digest == heartbeat.digest({NODE["metadata"]["name"]: LOAD})
    written = heartbeat.encode(beat.at_seconds, beat.policy_hash, beat.nodes, beat.digest, excluded=beat.excluded)
    assert written == BEAT["data"]


def test_the_relief_hint_is_read_and_written_alike() -> None:
    hint = relief_hint.decode(RELIEF)
    assert hint is not None
    assert set(hint.untils_seconds) == {"rs-web", "rs-api"}
    assert relief_hint.encode(hint) == RELIEF


def test_the_owners_usage_is_read_and_written_alike() -> None:
    published = owner_usage.decode(USAGE["data"])
    assert (len(published.means), published.refused) == (3, 0)
    assert owner_usage.encode(published.at_seconds, published.means) == USAGE["data"]


def test_thresholds_of_a_node_are_read() -> None:
    own = node_thresholds.decode(ANNOTATIONS[node_thresholds.KEY])
    assert own == node_thresholds.Own({"cpu_avg_5m": 0.9, "memory_avg_5m": 0.7, "cpu_max_1h": 0.0}, ())


READERS: Final[dict[str, Callable[[Mapping[str, object]], object]]] = {
    "load": lambda extra: load_annotation.decode(json.dumps({**json.loads(LOAD), **extra})),
    "heartbeat": lambda extra: heartbeat.decode({**BEAT["data"], **{key: str(value) for key, value in extra.items()}}),
    "relief": lambda extra: relief_hint.decode(json.dumps({**json.loads(RELIEF), **extra})),
    "usage": lambda extra: owner_usage.decode({**USAGE["data"], **{key: str(value) for key, value in extra.items()}}),
}


@pytest.mark.parametrize("text", READERS)
def test_a_key_that_a_later_version_adds_is_ignored(text: str) -> None:
    read = READERS[text]
    assert read({}) is not None
    assert read({"later": 1}) == read({})


def test_a_policy_means_what_it_meant() -> None:
    policy = loader.load((HERE / "policy.yaml").read_text(encoding="utf-8"), "policy.yaml")
    assert within(policy.as_file(), json.loads((HERE / "policy.json").read_text(encoding="utf-8")))


def test_what_a_policy_leaves_out_means_what_it_meant() -> None:
    """A default that changes is a change for users: CHANGELOG.md announces it, and this file follows."""
    before = json.loads((HERE / "defaults.json").read_text(encoding="utf-8"))
    assert all(before["score"][key] != value for key, value in CHANGED.items())
    before["score"] |= CHANGED
    assert within(load_policy.defaults().as_file(), before)


def test_the_policy_gives_every_key_another_value_than_its_default() -> None:
    policy, defaults = (
        json.loads((HERE / f"{name}.json").read_text(encoding="utf-8")) for name in ("policy", "defaults")
    )
    kept = {path for path, value in leaves(policy) if (path, value) in list(leaves(defaults))}
    assert kept == {"apiVersion", "kind"}


def test_the_page_names_the_sections_that_0_1_0_refuses() -> None:
    """It refuses a key that it does not know, so that who goes back to it must take these out."""
    before = json.loads((HERE / "defaults.json").read_text(encoding="utf-8"))
    added = {path for path, _ in leaves(load_policy.defaults().as_file())} - {path for path, _ in leaves(before)}
    sections = {path.split(".")[0] for path in added} - before.keys()
    assert sections == {"extender", "pools", "podClasses"}
    keys = {".".join((path.split(".")[0], path.split(".")[-1])) for path in added if path.split(".")[0] in before}
    of_descheduler = {f"descheduler.{key}" for key in ("overMean", "evictionCost", "gracePeriod", "groups")}
    of_descheduler |= {f"descheduler.{key}" for key in ("enabled", "atOnce", "readyWithin")}  # of `surge`
    assert keys == {"score.goal", "score.target"} | of_descheduler
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
    assert "0.2.0 adds the policy's sections `extender`, `pools` and `podClasses`, the keys `goal` and `target`" in page
    assert (
        "0.3.0 adds `groups` and `markers.evictionCost` of `descheduler.protect`, and `descheduler.gracePeriod`" in page
    )
    assert "`overMean` of a band of `descheduler` and `podQuery` of a metric" in " ".join(page.split())


def test_the_page_states_the_versions_that_are_written() -> None:
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| 0.", "| 1."))]
    versions = {row[0]: row[1:7] for row in rows if len(row) == 8}
    written = [f"`{load_policy.API_VERSION}`", str(load_annotation.VERSION), heartbeat.VERSION, owner_usage.VERSION]
    written += [str(relief_hint.VERSION), str(len(sql_schema.STEPS))]
    assert list(versions.values())[-1] == written
    assert versions["0.1.0"] == ["`evenload.io/v1alpha1`", "1", "1", "1", "1", str(STEPS)]
    newest = next(iter(changelog.sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))))
    assert list(versions)[-1] in newest, "a row for each version of CHANGELOG.md"
