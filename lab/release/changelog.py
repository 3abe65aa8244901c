"""The sections of CHANGELOG.md: notes of a release, and the heading that changes get when they become a version."""

import re
from typing import Final

_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_NEXT: Final = "run `python -m lab.release version NUMBER` and commit"


class ChangelogError(ValueError):
    """A changelog that is not ready for a version; the message has the next step."""


def sections(text: str) -> dict[str, str]:
    """The text of each section by its title, newest first."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return {heading[1]: text[heading.end() : end].strip("\n") for heading, end in zip(headings, ends, strict=True)}


def notes(text: str, version: str) -> str:
    """The section of a version, which must be the newest one and have text; ChangelogError otherwise."""
    by_title = sections(text)
    newest = next(iter(by_title), "none")
    if newest != version:
        raise ChangelogError(f"CHANGELOG.md: the first section is {newest!r}, {version!r} expected; {_NEXT}")
    if not by_title[version]:
        raise ChangelogError(f"CHANGELOG.md: the section {version!r} is empty; write its changes and commit")
    return by_title[version] + "\n"


def numbered(text: str, version: str) -> str:
    """The text with its section `Unreleased (VERSION)` as that of the version; ChangelogError if it has none."""
    title = f"Unreleased ({version})"
    newest = next(iter(sections(text)), "none")
    if newest != title:
        raise ChangelogError(f"CHANGELOG.md: the first section is {newest!r}, {title!r} expected; write it first")
    return text.replace(f"## {title}\n", f"## {version}\n", 1)
