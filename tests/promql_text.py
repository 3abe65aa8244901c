"""Selectors with matchers, and labels to group or join by, of a PromQL expression; promtool parses it."""

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[A-Za-z_:][\w:]*|\d[\w.]*|=~|!~|!=|[<>=]=?|[{}(),+*/%^-]')
_WORD: Final = re.compile(r"[A-Za-z_:][\w:]*")
_GROUPING: Final = frozenset({"by", "without"})
_JOINING: Final = frozenset({"on", "ignoring", "group_left", "group_right"})
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool", "offset"})


class Selector(NamedTuple):
    """A series' name, and of each matcher label, operator and value."""

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()


class Named(NamedTuple):
    """All selectors; labels after by and without; labels of joins; strings that are no matcher's value."""

    selectors: tuple[Selector, ...]
    grouped: frozenset[str]
    joined: frozenset[str]
    strings: frozenset[str]


def names(expression: str) -> Named:
    """Take an expression apart; Grafana's variables within brackets or strings are like any other text there."""
    tokens, at = _TOKEN.findall(expression), 0
    selectors: list[Selector] = []
    found: dict[str, set[str]] = {"grouped": set(), "joined": set(), "strings": set()}
    while at < len(tokens):
        token, after = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        at += 1
        if token in _GROUPING | _JOINING:
            end = tokens.index(")", at) if after == "(" else at
            found["grouped" if token in _GROUPING else "joined"].update(set(tokens[at:end]) - {"(", ","})
            at = end
        elif token.startswith('"'):
            found["strings"].add(token[1:-1])
        elif after == "{":
            end = tokens.index("}", at)
            rest = [inner for inner in tokens[at + 1 : end] if inner != ","]
            matchers = tuple((rest[by], rest[by + 1], rest[by + 2][1:-1]) for by in range(0, len(rest), 3))
            selectors.append(Selector(token, matchers))
            at = end + 1
        elif _WORD.fullmatch(token) and after != "(" and after not in _GROUPING and token not in _OPERATORS:
            selectors.append(Selector(token))
    return Named(tuple(selectors), *(frozenset(found[kind]) for kind in ("grouped", "joined", "strings")))
