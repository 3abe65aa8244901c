"""The texts that coverage-guided fuzzing kept break no property."""

import pathlib
from unittest import mock

import hypothesis
import pytest

from lab.campaigns.guided import targets

KEPT = sorted(path for path in targets.CORPUS.glob("*/*") if path.is_file())


def test_every_target_has_kept_texts() -> None:
    assert {path.parent.name for path in KEPT} == set(targets.TARGETS)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name[:8]}")
def test_a_kept_text_breaks_no_property(path: pathlib.Path) -> None:
    with mock.patch.object(hypothesis, "event"):
        targets.TARGETS[path.parent.name].check(path.read_bytes())


@pytest.mark.parametrize("name", targets.TARGETS)
def test_samples_break_no_property(name: str) -> None:
    with mock.patch.object(hypothesis, "event"):
        for sample in targets.TARGETS[name].samples:
            targets.TARGETS[name].check(sample)
