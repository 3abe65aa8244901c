"""What we are made of is pinned to the byte, the lists agree with each other, and the bill of materials says so."""

import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from cyclonedx import schema
from packaging import markers, requirements, version

from lab.sbom import document, pins

ROOT = pathlib.Path(__file__).parents[3]
LISTS = ("requirements.txt", "requirements-dev.txt")
GO_MODS = sorted(ROOT.glob("[!.]*/**/go.mod"))
NOW = 1_763_733_600.0
PART = 50


def packages(name: str) -> tuple[pins.Package, ...]:
    """The pins of a list."""
    return pins.packages((ROOT / name).read_text(encoding="utf-8"))


def roots(name: str) -> list[requirements.Requirement]:
    """Returns the direct dependencies: of pyproject.toml, or of a .in file without its comments and options."""
    if name == "requirements.txt":
        lines = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        lines = (ROOT / name).with_suffix(".in").read_text(encoding="utf-8").splitlines()
    return [requirements.Requirement(line) for line in lines if line and line[0] not in "#-"]


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", LISTS)
def test_every_line_is_an_exact_version_with_its_hashes(name: str) -> None:
    found = packages(name)
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line[:1] not in ("", " ", "#")]
    assert len(found) == len(lines) > 10
    assert all(one.hashes for one in found)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_what_its_roots_ask_for(name: str) -> None:
    """Each root is pinned within its bounds, and everything else is there because something pinned needs it."""
    source = "evenload (pyproject.toml)" if name == "requirements.txt" else "-r requirements-dev.in"
    pinned: dict[str, list[pins.Package]] = {}
    for one in packages(name):
        pinned.setdefault(one.name, []).append(one)
    for root in roots(name):
        named = pinned[canonical(root.name)]
        assert all(root.specifier.contains(one.version) for one in named), root
        assert all(source in one.via for one in named), root
    asked = {canonical(root.name) for root in roots(name)}
    for one in packages(name):
        askers = {asker for asker in one.via if not asker.startswith("-c ")}
        assert askers, one.name
        assert all(asker in pinned or asker == source for asker in askers), one
        assert (source in askers) == (one.name in asked), one.name


def test_both_lists_pin_the_same_version_of_what_they_share() -> None:
    runtime: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for one in packages("requirements.txt"):
        runtime.setdefault(one.name, set()).add((one.version, one.hashes))
    shared = [one for one in packages("requirements-dev.txt") if one.name in runtime]
    assert shared
    assert not [one.name for one in shared if (one.version, one.hashes) not in runtime[one.name]]


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
    assert {one.name for one in packages("requirements.txt")} - used == set(NOT_IMPORTED)


def test_what_is_left_out_is_asked_for_by_something_that_is_pinned() -> None:
    """A name in requirements-unused.in that nobody asks for any more is a mistake; so is one that is pinned."""
    left_out = {line.partition("#")[0].strip() for line in UNUSED.splitlines() if not line.startswith("#")}
    asked = {
        canonical(requirements.Requirement(line).name)
        for one in packages("requirements.txt")
        for line in importlib.metadata.requires(one.name) or ()
    }
    assert left_out
    assert left_out <= asked
    assert not left_out & {one.name for one in packages("requirements.txt")}


def test_markers_are_ones_that_pip_reads() -> None:
    for one in [package for name in LISTS for package in packages(name)]:
        version.Version(one.version)
        if one.marker:
            markers.Marker(one.marker)


PIN = "a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via -r requirements-dev.in\n"


@pytest.mark.parametrize(
    "line",
    [
        "b>=1",
        "b",
        "b==1",
        "b==1.*",
        "b @ https://example.com/b.whl",
        "-e .",
        "git+https://example.com/b",
        "--index-url https://example.com/",
        "b==1 \\\n    --hash=md5:" + "0" * 32,
        "b==1 \\\n    --hash=sha256:" + "0" * 63,
    ],
)
def test_a_line_that_pins_nothing_is_refused(line: str) -> None:
    assert len(pins.packages(PIN)) == 1
    with pytest.raises(pins.PinError, match="make lock"):
        pins.packages(f"{PIN}{line}\n")


@pytest.mark.parametrize("go_mod", GO_MODS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_every_go_module_has_its_checksums(go_mod: pathlib.Path) -> None:
    """Go would fetch what is missing, and believe it; -mod=readonly, the default, then fails the build."""
    required = pins.modules(go_mod.read_text(encoding="utf-8"))
    beside = go_mod.with_name("go.sum")
    sums = pins.sums(beside.read_text(encoding="utf-8") if beside.exists() else "")
    assert not [one for one in required if one not in sums.files or one not in sums.mods]
    assert all(re.fullmatch(r"h1:[\w+/]{43}=", checksum) for checksum in (*sums.files.values(), *sums.mods.values()))
    assert required or not sums.files


def test_the_go_modules_are_looked_at() -> None:
    tools = pins.modules((ROOT / "lab/cluster/tools/go.mod").read_text(encoding="utf-8"))
    assert len(tools) > 200
    assert pins.Module("k8s.io/api", "v0.36.3") in tools  # a replacement
    assert len(GO_MODS) >= 5


@pytest.fixture(scope="module")
def bill() -> Any:
    return json.loads(document.of_tree(ROOT, NOW))


def test_the_bill_of_materials_is_what_the_standards_own_schema_wants(bill: Any) -> None:
    """In parts: the validator compares each component of a document with each other, of a thousand half a million."""
    from cyclonedx.validation import json as validating  # here: its grammars take seconds in each process that collects

    validator = validating.JsonStrictValidator(schema.SchemaVersion.V1_6)
    for name, key in (("components", "bom-ref"), ("dependencies", "ref")):
        assert len({one[key] for one in bill[name]}) == len(bill[name]) > PART
    for at in range(0, max(len(bill["components"]), len(bill["dependencies"])), PART):
        part = {name: bill[name][at : at + PART] for name in ("components", "dependencies")}
        assert validator.validate_str(json.dumps(bill | part)) is None
    wrong = bill | {"components": [bill["components"][0] | {"type": "libary"}], "dependencies": []}
    assert validator.validate_str(json.dumps(wrong)) is not None


def test_it_names_everything_that_is_pinned_and_what_of_it_is_shipped(bill: Any) -> None:
    scopes = {one["purl"]: one["scope"] for one in bill["components"]}
    runtime = packages("requirements.txt")
    assert len(scopes) == len(bill["components"])
    assert {purl for purl, scope in scopes.items() if scope == "required"} == {
        f"pkg:pypi/{one.name}@{one.version}" for one in runtime
    }
    assert {f"pkg:pypi/{one.name}@{one.version}" for one in packages("requirements-dev.txt")} <= scopes.keys()
    assert scopes["pkg:golang/k8s.io/kubernetes@v1.36.3"] == "excluded"


def test_it_carries_the_hashes_and_who_needs_whom(bill: Any) -> None:
    flask = next(one for one in packages("requirements.txt") if one.name == "flask")
    shown = next(one for one in bill["components"] if one["name"] == "flask")
    (files,) = shown["externalReferences"]
    assert {one["content"] for one in files["hashes"]} == set(flask.hashes)
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert any(ref.startswith("pkg:pypi/werkzeug@") for ref in needs[shown["bom-ref"]])
    assert shown["bom-ref"] in needs[bill["metadata"]["component"]["bom-ref"]]


@pytest.fixture
def small(tmp_path: pathlib.Path) -> pathlib.Path:
    """A tree of two pins that run, three that do not and one Go module: its document takes no second to write."""
    for name, pinned in (("requirements.txt", "flask|werkzeug"), ("requirements-dev.txt", "pytest|pluggy|werkzeug")):
        blocks = re.findall(rf"^(?:{pinned})==.*(?:\n .*)+\n", (ROOT / name).read_text("utf-8"), re.MULTILINE)
        (tmp_path / name).write_text("".join(blocks), encoding="utf-8")
    for name in ("go.mod", "go.sum"):
        (tmp_path / "tests").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / "contract" / "krew" / name, tmp_path / "tests")
    return tmp_path


def test_an_image_has_packages_of_its_base_too(small: pathlib.Path) -> None:
    bill = json.loads(document.of_tree(small, NOW, [("libc6", "2.36-9+deb12u10")]))
    (base,) = [one for one in bill["components"] if one["purl"].startswith("pkg:deb/")]
    assert (base["purl"], base["scope"]) == ("pkg:deb/debian/libc6@2.36-9%2Bdeb12u10", "required")


def test_equal_pins_make_an_equal_bill(small: pathlib.Path) -> None:
    text = document.of_tree(small, NOW)
    assert {one["purl"].partition("/")[0] for one in json.loads(text)["components"]} == {"pkg:pypi", "pkg:golang"}
    assert document.of_tree(small, NOW) == text
