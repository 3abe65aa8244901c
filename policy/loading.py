"""The policy file's text -> `schema.LoadPolicy`, or every problem in it at once, each as `file:line:column: path:
message`.

The services load through here (first load and reload), the CLI's `policy validate` prints what it raises. The text is
read event by event, not by a YAML loader: a policy is a plain tree of at most 256 KiB, so aliases, tags, a second
document and deep nesting are refused before they can cost anything, and scalars mean what YAML 1.2 says (`no` is a
text, `22:00` is a text, `010` is an error).
"""

import collections.abc
import dataclasses
import re
from typing import Final, Protocol

import pydantic
import yaml

from policy import checks, problems, schema

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000
_MAX_ROUNDS: Final = 8
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OCTAL_LOOKING = re.compile(r"[-+]?0[0-9]+|0[xob][0-9a-fA-F_]+|[-+]?[0-9]+(_[0-9]+)+")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_WORDS: Final[dict[str, object]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_DIGITS: Final = 40
_IDENTITY: Final = {"apiVersion": schema.API_VERSION, "kind": schema.KIND}

Tree = dict[str, object] | list[object] | str | int | float | bool | None


class _Refused(Exception):
    """The text cannot be read any further; what is wrong stands in the reader's findings."""


@dataclasses.dataclass(slots=True)
class _Place:
    """Where a path's key (or item) and its value stand: (line, column), both from 1."""

    key: tuple[int, int]
    value: tuple[int, int]


def load(text: str, source: str) -> schema.LoadPolicy:
    """The policy in `text`; `source` names it in messages. Raises `problems.PolicyError` with all that is wrong."""
    reader = _Reader()
    tree = reader.read(text)
    if not isinstance(tree, dict):
        if not reader.findings:
            reader.find((), (1, 1), "the file is empty: a mapping with apiVersion and kind expected")
        raise problems.PolicyError(source, reader.findings)
    unreadable = {finding.path for finding in reader.findings}
    policy, findings = _judge(tree)
    for path, message, at_key in findings:
        if problems.path_text(path) not in unreadable:
            reader.find(path, reader.position(path, at_key=at_key), message)
    if policy is None or reader.findings:
        raise problems.PolicyError(source, reader.findings)
    return policy


class _Reader:
    """Turns YAML events into plain values and remembers where each stands."""

    def __init__(self) -> None:
        self.findings: list[problems.Problem] = []
        self._places: dict[problems.Path, _Place] = {}
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
            self.find(
                (), _position_of(text, error.position), f"the character #x{_code(error.character):04x} is not allowed"
            )
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # chr() and int() inside the scanner
            self.find((), (1, 1), f"no YAML: {error}")
        return None

    def find(self, path: problems.Path, position: tuple[int, int], message: str) -> None:
        """Note a problem."""
        self.findings.append(problems.Problem(*position, problems.path_text(path), message))

    def position(self, path: problems.Path, *, at_key: bool) -> tuple[int, int]:
        """Where `path` stands, or the nearest thing above it that is in the text."""
        for length in range(len(path), -1, -1):
            place = self._places.get(path[:length])
            if place is not None:
                return place.key if at_key or length < len(path) else place.value
        return 1, 1

    def _document(self) -> Tree:
        tree: Tree = None
        documents = 0
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            documents += 1
            if documents > 1:
                raise self._refuse((), event, "a second document begins: one policy per file expected")
            event = next(self._events)
            tree = self._value(event, (), _mark(event.start_mark))
            if not isinstance(tree, dict) and tree is not None:
                raise self._refuse((), event, "a mapping with apiVersion and kind expected")
        return tree

    def _refuse(self, path: problems.Path, event: yaml.Event, message: str) -> _Refused:
        self.find(path, _mark(event.start_mark), message)
        return _Refused()

    def _value(self, event: yaml.Event, path: problems.Path, key_position: tuple[int, int]) -> Tree:
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse(path, event, "aliases (*name) are not read: write the value out")
        if getattr(event, "anchor", None) is not None:
            raise self._refuse(path, event, "anchors (&name) are not read: write the value out where it is needed")
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._refuse(path, event, f"tags (!name) are not read: remove {tag}")
        self._places[path] = _Place(key_position, _mark(event.start_mark))
        if len(path) > MAX_DEPTH:
            raise self._refuse(path[:3], event, f"nested deeper than {MAX_DEPTH} levels")
        if len(self._places) > MAX_VALUES:
            raise self._refuse((), event, f"more than {MAX_VALUES} values: no policy has so many")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None

    def _mapping(self, path: problems.Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refuse(path, event, "a key that is a text expected")
            position = _mark(event.start_mark)
            if event.anchor is not None or event.tag is not None:
                raise self._refuse(path, event, "anchors and tags are not read: a plain key expected")
            inner = (*path, event.value)
            if event.value in mapping:
                first = self._places[inner].key[0]
                self.find(inner, position, f"the key is given twice (first on line {first})")
            mapping[event.value] = self._value(next(self._events), inner, position)
        return mapping

    def _sequence(self, path: problems.Path) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items)), _mark(event.start_mark)))
        return items

    def _scalar(self, event: yaml.ScalarEvent, path: problems.Path) -> Tree:
        text = event.value
        if event.style is not None:
            return str(text)
        try:
            return _plain(text)
        except ValueError as error:
            self.find(path, _mark(event.start_mark), str(error))
            return str(text)


def _plain(text: str) -> Tree:
    """The value of a plain scalar by YAML 1.2's core schema; ValueError where YAML versions disagree or no number is
    meant.
    """
    if text.lower() in _WORDS:
        word = _WORDS[text.lower()]
        return word if isinstance(word, bool) else None
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


def _mark(mark: _Mark | None) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _position_of(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[0])


def _sentence(error: yaml.MarkedYAMLError) -> str:
    found = str(error.problem or error.context or "unreadable")
    if r"\t" in found:
        return "a tab cannot stand here: YAML is indented with spaces"
    return f"no YAML: {found}" + (f" ({error.context})" if error.context and error.problem else "")


_Findings = list[tuple[problems.Path, str, bool]]


def _judge(tree: dict[str, object]) -> tuple[schema.LoadPolicy | None, _Findings]:
    """The model of a tree and everything wrong with it: (path, message, whether the key and not the value is at fault).

    A field that is wrong by itself is taken out (its default stands in) so that combinations elsewhere are still
    judged in the same round; what a combination says about a part taken out, or by it, is dropped.
    """
    findings: _Findings = []
    removed: set[problems.Path] = set()
    for _ in range(_MAX_ROUNDS):
        try:
            policy = schema.LoadPolicy.model_validate(tree)
        except pydantic.ValidationError as error:
            for detail in error.errors(include_url=False):
                path = tuple(detail["loc"])
                message = problems.explain(detail, problems.known_keys(schema.LoadPolicy, path))
                findings.append((path, message, detail["type"] == "extra_forbidden"))
                if not _lies_in(path, removed):
                    removed.add(_take_out(tree, path))
            continue
        return policy, findings + [(wrong.path, wrong.message, False) for wrong in _sound(policy, removed)]
    return None, findings


def _sound(policy: schema.LoadPolicy, removed: set[problems.Path]) -> collections.abc.Iterator[checks.Finding]:
    for finding in checks.combinations(policy):
        if not any(_touched(path, removed) for path in (finding.path, *finding.rests_on)):
            yield finding


def _touched(path: problems.Path, removed: set[problems.Path]) -> bool:
    """Whether a path lies in, or holds, a part that was taken out."""
    return _lies_in(path, removed) or any(gone[: len(path)] == path for gone in removed)


def _lies_in(path: problems.Path, removed: set[problems.Path]) -> bool:
    return any(path[:length] in removed for length in range(1, len(path) + 1))


def _take_out(tree: dict[str, object], path: problems.Path) -> problems.Path:
    """Remove the deepest mapping entry on `path` (for a missing key, the mapping that lacks it; a list as a whole)."""
    holder: object = tree
    last: tuple[dict[str, object], str, int] = (tree, str(path[0]), 1)
    for depth, part in enumerate(path, start=1):
        if not isinstance(holder, dict) or part not in holder:
            break
        last = (holder, str(part), depth)
        holder = holder[part]
    mapping, key, depth = last
    mapping.pop(key, None)
    if depth == 1 and key in _IDENTITY:
        tree[key] = _IDENTITY[key]
    return path[:depth]
