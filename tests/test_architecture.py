"""The tree is what docs/why/architecture.md says: its names exist, packages shadow nothing, modules open with prose."""

import importlib
import importlib.metadata
import pathlib
import re

import pytest

from tests import conftest, pages, sources

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = tuple(package for package in pages.PACKAGES if package != "tests")
HOP_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")


def hop_names() -> list[str]:
    """Every `package.module.Name` that the tables of docs/why/architecture.md mention."""
    text = (ROOT / "docs" / "why" / "architecture.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return sorted({name for row in rows for name in HOP_NAME.findall(row)})


def resolve(dotted: str) -> object:
    """The module, or the attribute of a module, that a dotted name means."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


def test_the_hop_table_is_there() -> None:
    assert len(hop_names()) >= 20


def test_every_name_in_the_hop_table_exists() -> None:
    assert [name for name in hop_names() if resolve(name) is None] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_of_ours_shadows_an_installed_one(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    assert pathlib.Path(module.__file__).is_relative_to(ROOT)
    owners = set(importlib.metadata.packages_distributions().get(package, [])) - {"evenload"}
    assert not owners, f"{package} is also installed by {owners}"


def test_a_module_opens_with_prose_and_keeps_its_size() -> None:
    modules = {str(path): sources.source(path) for path in sources.paths(*PACKAGES)}
    assert not [name for name, one in modules.items() if not one.docstring], "they do not open with prose"
    assert not {name: one.lines for name, one in modules.items() if one.lines > 400}, "they are longer than 400 lines"


def test_no_function_is_longer_than_fifty_lines() -> None:
    functions = [(path, one) for path in sources.paths(*PACKAGES) for one in sources.source(path).definitions]
    assert len(functions) > 1000
    assert not [f"{path}:{one.line} {one.name}" for path, one in functions if (one.body_lines or 0) >= 50]


def test_only_the_clock_reads_the_time_and_only_the_loop_catches_everything() -> None:
    for relative in sources.paths(*PACKAGES):
        text = (ROOT / relative).read_text(encoding="utf-8")
        if relative.parts[0] != "lab" and relative != pathlib.Path("runtime/clock.py"):
            assert not re.search(r"\btime\.(time|monotonic)\(|datetime\.now\(", text), f"{relative} reads the clock"
        if relative != pathlib.Path("runtime/loop.py"):
            assert not re.search(r"except (Base)?Exception\b|except:", text), f"{relative} catches everything"


def test_every_thread_of_a_service_is_begun_by_the_loop_which_begins_it_again() -> None:
    services = {"runtime", "policy", "promql", "kube", "annotator", "extender", "descheduler", "console", "cli"}
    for relative in sources.paths(*PACKAGES):
        if relative.parts[0] in services and relative != pathlib.Path("runtime/loop.py"):
            text = (ROOT / relative).read_text(encoding="utf-8")
            assert not re.search(r"threading\.(Thread|Timer)\(|start_new_thread", text), f"{relative} starts a thread"


def test_the_files_that_are_dealt_out_first_exist_and_those_that_share_something_do() -> None:
    paths = [
        path for folder in ("contract", "e2e", "reports/real") for path in (ROOT / "tests" / folder).rglob("test_*.py")
    ]
    assert set(conftest.LONGEST_FIRST) - set(conftest.SHARED) <= {path.stem for path in paths}
    fixtures = r"\bcontrol_plane\b|\b(extender_plane|fleet|six_nodes|admin|built|permitted): "
    named = re.compile(rf"{fixtures}|\bshared\.shared\(|\bfour_kubelets\.renewed\(")
    sharing = {path.stem for path in paths if named.search(path.read_text("utf-8"))}
    grouped = {stem for stems in conftest.SHARED.values() for stem in stems}
    assert sharing == grouped - set(conftest.SHARED["two workloads"])
