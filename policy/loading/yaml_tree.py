"""A policy file's text -> a plain tree of mappings, lists and scalars, and where each part of it stands.

`policy.loading.loader` reads Evenload's policies through here and `cli.policy_import` crane's, so both are refused
alike. The text is read event by event, not by a YAML loader: a policy is a plain tree of at most 256 KiB, so aliases,
tags, a second document and deep nesting are refused before they can cost anything, and scalars mean what YAML 1.2 says
(`no` is a text, `22:00` is a text, `010` is an error).
"""

import collections.abc
import dataclasses
import re
from typing import Final, Protocol

import yaml

from policy.schema import problems

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OCTAL_LOOKING = re.compile(r"[-+]?0[0-9]+|0[xob][0-9a-fA-F_]+|[-+]?[0-9]+(_[0-9]+)+")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_DIGITS: Final = 40
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")

Tree = dict[str, object] | list[object] | str | int | float | bool | None
Position = tuple[int, int]
"""Line and column, both from 1."""


class _Refused(Exception):
    """The text cannot be read any further; what is wrong stands in the reader's findings."""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A parsed text: the tree, all errors of the text itself, and the position of each path.

    `tree` is None for an empty text and for one that could not be read to its end; then there are findings. `_places`
    has of each path where its key (or item) stands, and where its value does.
    """

    tree: Tree
    findings: tuple[problems.Problem, ...]
    _places: collections.abc.Mapping[problems.Path, tuple[Position, Position]]

    def position(self, path: problems.Path, *, at_key: bool) -> Position:
        """Where `path` stands, or the nearest thing above it that is in the text."""
        for length in range(len(path), -1, -1):
            if (place := self._places.get(path[:length])) is not None:
                return place[0 if at_key or length < len(path) else 1]
        return 1, 1


def read_tree(text: str) -> Document:
    """The tree of a YAML text; nothing is raised, what is wrong is in `findings` with its line and column."""
    reader = _Reader()
    tree = reader.read(text)
    return Document(tree, tuple(reader.findings), reader.places)


class _Reader:
    """Turns YAML events into plain values and remembers where each stands."""

    def __init__(self) -> None:
        self.findings: list[problems.Problem] = []
        self.places: dict[problems.Path, tuple[Position, Position]] = {}
        self._events: collections.abc.Iterator[yaml.Event] = iter(())

    def read(self, text: str) -> Tree:
        """The tree of the text; None when it is empty or could not be read (then there are findings)."""
        if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
            self.find((), (1, 1), f"the file is larger than {MAX_BYTES // 1024} KiB: no policy is")
            return None
        try:
            self._events = yaml.parse(text, Loader=yaml.SafeLoader)
            return self._document()
        except _Refused:
            return None
        except yaml.MarkedYAMLError as error:
            self.find((), _mark(error.problem_mark or error.context_mark), _sentence(error))
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            position = before.count("\n") + 1, len(before) - before.rfind("\n")
            self.find((), position, f"the character #x{error.character:04x} is not allowed")
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # chr() and int() inside the scanner
            self.find((), (1, 1), f"no YAML: {error}")
        return None

    def find(self, path: problems.Path, position: Position, message: str) -> None:
        """Note a problem."""
        self.findings.append(problems.Problem(*position, problems.path_text(path), message))

    def _document(self) -> Tree:
        tree: Tree = None
        starts = (event for event in self._events if isinstance(event, yaml.DocumentStartEvent))
        for number, start in enumerate(starts):
            if number:
                raise self._refuse((), start, "a second document begins: one policy per file expected")
            event = next(self._events)
            tree = self._value(event, (), _mark(event.start_mark))
            if not isinstance(tree, dict) and tree is not None:
                raise self._refuse((), event, "a mapping with apiVersion and kind expected")
        return tree

    def _refuse(self, path: problems.Path, event: yaml.Event, message: str) -> _Refused:
        self.find(path, _mark(event.start_mark), message)
        return _Refused()

    def _refuse_halves(self, path: problems.Path, event: yaml.ScalarEvent) -> None:
        """A quoted text can spell half of a surrogate pair: no message, log or answer could carry it any further."""
        if (half := _HALF_A_PAIR.search(event.value)) is not None:
            message = f"\\u{ord(half[0]):04x} is not a character: write the character itself, or \\U and eight digits"
            raise self._refuse(path, event, message)

    def _value(self, event: yaml.Event, path: problems.Path, key_position: Position) -> Tree:
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse(path, event, "aliases (*name) are not read: write the value out")
        if getattr(event, "anchor", None) is not None:
            raise self._refuse(path, event, "anchors (&name) are not read: write the value out where it is needed")
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._refuse(path, event, f"tags (!name) are not read: remove {tag}")
        self.places[path] = key_position, _mark(event.start_mark)
        if len(path) > MAX_DEPTH:
            raise self._refuse(path[:3], event, f"nested deeper than {MAX_DEPTH} levels")
        if len(self.places) > MAX_VALUES:
            raise self._refuse((), event, f"more than {MAX_VALUES} values: no policy has so many")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[object] = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(event, (*path, len(items)), _mark(event.start_mark)))
            return items
        return self._scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None

    def _mapping(self, path: problems.Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refuse(path, event, "a key that is a text expected")
            position = _mark(event.start_mark)
            if event.anchor is not None or event.tag is not None:
                raise self._refuse(path, event, "anchors and tags are not read: a plain key expected")
            self._refuse_halves(path, event)
            inner = (*path, event.value)
            if event.value in mapping:
                (first, _), _ = self.places[inner]
                self.find(inner, position, f"the key is given twice (first on line {first})")
            mapping[event.value] = self._value(next(self._events), inner, position)
        return mapping

    def _scalar(self, event: yaml.ScalarEvent, path: problems.Path) -> Tree:
        self._refuse_halves(path, event)
        try:
            return event.value if event.style is not None else _plain(event.value)
        except ValueError as error:
            self.find(path, _mark(event.start_mark), str(error))
            return event.value


def _plain(text: str) -> Tree:
    """The value of a plain scalar by YAML 1.2's core schema; ValueError where YAML versions disagree or no number is
    meant.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    if len(text) > _MAX_DIGITS:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OCTAL_LOOKING.fullmatch(text):
        raise ValueError(
            f"{text} is read differently by YAML versions: write a decimal number, or quotes around a text"
        )
    return float(text) if _FRACTION.fullmatch(text) else text


class _Mark(Protocol):
    line: int
    column: int


def _mark(mark: _Mark | None) -> Position:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "unreadable")
    if r"\t" in problem:
        return "a tab cannot stand here: YAML is indented with spaces"
    return f"no YAML: {problem}" + (f" ({error.context})" if error.context and error.problem else "")
