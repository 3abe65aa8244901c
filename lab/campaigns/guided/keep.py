"""`python -m lab.campaigns.guided.keep TARGET DIRECTORY`: keep the fewest texts that reach the same lines.

Those kept before are among them. By turns the text that reaches most lines that none before it reached; of equal ones
the shortest.
"""

import hashlib
import pathlib
import sys
from types import FrameType
from typing import Any, Final
from unittest import mock

import click
import hypothesis

from lab.campaigns.guided import targets
from lab.campaigns.guided.targets import Target
from tests.e2e import services

TESTS: Final = str(services.ROOT / "tests")
INSTALLED: Final = str(services.ROOT / ".venv")
LAB: Final = str(services.ROOT / "lab")
LONGEST_BYTES: Final = 2048
Line = tuple[str, int]


@click.command()
@click.argument("name", type=click.Choice(list(targets.TARGETS)))
@click.argument("directory", type=click.Path(path_type=pathlib.Path, exists=True))
def main(name: str, directory: pathlib.Path) -> None:
    """Choose among the texts of a directory and those kept before."""
    kept = targets.CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    paths = [*directory.iterdir(), *kept.iterdir()]
    texts = sorted({path.read_bytes() for path in paths}, key=lambda text: (len(text), text))
    with mock.patch.object(hypothesis, "event"):
        reached = {text: lines(targets.TARGETS[name], text) for text in texts if len(text) <= LONGEST_BYTES}
    chosen = fewest(reached)
    for path in kept.iterdir():
        path.unlink()
    for text in chosen:
        (kept / hashlib.sha256(text).hexdigest()[:16]).write_bytes(text)
    count = len(set().union(*reached.values()))
    click.echo(f"{name}: {len(chosen)} of {len(texts)} texts, {sum(map(len, chosen))} bytes, {count} lines")


def lines(target: Target, text: bytes) -> frozenset[Line]:
    """Returns the lines of our packages that a text reaches."""
    found: set[Line] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(str(services.ROOT)) or file.startswith((TESTS, INSTALLED, LAB)):
            return None
        if event == "line":
            found.add((file, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        target.check(text)
    finally:
        sys.settrace(None)
    return frozenset(found)


def fewest(reached: dict[bytes, frozenset[Line]]) -> list[bytes]:
    """Returns texts that together reach all lines; `reached` has the shortest first."""
    chosen: list[bytes] = []
    missing = set().union(*reached.values())
    while missing:
        best = max(reached, key=lambda text: len(missing & reached[text]))
        chosen.append(best)
        missing -= reached[best]
    return chosen


if __name__ == "__main__":
    main()
