"""Lasting trouble is told when it begins, changes and ends."""

import logging

import pytest

from annotator import change_logger


@pytest.fixture
def log_records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_trouble_is_one_line_until_it_changes_and_one_when_it_is_over(log_records: pytest.LogCaptureFixture) -> None:
    topics = change_logger.ChangeLogger()
    for trouble in ("", "node-1", "node-1", "node-2", None, None):
        topics.update("nodes have no values", trouble, nodes=1)
    assert [record.levelname for record in log_records.records] == ["WARNING", "WARNING", "INFO"]


def test_topics_of_different_metrics_do_not_silence_each_other(log_records: pytest.LogCaptureFixture) -> None:
    topics = change_logger.ChangeLogger()
    topics.update("values refused", "node-1: nan", metric="cpu_avg_5m")
    topics.update("values refused", "node-1: nan", metric="memory_avg_5m")
    assert len(log_records.records) == 2
