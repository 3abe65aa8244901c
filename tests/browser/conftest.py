"""One Chromium for the suite, a context of its own for each test, and a page that fails the test on any error in it."""

import collections.abc
from typing import Any

import pytest
from playwright import sync_api

from tests.browser import chromium, serving

ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb")
WAIT_MILLISECONDS = 30_000.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a Chromium nothing here can run; `make browser` has said so."""
    if chromium.path() is None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no Chromium: install Debian's package chromium"))


@pytest.fixture(scope="session")
def browser() -> collections.abc.Iterator[sync_api.Browser]:
    """The browser."""
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium.path(), args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture
def tab(browser: sync_api.Browser) -> collections.abc.Iterator["Tab"]:
    """A window of 1400 pixels."""
    opened = Tab(browser)
    yield opened
    opened.close()
    assert opened.errors == []


class Tab:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser: sync_api.Browser) -> None:
        self._context = browser.new_context(viewport={"width": 1400, "height": 900})
        self._context.set_default_timeout(WAIT_MILLISECONDS)
        self.page = self._context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._log)

    def _log(self, message: sync_api.ConsoleMessage) -> None:
        if message.type == "error" and "net::" not in message.text and "the server responded" not in message.text:
            self.errors.append(message.text)

    def open(self, console: serving.Console, **topics: Any) -> None:
        """Loads the page of a console whose topics have these bodies."""
        console.show(**topics)
        self.page.goto(console.url)

    def close(self) -> None:
        """The end of the context."""
        self._context.close()
