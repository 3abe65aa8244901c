"""The CycloneDX document of everything that is pinned: what the image holds, and what only proves it.

`__main__` writes it, a test validates it against the standard's own schema. A package of requirements.txt is
`required`; one of requirements-dev.txt, and every Go module, of which the local control plane and the tests' clients
are built, is `excluded`: no image of ours holds it. The hashes of a package are those of its files on the index; one
that pip installs must be among them.
"""

import collections
import collections.abc
import datetime
import pathlib
import uuid
from typing import Final

import packageurl
from cyclonedx import model
from cyclonedx.model import bom as boms
from cyclonedx.model import component as components
from cyclonedx.output import json as output

from lab.sbom import pins
from runtime import version

_URL: Final = "https://pypi.org/project/{}/{}/"
_OURS: Final = uuid.UUID("0b1f4f5e-6a55-5c0a-9a1c-6f2f6b0f3f10")  # of this project's documents


def of_tree(root: pathlib.Path, now_seconds: float, system: collections.abc.Iterable[tuple[str, str]] = ()) -> str:
    """Returns the JSON of the document for a tree; equal pins give an equal serial number. PinError as in `pins`.

    `system` are names and versions of the Debian packages of which an image of the tree has files.
    """
    runtime = pins.packages((root / "requirements.txt").read_text(encoding="utf-8"))
    both = pins.packages((root / "requirements-dev.txt").read_text(encoding="utf-8"))
    names = {one.name for one in runtime}
    made = boms.Bom()
    kind = components.ComponentType.APPLICATION
    made.metadata.component = _component("evenload", version.VERSION, scope=None, kind=kind, registry="generic")
    made.metadata.timestamp = datetime.datetime.fromtimestamp(int(now_seconds), datetime.UTC)
    _add_packages(made, runtime, components.ComponentScope.REQUIRED)
    _add_packages(made, [one for one in both if one.name not in names], components.ComponentScope.EXCLUDED)
    for name, number in system:
        scope = components.ComponentScope.REQUIRED
        made.components.add(_component(f"debian/{name}", number, scope=scope, registry="deb"))
    _add_modules(made, root)
    made.serial_number = uuid.uuid5(_OURS, "\n".join(sorted(str(one.bom_ref.value) for one in made.components)))
    return output.JsonV1Dot6(made).output_as_string(indent=1) + "\n"


def _component(
    name: str,
    number: str,
    *,
    scope: components.ComponentScope | None,
    kind: components.ComponentType = components.ComponentType.LIBRARY,
    registry: str = "pypi",
    references: collections.abc.Iterable[model.ExternalReference] = (),
    properties: collections.abc.Iterable[model.Property] = (),
) -> components.Component:
    namespace, _, last = name.rpartition("/")
    purl = packageurl.PackageURL(registry, namespace or None, last, number)
    return components.Component(
        name=name,
        version=number,
        type=kind,
        scope=scope,
        purl=purl,
        bom_ref=purl.to_string(),
        external_references=references,
        properties=properties,
    )


def _add_packages(
    document: boms.Bom, packages: collections.abc.Sequence[pins.Package], scope: components.ComponentScope
) -> None:
    """The components, and their dependencies by the comments of the file."""
    added = [(one, _package(one, scope)) for one in packages]
    document.components.update(component for _, component in added)
    root = document.metadata.component
    named: dict[str, list[components.Component]] = collections.defaultdict(list)
    for component in document.components:
        named[component.name].append(component)
    for one, component in added:
        for asker in one.via:
            askers = [root] if asker.startswith(("-r ", "evenload ")) else named[asker]
            for wanting in filter(None, askers):
                document.register_dependency(wanting, [component])


def _package(package: pins.Package, scope: components.ComponentScope) -> components.Component:
    hashes = [model.HashType(alg=model.HashAlgorithm.SHA_256, content=digest) for digest in package.hashes]
    files = model.ExternalReference(
        type=model.ExternalReferenceType.DISTRIBUTION,
        url=model.XsUri(_URL.format(package.name, package.version)),
        hashes=hashes,
    )
    marker = [model.Property(name="evenload:marker", value=package.marker)] if package.marker else []
    return _component(package.name, package.version, scope=scope, references=[files], properties=marker)


def _add_modules(document: boms.Bom, root: pathlib.Path) -> None:
    checksums: dict[pins.Module, str] = {}
    for path in sorted(root.glob("[!.]*/**/go.mod")):
        beside = path.with_name("go.sum")
        sums = pins.sums(beside.read_text(encoding="utf-8") if beside.exists() else "")
        for module in pins.modules(path.read_text(encoding="utf-8")):
            checksums[module] = sums.files[module]
    for module, checksum in sorted(checksums.items()):
        checked = [model.Property(name="evenload:go.sum", value=checksum)]
        scope = components.ComponentScope.EXCLUDED
        document.components.add(_component(*module, scope=scope, registry="golang", properties=checked))
