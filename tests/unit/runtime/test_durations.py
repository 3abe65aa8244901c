"""Durations with days and weeks."""

import pytest

from runtime import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("45m", 2700), ("2h30m", 9000), ("7d", 604_800), ("1w", 604_800), ("1d12h", 129_600), ("0s", 0)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "1.5h", "-1h", "1h 30m", "1y", "h1", "\u0667d", "999999999w"])
def test_any_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write such as 7d, 12h or 90m"):
        durations.seconds(text)
