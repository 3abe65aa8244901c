"""The apiserver's audit log, read as it grows, as calls of our services in the words of their rights."""

import json
import pathlib
import typing

from kube.access import Access

_ACCOUNT = "system:serviceaccount:evenload-system:evenload-"


class Call(typing.NamedTuple):
    """What a service asked for and the status it was answered with."""

    service: str
    access: Access
    status: int


class Log:
    """The calls since this object was made, each once."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._read_bytes = path.read_bytes().rfind(b"\n") + 1
        self._calls: set[Call] = set()

    def calls(self) -> set[Call]:
        """All that were answered up to now."""
        with self._path.open("rb") as log:
            log.seek(self._read_bytes)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        self._calls.update(call for line in whole.splitlines() if (call := _call(line)) is not None)
        return self._calls


def _call(line: bytes) -> Call | None:
    """A line as a call; None for others' calls, those without an object (discovery), and those not answered yet."""
    if _ACCOUNT.encode() not in line:
        return None
    event = json.loads(line)
    user, wanted, answer = event["user"]["username"], event.get("objectRef", {}), event.get("responseStatus")
    if not user.startswith(_ACCOUNT) or "resource" not in wanted or answer is None:
        return None
    part = f"/{wanted['subresource']}" if "subresource" in wanted else ""
    access = Access(
        verb=event["verb"],
        resource=wanted["resource"] + part,
        group=wanted.get("apiGroup", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
    return Call(user.removeprefix(_ACCOUNT), access, answer.get("code", 0))


def covers(granted: Access, access: Access) -> bool:
    """Whether a right is one that the call needed; "*" in a right stands for any group, or any resource before a /."""
    part = access.resource.partition("/")[2]
    return (
        granted.verb == access.verb
        and granted.resource in (access.resource, f"*/{part}")
        and granted.group in ("*", access.group)
        and granted.namespace in ("", access.namespace)
        and granted.name in ("", access.name)
    )
