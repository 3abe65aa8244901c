"""Fixtures of several suites: a control plane with two workloads, as new for each test, and the image."""

import collections.abc

import pytest

from tests import shared
from tests.contract import built_image, descheduler_site
from tests.contract.built_image import Built
from tests.contract.descheduler_site import Site, Watcher


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The image of this tree."""
    return built_image.build(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Four nodes and two workloads; no descheduler runs."""
    return shared.shared("plane", lambda: descheduler_site.of_two_workloads(tmp_path_factory.mktemp("site")))


@pytest.fixture
def site(plane: Site) -> Site:
    """The plane as new."""
    plane.renew()
    return plane


@pytest.fixture
def watcher(site: Site) -> collections.abc.Iterator[Watcher]:
    """A watcher of the site that has looked once."""
    with Watcher(site.door) as made:
        made.look()
        yield made
