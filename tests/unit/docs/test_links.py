"""Links between the pages lead somewhere: the file is there, and so is the heading behind a #."""

import pathlib
import re

from tests import pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: pathlib.Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    found = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def broken(page: pathlib.Path) -> list[str]:
    """The links of a page into the tree that lead nowhere."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    inside = [link for pair in LINK.findall(text) if "://" not in (link := "".join(pair))]
    return [link for link in inside if not leads_somewhere(page, link)]


def leads_somewhere(page: pathlib.Path, link: str) -> bool:
    """Whether the file, and the heading if one is named, are there."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


def test_every_link_into_the_tree_leads_somewhere() -> None:
    assert {str(page): links for page in pages.PAGES if (links := broken(page))} == {}


def test_a_link_to_nowhere_is_found(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page, with a `name`\n[here](#a-page-with-a-name) [gone](gone.md)\n[also]: page.md#not-there\n")
    assert broken(page) == ["gone.md", "page.md#not-there"]


def test_every_page_of_docs_is_linked_from_the_readme_or_another_page() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in pages.PAGES
        for pair in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in (link := "".join(pair)) and link.partition("#")[0]
    }
    known = {*linked, *(page for folder in linked if folder.is_dir() for page in folder.glob("*.md"))}
    alone = [str(page) for page in pages.PAGES if page.name != "README.md" and page not in known]
    assert not alone
