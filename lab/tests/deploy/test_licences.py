"""The page of licences is of what is pinned, and each licence goes with Apache-2.0."""

import pathlib
import subprocess

import pytest

from lab import licences

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "reference" / "licences.md"


def test_the_page_is_of_what_is_installed() -> None:
    assert PAGE.read_text(encoding="utf-8") == licences.page(), "run make -C lab licences"


def test_a_licence_that_does_not_go_with_ours_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "COMPATIBLE", tuple(one for one in licences.COMPATIBLE if one != "PSF-2.0"))
    with pytest.raises(subprocess.CalledProcessError):
        licences.page()
