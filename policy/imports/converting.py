"""The result of converting another project's policy: sections of a LoadPolicy, and remarks on what differs.

`crane` and `low_node_utilization` collect in `Findings` problems (nothing is converted) and remarks (it is converted,
and this is left out or means something else). A thing that has no equal is named, never guessed.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

from policy.schema import problems, units

Mapping = collections.abc.Mapping[str, object]
Reads = collections.abc.Callable[[object], float]
"""A reader of one value; ValueError says what is wrong with it."""


class Remark(NamedTuple):
    """Something of the file that has no equal here, or means something else: where, and what became of it."""

    path: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedPolicy:
    """Sections in the shape of a LoadPolicy (without apiVersion and kind), and what could not be said in them."""

    sections: dict[str, object]
    remarks: tuple[Remark, ...]


class ImportRefused(ValueError):
    """A file that the other project itself would not read; `problems` holds everything found wrong."""

    def __init__(self, remarks: collections.abc.Iterable[Remark]) -> None:
        self.problems = tuple(remarks)
        super().__init__("\n".join(f"{problem.path}: {problem.message}" for problem in self.problems))


class Findings:
    """Problems and remarks of one file that is converted; `project` is who would read it."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.problems: list[Remark] = []
        self.remarks: list[Remark] = []

    def problem(self, path: str, message: str) -> None:
        """Note something that the project would not read either."""
        self.problems.append(Remark(path, message))

    def remark(self, path: str, message: str) -> None:
        """Note something without an equal."""
        self.remarks.append(Remark(path, message))

    def kind(self, tree: Mapping, api_version: str, kind: str) -> None:
        """Check that it is the right kind of file."""
        for key, expected in (("apiVersion", api_version), ("kind", kind)):
            if tree.get(key) != expected:
                self.problem(key, f"{expected} expected, got {units.quoted(tree.get(key))}")

    def unknown(self, mapping: Mapping, prefix: str, known: collections.abc.Collection[str]) -> None:
        """Remark on keys that the project does not read."""
        for key in mapping:
            if key not in known:
                hint = problems.did_you_mean(str(key), known)
                self.remark(f"{prefix}{key}", f"{self.project} does not read this key{hint}; it is left out")

    def mapping(self, value: object, path: str) -> Mapping:
        """The mapping at a place, the empty one for none."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(path, "a mapping expected")
            return {}
        return value

    def entries(self, value: object, path: str, expected: str) -> list[tuple[str, Mapping]]:
        """The mappings of a list with their paths; entries of other shapes are problems."""
        if value is not None and not isinstance(value, list):
            self.problem(path, "a list expected")
        mappings: list[tuple[str, Mapping]] = []
        for index, entry in enumerate(value if isinstance(value, list) else []):
            if isinstance(entry, dict):
                mappings.append((f"{path}[{index}]", entry))
            else:
                self.problem(f"{path}[{index}]", f"a mapping with {expected} expected")
        return mappings

    def value(self, path: str, mapping: Mapping, key: str, read: Reads, *, absent: float | None) -> float | None:
        """The value of a key; `absent` where it is not given, None when it cannot be read."""
        if mapping.get(key) is None:
            return absent
        try:
            return read(mapping[key])
        except ValueError as error:
            self.problem(f"{path}.{key}", str(error))
            return None

    def finished(self, sections: dict[str, object]) -> ImportedPolicy:
        """The result. Raises ImportRefused with all that is wrong."""
        if self.problems:
            raise ImportRefused(self.problems)
        return ImportedPolicy(sections, tuple(self.remarks))
