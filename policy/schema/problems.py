"""Problems of a policy file: each with its line, column and path, and the correction.

`policy.loading.loader` collects `Problem`s from the text and from the model and raises them together as one
`PolicyError`; `explain` turns an error of the model library into a sentence for operators, with a "did you mean" where
a known word is close.
"""

import collections.abc
import dataclasses
import difflib
import types
import typing
from typing import Final

import pydantic
import pydantic_core

from policy.schema import units

Path = tuple[str | int, ...]

MAX_SHOWN: Final = 50
_YAML_1_1_BOOLEANS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
_EXPECTED: Final = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "a text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "finite_number": "a finite number",
}
_COMPARED: Final = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}
_PATTERNS: Final = {
    "^[a-z][a-z0-9_]": "a name of lower-case letters, digits and _ such as cpu_p95_30m",
    "^[a-z0-9]([-a-z0-9]": "a name of at most 63 lower-case letters, digits and - such as spot-large",
    "^([a-z0-9]([-a-z0-9]": 'a namespace such as shop, or its beginning with a * such as "shop-*"',
    "^(([01][0-9]": 'a time of day of two digits each, in quotes, such as "08:30"',
}


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong with a file: where (line and column from 1, path of keys) and what."""

    line: int
    column: int
    path: str
    message: str

    def text(self, source: str) -> str:
        """`file:line:column: path: message`."""
        return ": ".join(part for part in (f"{source}:{self.line}:{self.column}", self.path, self.message) if part)


class PolicyError(ValueError):
    """A policy file that was refused; `problems` holds everything found wrong, in the order of the text."""

    def __init__(self, source: str, problems: collections.abc.Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(set(problems)))
        lines = [problem.text(source) for problem in self.problems[:MAX_SHOWN]]
        hidden = len(self.problems) - MAX_SHOWN
        more = [f"{source}: and {hidden} more problems"] if hidden > 0 else []
        super().__init__("\n".join((*lines, *more)))


def path_text(path: Path) -> str:
    """`filter.thresholds.cpu_avg_5m`, `hotSpots[0].pods`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{units.quoted_key(part)}" for part in path
    ).removeprefix(".")


def did_you_mean(word: str, known: collections.abc.Iterable[str]) -> str:
    """`; did you mean "thresholds"` for the closest known word, or nothing."""
    choices = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(word.lower()[:64], choices, n=1, cutoff=0.6)
    return f'; did you mean "{choices[close[0]]}"' if close else ""


def explain(error: pydantic_core.ErrorDetails, known_keys: collections.abc.Iterable[str]) -> str:
    """Returns the sentence for one validation error; `known_keys` are those of the mapping with an unknown key."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        keys = sorted(known_keys)
        return f"unknown key {units.quoted(key)}" + (did_you_mean(key, keys) or f"; known here: {', '.join(keys)}")
    if kind == "missing":
        return "is required"
    if kind == "literal_error":
        choices = [choice.strip("' ") for choice in str(context["expected"]).replace(" or ", ", ").split(",")]
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        return f"{' or '.join(choices)} expected, got {_quoted(value)}{hint}"
    if value is None and kind != "policy":
        return f"is empty: give {_EXPECTED.get(kind, 'a value')} or remove the key"
    return _mistyped(kind, value, context) or error["msg"]


def _mistyped(kind: str, value: object, context: dict[str, typing.Any]) -> str:
    if kind in _COMPARED:
        key, words = _COMPARED[kind]
        return f"{units.quoted(value)} is out of range: {words} {context[key]} expected"
    if kind == "string_pattern_mismatch":
        for start, expected in _PATTERNS.items():
            if str(context["pattern"]).startswith(start):
                return f"{expected} expected, got {units.quoted(value)}"
    if kind == "too_short" or kind == "string_too_short":
        return "must not be empty"
    if kind == "too_long":
        return f"{context['actual_length']} items, expected at most {context['max_length']}"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in _YAML_1_1_BOOLEANS:
        return f"{value} is a text here: write true or false"
    if kind == "string_type" and isinstance(value, int | float | bool):
        return f'a text expected, got {units.quoted(value)}; write it in quotes: "{units.quoted(value)}"'
    return f"{_EXPECTED[kind]} expected, got {_quoted(value)}" if kind in _EXPECTED else ""


def _quoted(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else units.quoted(value)


def known_keys(model: type[pydantic.BaseModel], path: Path) -> tuple[str, ...]:
    """The keys of the model's section that `path` leads into (the path of a key in it)."""
    section: object = model
    for part in path[:-1]:
        if isinstance(section, types.GenericAlias):
            section = section.__args__[1 if section.__origin__ is dict else 0]
        else:
            section = _fields(section).get(str(part))
    return tuple(_fields(section))


def _fields(section: object) -> dict[str, object]:
    """The types of a section's keys; none of anything else."""
    if not (isinstance(section, type) and issubclass(section, pydantic.BaseModel)):
        return {}
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}
