"""The control planes of the product's tests, for the tools that start and feed them."""

from tests.conftest import control_plane, pytest_runtest_teardown, pytest_sessionfinish

__all__ = ["control_plane", "pytest_runtest_teardown", "pytest_sessionfinish"]
