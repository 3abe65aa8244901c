"""The order of the suite: tests of a file share a world, and a node that was hot is no destination for an hour."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts tests on real nodes back into the order of their files, whatever shuffled them."""
    places = [index for index, item in enumerate(items) if item.get_closest_marker("real_nodes")]
    ordered = sorted((items[index] for index in places), key=lambda item: (str(item.path), item.location[1] or 0))
    for index, item in zip(places, ordered, strict=True):
        items[index] = item
