"""Packages that run are imported, both lists agree, and bills of materials are valid CycloneDX.

pip refuses a line without a version or a hash (--require-hashes), Go a module without its checksum (-mod=readonly).
"""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import tomllib

from cyclonedx import schema
from cyclonedx.validation import json as validation
from packaging import requirements

from lab.image import provenance

ROOT = pathlib.Path(__file__).parents[3]


def pinned(name: str) -> dict[str, set[str]]:
    """The versions of a list's packages: several where they depend on the platform."""
    found: dict[str, set[str]] = {}
    text = (ROOT / name).read_text(encoding="utf-8")
    for package, version in re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)", text, re.MULTILINE):
        found.setdefault(package, set()).add(version)
    assert len(found) > 10
    return found


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_both_lists_pin_the_same_version_of_what_they_share() -> None:
    runtime, development = pinned("requirements.txt"), pinned("requirements-dev.txt")
    shared = runtime.keys() & development.keys()
    assert shared
    assert not [name for name in shared if not development[name] <= runtime[name]]


UNUSED = (ROOT / "requirements-unused.in").read_text(encoding="utf-8")
NOT_IMPORTED = {"tzdata": "zoneinfo reads its files, where the machine has none"}


def test_every_package_that_runs_is_imported_by_a_module_of_ours_or_what_it_imports() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    command = [sys.executable, str(ROOT / "deploy" / "image" / "imports.py"), *ours["wheel"]["packages"]]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    loaded = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    modules = {line.partition("\t")[0].partition(".")[0] for line in loaded.splitlines()}
    used = {
        canonical(name)
        for module, names in importlib.metadata.packages_distributions().items()
        if module in modules
        for name in names
    }
    assert set(pinned("requirements.txt")) - used == set(NOT_IMPORTED)


def test_what_is_left_out_is_asked_for_by_something_that_is_pinned() -> None:
    """A name in requirements-unused.in must be a requirement of a pinned package, and not pinned itself."""
    left_out = {line.partition("#")[0].strip() for line in UNUSED.splitlines() if not line.startswith("#")}
    asked = {
        canonical(requirements.Requirement(line).name)
        for name in pinned("requirements.txt")
        for line in importlib.metadata.requires(name) or ()
    }
    assert left_out
    assert left_out <= asked
    assert not left_out & set(pinned("requirements.txt"))


def test_a_bill_is_what_the_standards_own_schema_wants_and_has_every_package_with_its_hashes() -> None:
    bill = provenance.bill_of_materials(ROOT, [("libc6", "2.36-9+deb12u14")])
    problem = validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(json.dumps(bill))
    assert problem is None, problem
    components = {component["name"]: component for component in bill["components"]}
    assert components.keys() == {*pinned("requirements.txt"), "libc6"}
    assert components.pop("libc6")["purl"] == "pkg:deb/debian/libc6@2.36-9+deb12u14"
    hashes = [one["externalReferences"][0]["hashes"] for one in components.values()]
    assert all({digest["alg"] for digest in one} == {"SHA-256"} for one in hashes)
    assert bill == provenance.bill_of_materials(ROOT, [("libc6", "2.36-9+deb12u14")])
