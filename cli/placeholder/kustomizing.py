"""Builds a kustomization, as far as deploy/placeholder uses kustomize: resources, components, JSON patches.

`render` prints manifests without kubectl this way. It reads the very files that `kubectl apply -k` reads and knows no
templates; a field of kustomize that is not read here is an error, never passed over. That both come to the same is held
by tests/contract/test_kustomize.py.

| here | kustomize |
|---|---|
| JSON patches (test, add, replace, remove) of objects by kind and name | strategic merges and other targets too |
| resources and components are files and folders of ours | also URLs |
| objects keep the order in which they are named | sorted by kind |
"""

import copy
import pathlib
from collections.abc import Sequence
from typing import Any, Final

import yaml

Document = dict[str, Any]
FILE: Final = "kustomization.yaml"
_READ: Final = {"apiVersion", "kind", "resources", "components", "patches"}


def build(kustomization: Document, folder: pathlib.Path, objects: Sequence[Document] = ()) -> list[Document]:
    """The objects so far with those of a kustomization whose paths count from `folder`, patched by it; a component's
    patches reach the former too. ValueError names what is not read here.
    """
    unread = set(kustomization) - _READ
    if unread:
        raise ValueError(f"{folder / FILE}: {', '.join(sorted(unread))} cannot be read here, {sorted(_READ)} can")
    resources = [*objects, *(one for name in kustomization.get("resources", ()) for one in _resource(folder / name))]
    for name in kustomization.get("components", ()):
        resources = build(_load(folder / name / FILE), folder / name, resources)
    for patch in kustomization.get("patches", ()):
        resources = _patched_all(resources, patch["target"], patch["patch"])
    return resources


def _resource(path: pathlib.Path) -> list[Document]:
    return build(_load(path / FILE), path) if path.is_dir() else list(yaml.safe_load_all(path.read_text("utf-8")))


def _load(path: pathlib.Path) -> Document:
    loaded: Document = yaml.safe_load(path.read_text("utf-8"))
    return loaded


def _patched_all(objects: list[Document], target: Document, patch: str) -> list[Document]:
    if not {"kind"} <= set(target) <= {"kind", "name"}:
        raise ValueError(f"patch of {target}: a target by kind, or by kind and name, is read here")
    operations = yaml.safe_load(patch)
    meant = [one["kind"] == target["kind"] and target.get("name") in (None, one["metadata"]["name"]) for one in objects]
    if not any(meant):
        raise ValueError(f"patch of {target}: there is no such object")
    return [patched(one, operations) if hit else one for one, hit in zip(objects, meant, strict=True)]


def patched(document: Document, operations: list[Document]) -> Document:
    """A copy after the operations of a JSON patch; ValueError names the path that is not there or not so."""
    result = copy.deepcopy(document)
    for operation in operations:
        _apply(result, operation)
    return result


def _apply(document: Document, operation: Document) -> None:
    path, kind = operation["path"], operation["op"]
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    place: Any = document
    for part in parents:
        place = place[_key(place, part, path)]
    if kind == "add" and isinstance(place, list):
        place.insert(len(place) if last == "-" else _key(place, last, path), operation["value"])
    elif kind == "add":
        place[last] = operation["value"]
    elif kind == "replace":
        place[_key(place, last, path)] = operation["value"]
    elif kind == "remove":
        del place[_key(place, last, path)]
    elif kind != "test" or place[_key(place, last, path)] != operation["value"]:
        raise ValueError(f"JSON patch: {kind} {path} does not hold")


def _key(place: Any, part: str, path: str) -> Any:
    """The index or key of what is there."""
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    if isinstance(place, dict) and part in place:
        return part
    raise ValueError(f"JSON patch: there is no {path}")
