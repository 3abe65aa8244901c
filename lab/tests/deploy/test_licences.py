"""The page of licences is of what is pinned, and each licence goes with Apache-2.0."""

import importlib.metadata
import pathlib

import pytest

from lab import licences

ROOT = pathlib.Path(__file__).parents[3]


def test_the_page_is_of_what_is_installed() -> None:
    page = (ROOT / "docs" / "reference" / "licences.md").read_text(encoding="utf-8")
    assert page == licences.page(), "run make -C lab licences"


@pytest.mark.parametrize("name", licences.names())
def test_a_licence_goes_with_ours(name: str) -> None:
    assert set(licences.identifiers(licences.of_package(name))) <= licences.COMPATIBLE


def test_the_identifiers_of_an_expression_are_all_of_them() -> None:
    assert list(licences.identifiers("(MIT OR GPL-3.0-only) AND Zlib")) == ["MIT", "GPL-3.0-only", "Zlib"]


def test_a_package_without_a_licence_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bare-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: bare\nVersion: 1\nLicense: ask us\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match="bare: its metadata names no licence"):
        licences.of_package("bare")
