"""The manifests that we ship, read as files."""

import pathlib
from typing import Any, Final

import yaml

DEPLOY: Final = pathlib.Path(__file__).parents[3] / "deploy"
BASE: Final = DEPLOY / "kustomize" / "base"
COMPONENTS: Final = DEPLOY / "kustomize" / "components"
MTLS: Final = COMPONENTS / "mtls" / "kustomization.yaml"
SERVICES: Final = ("annotator", "descheduler", "extender")
Document = dict[str, Any]


def load(path: pathlib.Path) -> list[Document]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def only(path: pathlib.Path, kind: str) -> Document:
    """The one object of that kind in a manifest."""
    (found,) = [document for document in load(path) if document["kind"] == kind]
    return found


def network_policies() -> dict[str, Document]:
    """What each of the network policies says, by name."""
    return {one["metadata"]["name"]: one["spec"] for one in load(BASE / "network.yaml")}


def added_by_mtls(service: str = "extender") -> list[Any]:
    """The values of the operations of the component mtls on the Deployment of a service."""
    (component,) = load(MTLS)
    target = {"kind": "Deployment", "name": f"evenload-{service}"}
    patches = (patch["patch"] for patch in component["patches"] if patch["target"] == target)
    return [op["value"] for patch in patches for op in yaml.safe_load(patch)]
