"""The image of this tree, built without a registry for the tests that run it."""

import os
import pathlib
from typing import NamedTuple

import pytest

from lab.image import archive, container, engine
from tests.e2e import waiting

ROOT = pathlib.Path(__file__).parents[2]
TIMESTAMP = 1_790_000_000


class Built(NamedTuple):
    """The image, its configuration's digest, its archive and its files."""

    image: archive.Image
    configuration_digest: str
    path: pathlib.Path
    root: pathlib.Path


def build(directory: pathlib.Path, timestamp: int = TIMESTAMP) -> Built:
    """Builds with the steps of earlier builds. Where it cannot, the test is skipped with the reason; in CI it fails."""
    if reason := engine.obstacle():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    made = engine.Engine()
    made.build(ROOT, timestamp=timestamp)
    made.export(directory / "evenload.tar")
    archive.unpack(directory / "evenload.tar", directory / "root")
    image = archive.read(directory / "evenload.tar")
    return Built(image, made.configuration_digest(), directory / "evenload.tar", directory / "root")


def printed(built: Built, directory: pathlib.Path, *arguments: str, **mounts: pathlib.Path) -> str:
    """Runs a command in a container of its own; returns its stdout. The exit code must be 0."""
    at = {f"/mnt/{name}": path for name, path in mounts.items()}
    config = container.bundle(built.image, built.root, arguments, at)
    with container.running(directory, config) as one:
        assert one.wait(waiting.START_SECONDS) == 0, one.log()
        return one.printed()
