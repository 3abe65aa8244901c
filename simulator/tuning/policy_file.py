"""A policy as a file whose changed lines say what they were and why they are not any more.

Pure: `evenload tune` writes the text. It is the whole policy in force, so it can be used as it is, and `evenload policy
diff` against the old one shows the same changes.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from policy.schema.load_policy import LoadPolicy

INDENT = "  "
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/")


def commented(before: LoadPolicy, after: LoadPolicy, head: tuple[str, ...]) -> str:
    """The policy `after` as YAML; `head` are lines of comment above it."""
    lines = [f"# {line}".rstrip() for line in head]
    lines += _mapping(after.as_file(), before.as_file(), 0)
    return "\n".join([*lines, ""])


def _mapping(tree: Mapping[str, Any], old: Any, depth: int) -> Iterator[str]:
    before = old if isinstance(old, Mapping) else {}
    for key, value in tree.items():
        yield from _entry(f"{INDENT * depth}{_scalar(key)}:", value, before.get(key), depth)


def _entry(start: str, value: Any, old: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield start
        yield from _mapping(value, old, depth + 1)
        return
    changed = "" if value == old else f"   # was {_scalar(old)}"
    yield f"{start} {_scalar(value)}{changed}"


def _scalar(value: Any) -> str:
    """A value in YAML's flow style, which is JSON, with plain words where they are unmistakable."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_scalar(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    if isinstance(value, str) and value and set(value) <= _PLAIN and not _mistakable(value):
        return value
    return json.dumps(value)


def _mistakable(word: str) -> bool:
    """Words that YAML 1.1 reads as something else than text."""
    if word.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n", "~"):
        return True
    return word[0] in "0123456789.-"
