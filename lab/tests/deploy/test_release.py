"""A release: the version in all its places, the notes, what is packed, and what a tree must be."""

import io
import json
import pathlib
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator

import click
import pytest

from lab.cluster import programs
from lab.release import __main__ as release
from lab.release import changelog, places, steps
from runtime import version
from tests.contract.helm_client import Helm

ROOT = pathlib.Path(__file__).parents[3]
TEXT = """# Changelog

Newest first.

## Unreleased (0.3.0)

### Added
- A thing.

## 0.2.0

- Another.

## 0.1.0

"""
AT = 1_795_233_600


def test_every_place_of_the_tree_states_the_version() -> None:
    stated = list(places.stated(ROOT))
    assert [place for place in stated if place.number != version.VERSION] == []
    assert {"runtime/version.py", "docker-compose.yml", "deploy/kustomize/base/kustomization.yaml"} <= {
        place.path for place in stated
    }


def test_no_page_or_manifest_has_the_number_in_another_place() -> None:
    unknown = list(places.unknown(ROOT, version.VERSION))
    assert not unknown, "a place that `python -m lab.release version` does not know: add its form to places.py"


def test_places_are_written_and_other_numbers_stay(tmp_path: pathlib.Path) -> None:
    (tmp_path / "deploy").mkdir()
    chart, manifest = tmp_path / "deploy" / "Chart.yaml", tmp_path / "deploy" / "base.yaml"
    chart.write_text('apiVersion: v2\nversion: 0.1.0\nappVersion: 0.1.0\nkubeVersion: ">=1.30.0-0"\n', encoding="utf-8")
    manifest.write_text(
        "image: evenload:0.1.0\nlabels: {app.kubernetes.io/version: 0.1.0}\nother:0.1.0\n", encoding="utf-8"
    )
    assert [place.line for place in places.unknown(tmp_path, "0.1.0")] == [3]
    assert places.write(tmp_path, "0.2.0") == ["deploy/Chart.yaml", "deploy/base.yaml"]
    assert chart.read_text(encoding="utf-8").count("0.2.0") == 2
    assert "evenload:0.2.0" in manifest.read_text(encoding="utf-8")
    assert "other:0.1.0" in manifest.read_text(encoding="utf-8")
    assert places.write(tmp_path, "0.2.0") == []


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("newTag: v1.36.3", []),
        ("newTag: 0.1.0, x", ["0.1.0"]),
        ("deploy?ref=v0.1.0`", ["0.1.0"]),
        ('image.version="0.1.0"', []),
        ('org.opencontainers.image.version="0.1.0"', ["0.1.0"]),
        ("evenload:0.1.0.1", []),
        ("the-evenload:0.1.0", ["0.1.0"]),
    ],
)
def test_a_place_is_known_by_the_words_before_it(tmp_path: pathlib.Path, text: str, stated: list[str]) -> None:
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert [place.number for place in places.stated(tmp_path)] == stated


def test_the_notes_are_the_section_of_the_version() -> None:
    assert changelog.notes(changelog.numbered(TEXT, "0.3.0"), "0.3.0") == "### Added\n- A thing.\n"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (
            "0.2.0",
            r"first section is 'Unreleased \(0\.3\.0\)', '0\.2\.0' expected; run `python -m lab.release version",
        ),
        ("0.4.0", r"first section is 'Unreleased \(0\.3\.0\)', '0\.4\.0' expected"),
    ],
)
def test_a_version_with_unreleased_changes_above_it_has_no_notes(number: str, reason: str) -> None:
    with pytest.raises(changelog.ChangelogError, match=reason):
        changelog.notes(TEXT, number)


def test_an_empty_section_is_no_notes() -> None:
    with pytest.raises(changelog.ChangelogError, match=r"the section '0\.1\.0' is empty"):
        changelog.notes("# Changelog\n\n## 0.1.0\n\n", "0.1.0")


def test_only_the_section_of_unreleased_changes_becomes_a_version() -> None:
    assert changelog.numbered(TEXT, "0.3.0") == TEXT.replace("Unreleased (0.3.0)", "0.3.0")
    with pytest.raises(changelog.ChangelogError, match=r"'Unreleased \(0\.4\.0\)' expected; write it first"):
        changelog.numbered(TEXT, "0.4.0")


def test_the_changelog_of_the_tree_has_a_section_for_the_next_version_or_this_one() -> None:
    titles = list(changelog.sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    assert version.VERSION in titles[:2]


def chart(directory: pathlib.Path) -> pathlib.Path:
    """A chart with a manifest."""
    home = directory / "deploy" / "helm" / "evenload"
    (home / "manifests").mkdir(parents=True)
    (home / "manifests" / "role.yaml").write_text("kind: Role\n", encoding="utf-8")
    (home / "Chart.yaml").write_text("apiVersion: v2\nname: evenload\nversion: 0.3.0\n", encoding="utf-8")
    return home


def test_a_chart_is_packed_with_its_files_and_alike_each_time(tmp_path: pathlib.Path) -> None:
    home = chart(tmp_path)
    packed = steps.package_of_chart(home, AT)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        entries = tar.getmembers()
        content = tar.extractfile("evenload/manifests/role.yaml")
        assert content is not None
        assert content.read() == b"kind: Role\n"
    assert [entry.name for entry in entries] == ["evenload/Chart.yaml", "evenload/manifests/role.yaml"]
    assert {(entry.mtime, entry.mode, entry.uid) for entry in entries} == {(AT, 0o644, 0)}
    (home / "Chart.yaml").touch()
    assert steps.package_of_chart(home, AT) == packed


def test_checksums_are_as_sha256sum_reads_them(tmp_path: pathlib.Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    text = steps.checksums(tmp_path.iterdir())
    assert text.splitlines()[0].startswith("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a")
    (tmp_path / "SUMS").write_text(text, encoding="utf-8")
    subprocess.run(["sha256sum", "--check", "--strict", "SUMS"], cwd=tmp_path, check=True, capture_output=True)


def a_build(tmp_path: pathlib.Path, registry: str | None = None) -> steps.Build:
    dist = tmp_path / "dist"
    dist.mkdir(exist_ok=True)
    return steps.Build(tmp_path, dist, "0.3.0", AT, registry)


def test_a_step_that_leaves_its_file_out_fails(tmp_path: pathlib.Path) -> None:
    step = steps.Step("plugin", "a plugin", ("plugin-VERSION.tar.gz",), lambda _: None)
    with pytest.raises(steps.StepError, match=r"left no plugin-0\.3\.0\.tar\.gz in"):
        steps.perform(step, a_build(tmp_path))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("sh", "-c", "exit 3"), "`sh -c exit 3` ended with exit code 3; its output is above"),
        (("no-such-program",), "`no-such-program` is not installed; `make venv` brings what the steps need"),
    ],
)
def test_a_command_that_fails_is_named(tmp_path: pathlib.Path, command: tuple[str, ...], reason: str) -> None:
    with pytest.raises(steps.StepError) as failed:
        steps.run(a_build(tmp_path), *command)
    assert str(failed.value) == reason


def test_commands_get_the_time_of_the_commit(tmp_path: pathlib.Path) -> None:
    steps.run(a_build(tmp_path), "sh", "-c", f'test "$SOURCE_DATE_EPOCH$CI" = {AT}1')


def test_a_tree_without_a_chart_fails_with_its_place(tmp_path: pathlib.Path) -> None:
    (step,) = [step for step in steps.STEPS if step.name == "chart"]
    with pytest.raises(steps.StepError, match=r"deploy/helm/evenload holds no chart"):
        steps.perform(step, a_build(tmp_path))


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry on loopback."""
    program = programs.built(pathlib.Path(__file__).with_name("registry"))
    with subprocess.Popen([program, "-port=0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield f"oci://localhost:{process.stderr.readline().split()[-1]}/charts"
        process.terminate()


def test_a_registry_gets_the_chart_as_an_artifact_of_the_commits_time(tmp_path: pathlib.Path, registry: str) -> None:
    chart(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (step,) = [step for step in steps.STEPS if step.name == "chart"]
    steps.perform(step, a_build(tmp_path, registry))
    Helm("helm3", tmp_path).succeed("pull", f"{registry}/evenload", "--version=0.3.0", "--plain-http")
    assert (tmp_path / "evenload-0.3.0.tgz").read_bytes() == (tmp_path / "dist" / "evenload-0.3.0.tgz").read_bytes()
    place = registry.replace("oci:", "http:").replace("/charts", "/v2/charts/evenload/manifests/0.3.0")
    with urllib.request.urlopen(place, timeout=10) as answer:
        created = json.load(answer)["annotations"]["org.opencontainers.image.created"]
    assert created == "2026-11-21T04:00:00Z"


def test_notes_and_checksums_are_the_last_files(tmp_path: pathlib.Path) -> None:
    build = a_build(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(changelog.numbered(TEXT, "0.3.0"), encoding="utf-8")
    for step in steps.STEPS[-2:]:
        steps.perform(step, build)
    sums = (build.dist / "SHA256SUMS").read_text(encoding="utf-8")
    assert sums.split()[1:] == ["evenload-0.3.0.notes.md"]


def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """A committed tree of one version."""
    (tmp_path / "CHANGELOG.md").write_text(TEXT, encoding="utf-8")
    (tmp_path / "README.md").write_text("evenload:0.3.0\n", encoding="utf-8")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_a_tree_that_is_not_ready_is_refused_with_all_reasons(tmp_path: pathlib.Path) -> None:
    root = repository(tmp_path)
    (root / "new").touch()
    dirty, notes, place = release.obstacles(root, "0.2.0")
    assert dirty == "the tree differs from its commit; commit or remove:\n?? new"
    assert notes.startswith("CHANGELOG.md: the first section is 'Unreleased (0.3.0)'")
    assert place == "README.md:1: version 0.3.0, runtime/version.py has 0.2.0"


def test_a_committed_tree_with_notes_is_ready(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    root = repository(tmp_path)
    (root / "CHANGELOG.md").write_text(changelog.numbered(TEXT, "0.3.0"), encoding="utf-8")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qam", "0.3.0"], cwd=root, check=True
    )
    assert release.obstacles(root, "0.3.0") == []


def test_a_directory_without_a_repository_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(click.ClickException, match="a release needs a Git checkout"):
        release.obstacles(tmp_path, "0.3.0")


def test_the_steps_are_printed_with_their_files() -> None:
    lines = release.table("0.3.0", ("image",)).splitlines()
    assert lines[:3] == [
        "tests  make test: every suite",
        "wheel  the Python package",
        "       evenload-0.3.0-py3-none-any.whl",
    ]
    assert "       left out" in lines
