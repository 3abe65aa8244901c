"""The cache's place follows the environment, its keys follow the content, its lock excludes a second build."""

import fcntl
import pathlib

import pytest

from lab.cluster import cache


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"EVENLOAD_CACHE": "/x", "XDG_CACHE_HOME": "/y"}, "/x", id="our own variable wins"),
        pytest.param({"XDG_CACHE_HOME": "/y"}, "/y/evenload", id="the desktop's variable is honoured"),
        pytest.param({}, str(pathlib.Path.home() / ".cache" / "evenload"), id="the home directory is the default"),
    ],
)
def test_the_cache_is_where_the_environment_says(environment: dict[str, str], expected: str) -> None:
    assert str(cache.root(environment)) == expected


def test_a_key_changes_with_any_part_and_with_where_a_part_ends() -> None:
    keys = {cache.key("a", "b"), cache.key("a", "c"), cache.key("ab"), cache.key("ab", "")}
    assert len(keys) == 4
    assert cache.key("a", "b") == cache.key("a", "b")


def test_a_locked_directory_cannot_be_locked_by_another(tmp_path: pathlib.Path) -> None:
    with (
        cache.locked(tmp_path / "new"),
        (tmp_path / "new" / "lock").open() as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "new" / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
