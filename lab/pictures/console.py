"""`make -C lab pictures`: the README's pictures, of the console and of the report, taken from the demo in Chromium.

The console shows the simulated day of `evenload console --demo` at the moment when the descheduler has relieved nodes;
the report is the one that `evenload demo` writes. Both are of fixed seeds, so that a picture changes with the page.
"""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from playwright import sync_api

from tests.browser import chromium
from tests.e2e import services, waiting

ROOT: Final = pathlib.Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "pictures"
HOURS: Final = 5.5
WIDTH, HEIGHT = 1280, 860
LOADED_SECONDS: Final = 180.0
ARGUMENTS: Final = ("--no-sandbox", "--force-color-profile=srgb", "--hide-scrollbars")


def main() -> None:
    """Takes both pictures."""
    FOLDER.mkdir(exist_ok=True)
    with sync_api.sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        with console(pathlib.Path(scratch)) as url:
            page.goto(url)
            taken(page, "console", "#decision-list td button")
        report = pathlib.Path(scratch) / "report.html"
        evenload("demo", "--html", str(report))
        page.goto(report.as_uri())
        page.screenshot(path=FOLDER / "report.png")
        browser.close()


def taken(page: sync_api.Page, name: str, first: str) -> None:
    """A picture once the page has what `first` names, with the hottest node and the newest decision chosen."""
    page.locator(first).first.wait_for(timeout=1000 * LOADED_SECONDS)
    page.locator("#timeline").wait_for(timeout=1000 * LOADED_SECONDS)
    page.locator("#map").focus()
    page.keyboard.press("Home")
    page.locator(first).first.click()
    page.locator("#pods table").wait_for()
    page.locator("#decision table").first.wait_for()
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.screenshot(path=FOLDER / f"{name}.png")


@contextlib.contextmanager
def console(scratch: pathlib.Path) -> Iterator[str]:
    """`evenload console --demo`, standing still at HOURS; its URL."""
    port, log = services.free_port(), scratch / "console.log"
    words = ["--demo", "--demo-hours", str(HOURS), "--demo-pause", "600", "--listen", f"127.0.0.1:{port}"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command("console", *words), cwd=ROOT, stdout=stream, stderr=stream)
    try:
        waiting.eventually(lambda: "open http" in log.read_text(), LOADED_SECONDS, "the console to listen")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def evenload(*words: str) -> None:
    """Runs a command to its end."""
    subprocess.run(command(*words), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def command(*words: str) -> list[str]:
    """`evenload` of this tree."""
    return [sys.executable, "-m", "cli", *words]


if __name__ == "__main__":
    main()
