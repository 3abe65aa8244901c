"""Label and field selectors in their text form, as `list` and `watch` of a door take them, as predicates on versions.

`door` and `apiserver.watch_log` ask it. What a label expression means is `kube.api.selectors`' business; only the text
is read here. A selector that is not understood, or a field that the real apiserver does not select by, is refused like
there.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kube.api.selectors import Requirement
from simulator.apiserver import refusals
from simulator.apiserver.storage import Version

Fields = Mapping[str, tuple[str, ...]]  # name of a field -> where it is in the body
Predicate = Callable[[Version], bool]

_NAMED: Fields = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}
_FURTHER: Mapping[str, Fields] = {
    "pods": {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "status.phase": ("status", "phase"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    "nodes": {"spec.unschedulable": ("spec", "unschedulable")},
    "namespaces": {"status.phase": ("status", "phase")},
    "events": {
        "reason": ("reason",),
        "type": ("type",),
        "involvedObject.kind": ("regarding", "kind"),
        "involvedObject.name": ("regarding", "name"),
        "involvedObject.namespace": ("regarding", "namespace"),
        "involvedObject.uid": ("regarding", "uid"),
    },
}
# "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a>1", "a<1"
_EXPRESSION = re.compile(
    r"\s*(?P<absent>!?)\s*(?P<key>[\w./-]+)\s*"
    r"(?:(?P<sign>==|=|!=|>|<)\s*(?P<value>[\w.-]*)|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_FIELD = re.compile(r"\s*(?P<name>[\w.]+)\s*(?P<sign>==|=|!=)\s*(?P<value>[^,=!]*?)\s*(?:,|$)")


def everything(_version: Version) -> bool:
    """The predicate of no selector."""
    return True


@functools.lru_cache(maxsize=1024)
def predicate(plural: str, label_selector: str, field_selector: str) -> Predicate:
    """Whether both hold. Invalid for a text that is no selector."""
    if not label_selector and not field_selector:
        return everything
    labels, fields = requirements(label_selector), _fields(plural, field_selector)

    def matches(version: Version) -> bool:
        return all(_matches(version.body, path, value) is wanted for path, value, wanted in fields) and all(
            one.matches(version.labels) for one in labels
        )

    return matches


def requirements(text: str) -> tuple[Requirement, ...]:
    """The expressions of a label selector's text, all of which must hold; Invalid names what is not understood."""
    return tuple(_requirement(text, match) for match in _terms(_EXPRESSION, text, "label", "an expression"))


def _terms(term: re.Pattern[str], text: str, what: str, expected: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        match = term.match(text, at)
        if match is None:
            raise refusals.bad_request(f"{what} selector {text!r}: expected {expected} at {text[at:]!r}")
        yield match
        at = match.end()


def _requirement(text: str, match: re.Match[str]) -> Requirement:
    key, sign = match["key"], match["sign"] or match["word"]
    if match["absent"] and sign:
        raise refusals.bad_request(f"label selector {text!r}: expected {key!r} alone after '!'")
    if not sign:
        return Requirement(key, "DoesNotExist" if match["absent"] else "Exists")
    values = match["values"].split(",") if match["word"] else [match["value"]]
    return Requirement(key, _OPERATORS[sign], tuple(one.strip() for one in values))


def _fields(plural: str, text: str) -> tuple[tuple[tuple[str, ...], str, bool], ...]:
    """(where, value, whether it must be that value) of each part of a field selector."""
    known, terms = {**_NAMED, **_FURTHER.get(plural, {})}, []
    for match in _terms(_FIELD, text, "field", "field=value"):
        if match["name"] not in known:
            raise refusals.bad_request(f"field label not supported for {plural}: {match['name']}")
        terms.append((known[match["name"]], match["value"], match["sign"] != "!="))
    return tuple(terms)


def _matches(body: Mapping[str, Any], path: tuple[str, ...], value: str) -> bool:
    at: Any = body
    for part in path:
        at = at.get(part) if type(at) is dict else None  # isinstance of Mapping takes ten times as long
    return ("" if at is None else str(at).lower() if isinstance(at, bool) else str(at)) == value
