"""The command lines of evenload, kubectl and helm that a person is to type: on the pages, and printed by the product.

They stand in blocks, between backticks, or within a sentence, which goes on behind a pipe, a bracket or a comma. The
product prints the texts of its code, examples of --help, alerts and Helm's notes; X is what such a text gets later.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests import pages, sources

_TEMPLATES: Final = ("deploy/helm/evenload/templates/NOTES.txt", "deploy/monitoring/evenload-alerts.yaml")
_PRODUCT: Final = tuple(one for one in pages.PACKAGES if one not in ("lab", "tests"))
_END: Final = re.compile(r"`|;|,? &&|\$\(|\n|\\n| \|+ | -- | [<>#]|,(?= )|\)(?= )| \(")
_BEGIN: Final = re.compile(
    r"(?<![\w/.-])(evenload|kubectl(?! (?:evenload|krew)\b)|helm|python -m(?= (?:annotator|extender|descheduler)\b))"
    r" (?=-|[a-z])"
)


class CommandLine(NamedTuple):
    """A program with the words behind it, and where it stands."""

    place: str
    program: str
    words: tuple[str, ...]


def everywhere() -> list[CommandLine]:
    """Those of README.md and docs/, and those that the product prints."""
    found = []
    for page in pages.PAGES:
        found += [(block.place, one.text) for block in pages.blocks(page) for one in block.commands()]
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        found += [(str(page.relative_to(pages.ROOT)), " ".join(one.split())) for one in re.findall(r"`([^`]+)`", prose)]
    for name in _TEMPLATES:
        text = re.sub("{{-? (?:if|else|end).*?}}", "", (pages.ROOT / name).read_text(encoding="utf-8"))
        found.append((name, re.sub("{{.*?}}", "X", text)))
    found += [(str(path), text) for path in sources.paths(*_PRODUCT) for text in _texts(sources.tree(path))]
    return [one for place, text in found for one in lines(place, text)]


def _texts(tree: ast.AST) -> Iterator[str]:
    bare = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(node.value) for node in bare if "Examples:" not in ast.unparse(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield re.sub("{.*?}", "X", ast.unparse(node).replace("{output.program()}", "evenload"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield re.sub(r"(?<=\w){\w+}", "", node.value)


def lines(place: str, text: str) -> Iterator[CommandLine]:
    """The command lines of a text."""
    for part in _END.split(text.replace("\\\n", " ")):
        if begin := _BEGIN.search(part):
            words = [word.strip("\"'()[]").rstrip(".,:)") for word in part[begin.end() :].split()]
            yield CommandLine(place, begin[1], tuple(filter(None, words)))
