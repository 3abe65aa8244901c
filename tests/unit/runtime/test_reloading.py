from pathlib import Path

import pytest

from runtime import reloading
from tests import clocks


def parse(text: str, source: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{source}:1: not a number: {text}") from error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text("1")
    return path


def loaded(path: Path, clock: clocks.ManualClock | None = None) -> reloading.Reloading[int]:
    made = reloading.Reloading(path, parse, clock=clock or clocks.ManualClock(1000.0))
    made.load()
    return made


def test_the_first_load_gives_value_hash_and_time(file: Path) -> None:
    made = loaded(file)
    assert (made.current, made.content_hash, made.loaded_at_seconds, made.error) == (1, "6b86b273ff34", 1000.0, None)


def test_the_first_load_raises_what_is_wrong(file: Path) -> None:
    file.write_text("one")
    with pytest.raises(ValueError, match="not a number: one"):
        loaded(file)
    with pytest.raises(FileNotFoundError):
        loaded(file.parent / "none.yaml")


def test_an_unchanged_file_changes_nothing_but_the_time_of_the_check(file: Path) -> None:
    clock = clocks.ManualClock(1000.0)
    made = loaded(file, clock)
    clock.advance(5)
    file.touch()
    assert not made.poll()
    assert (made.loaded_at_seconds, made.checked_at_seconds) == (1000.0, 1005.0)


def test_a_changed_file_is_taken_when_two_polls_agree(file: Path) -> None:
    made = loaded(file)
    file.write_text("2")
    assert not made.poll()
    assert made.current == 1
    assert made.poll()
    assert (made.current, made.content_hash) == (2, reloading.content_hash(b"2"))
    assert not made.poll()


@pytest.mark.parametrize("content", [b"two", b"\xff\xfe", b""], ids=["does not parse", "is no UTF-8", "is empty"])
def test_a_bad_change_keeps_the_last_good_value_and_says_why(file: Path, content: bytes) -> None:
    made = loaded(file)
    file.write_bytes(content)
    assert not made.poll()
    assert made.error is None, "it may be half written"
    assert not made.poll()
    assert (made.current, made.content_hash) == (1, "6b86b273ff34")
    assert made.error
    error = made.error
    assert not made.poll()
    assert made.error == error


@pytest.mark.parametrize(("content", "polls"), [(None, 1), ("two", 2)], ids=["a missing file", "a bad one"])
def test_the_last_good_value_stays_and_its_return_heals(file: Path, content: str | None, polls: int) -> None:
    made = loaded(file)
    file.unlink() if content is None else file.write_text(content)
    assert not any(made.poll() for _ in range(polls))
    assert made.error is not None
    assert str(file) in made.error
    file.write_text("1")
    assert not made.poll()
    assert made.error is None


def test_a_swapped_symlink_as_of_a_config_map_is_seen(tmp_path: Path) -> None:
    for name, text in (("first", "1"), ("second", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    data = tmp_path / "..data"
    data.symlink_to("first")
    made = loaded(tmp_path / "..data" / "policy.yaml")
    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").rename(data)
    assert not made.poll()
    assert made.poll()
    assert made.current == 2


def test_what_comes_into_force_is_logged_at_the_start_and_after_a_change(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def describe(value: int) -> tuple[dict[str, str], list[str]]:
        return {"score.combine": f"value {value}"}, [f"value: {value} is small"]

    made = reloading.Reloading(file, parse, clock=clocks.ManualClock(1000.0), describe=describe)
    with caplog.at_level("INFO"):
        made.load()
        file.write_text("2")
        made.poll()
        made.poll()
        made.poll()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"] * 2
    for value, record in ((1, caplog.records[0]), (2, caplog.records[2])):
        assert f"value {value}" in record.getMessage()
        assert "file in force" in record.getMessage()
    assert "value: 2 is small" in caplog.records[3].getMessage()


def test_a_file_that_is_written_in_place_is_taken_when_it_is_whole(file: Path) -> None:
    made, values = loaded(file), []
    for beginning in ("", "1", "12", "123", "123", "123"):
        file.write_text(beginning)
        made.poll()
        values.append((made.current, made.error))
    assert values == [(1, None)] * 4 + [(123, None)] * 2


def test_a_file_that_is_gone_between_two_readings_is_read_twice_again(file: Path) -> None:
    made = loaded(file)
    file.write_text("2")
    made.poll()
    file.unlink()
    made.poll()
    file.write_text("2")
    assert not made.poll()
    assert made.poll()


def test_a_file_that_was_written_a_moment_before_the_start_is_read_again(file: Path) -> None:
    def go_on(_seconds: float) -> None:
        file.write_text("12")

    clock = clocks.ManualClock(file.stat().st_mtime + 0.9, on_wait=go_on)
    assert loaded(file, clock).current == 12
    assert clock.waits == [1.0]


def test_a_file_that_was_left_alone_is_read_once_at_the_start(file: Path) -> None:
    clock = clocks.ManualClock(file.stat().st_mtime + 1.1)
    loaded(file, clock)
    assert not clock.waits


def test_a_process_that_takes_over_takes_a_settled_file_at_once(file: Path) -> None:
    made = loaded(file)
    file.write_text("2")
    assert made.poll(at_start=True)
    assert made.current == 2


def test_a_device_without_an_end_is_refused_and_the_last_good_value_stays(file: Path) -> None:
    made = loaded(file)
    file.unlink()
    file.symlink_to("/dev/zero")
    assert not made.poll()
    assert made.current == 1
    assert made.error == (
        f"{file}: it is larger than 1024 KiB: expected a readable file; the last good one stays in force"
    )
