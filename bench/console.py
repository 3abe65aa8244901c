"""Time of the console's page in Chromium with 5,000 nodes: until they are drawn, and from a change to its picture.

The page is served as in life; the bodies of its topics are made up. A change is timed in the browser, from the moment
at which the console publishes it (one clock, this machine's) to the frame after the one in which it was drawn. The
reference of each is the same with ten nodes: what a page, its files and an event take on this machine at all.
"""

import collections.abc
import contextlib
import functools
import random
import statistics
from typing import Final, NamedTuple

from playwright import sync_api

from bench.table import Row
from runtime import clock
from tests.browser import chromium, serving
from tests.unit.console import pages

FEW: Final = 10
DRAWN_MILLISECONDS: Final = 1000.0
ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage")
# A promise of the time at which the summary has said so many nodes over a limit, and a frame has passed.
_WAIT: Final = """over => new Promise(done => {
  const summary = document.getElementById('nodes-summary')
  const look = () => summary.textContent.endsWith(`; ${over} over a limit`)
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(Date.now()))) : setTimeout(look, 1)
  look()
})"""


class Settings(NamedTuple):
    """How many nodes, and how often each is measured."""

    nodes: int = 5000
    repeats: int = 7
    seed: int = 1


class Times(NamedTuple):
    """Medians in milliseconds."""

    opened: float
    changed: float


def measure(settings: Settings) -> list[Row]:
    """Two rows, each beside the same with a few nodes."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=list(ARGUMENTS))
        few, many = (_measured(browser, count, settings) for count in (FEW, settings.nodes))
        browser.close()
    what = f"{settings.nodes:,} nodes"
    return [
        Row(f"console: page opened until drawn, {what}", many.opened, "ms", few.opened),
        Row(f"console: page opened until drawn, {what}, at most", many.opened, "ms", None, DRAWN_MILLISECONDS),
        Row(f"console: change until drawn, {what}", many.changed, "ms", few.changed),
        Row(f"console: change until drawn, {what}, at most", many.changed, "ms", None, DRAWN_MILLISECONDS),
    ]


def _measured(browser: sync_api.Browser, count: int, settings: Settings) -> Times:
    rng = random.Random(settings.seed)  # noqa: S311 - made-up loads
    loads: dict[str, float | None] = {f"node-{at:04d}.example": rng.random() * 0.6 for at in range(count)}
    opened, changed = list[float](), list[float]()
    for _ in range(settings.repeats):
        with serving.Console(pages.doors()).served() as console, _page(browser) as page:
            console.show(nodes=serving.nodes(loads))
            opened.append(_until(page, 0, functools.partial(page.goto, console.url)))
            hot = dict.fromkeys(list(loads)[: count // 2], 0.9)
            changed.append(_until(page, len(hot), functools.partial(console.show, nodes=serving.nodes(loads | hot))))
    return Times(statistics.median(opened), statistics.median(changed))


def _until(page: sync_api.Page, over: int, begin: collections.abc.Callable[[], object]) -> float:
    began_seconds = clock.WallClock().now()
    begin()
    return float(page.evaluate(_WAIT, over)) - 1000 * began_seconds


@contextlib.contextmanager
def _page(browser: sync_api.Browser) -> collections.abc.Iterator[sync_api.Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        yield context.new_page()
    finally:
        context.close()
