"""The image of this tree, and what a process under runc can do in it; test_fifteen_minutes runs the services in it.

Building it needs root on Debian; elsewhere the file is skipped with the reason, and in CI it fails.
"""

import errno
import pathlib

import pytest

from lab.image import __main__ as make_image
from lab.image import archive, engine, provenance
from tests.contract import built_image
from tests.contract.built_image import Built

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # pip downloads everything again in one of them
MOST_BYTES = 200_000_000
PYTHON = "/opt/evenload/bin/python"


def test_a_build_without_any_earlier_step_makes_the_same_image(built: Built) -> None:
    again = engine.Engine()
    again.build(built_image.ROOT, timestamp=built_image.TIMESTAMP, fresh=True)
    assert again.configuration_digest() == built.configuration_digest


def test_a_build_of_another_date_takes_no_step_of_this_one(built: Built, tmp_path: pathlib.Path) -> None:
    later = built_image.build(tmp_path, built_image.TIMESTAMP + 86_400)
    dates = {int(path.stat().st_mtime) for path in later.root.rglob("*") if path.is_file() and not path.is_symlink()}
    assert dates == {built_image.TIMESTAMP + 86_400}


def test_it_is_small_and_holds_no_tools(built: Built) -> None:
    names = {entry.path.rpartition("/")[2] for entry in built.image.entries if entry.is_file}
    assert built.image.unpacked_bytes < MOST_BYTES
    tools = {"apt", "apt-get", "bash", "busybox", "curl", "dash", "dpkg", "ensurepip", "perl", "pip", "sh", "wget"}
    assert not names & tools
    assert not [entry.path for entry in built.image.entries if entry.path.endswith(("/pip", "/setuptools"))]
    assert [entry.path for entry in built.image.entries if entry.changes_user] == []


def test_what_may_be_written_belongs_to_its_user_and_the_rest_to_root(built: Built) -> None:
    owners = {entry.path: entry.user for entry in built.image.entries}
    assert {path for path, user in owners.items() if user} == {"/var/lib/evenload"}
    assert owners["/var/lib/evenload"] == 65532
    modes = {entry.path: entry.mode & 0o7777 for entry in built.image.entries}
    assert modes["/tmp"] == 0o1777  # noqa: S108 - of the image
    written = [entry.path for entry in built.image.entries if entry.is_file and entry.mode & 0o022]
    assert written == []


def test_scanners_find_its_packages_and_readers_their_licences(built: Built) -> None:
    files = {entry.path for entry in built.image.entries}
    records = {path.rpartition("/")[2] for path in files if path.startswith("/var/lib/dpkg/status.d/")}
    assert {"libc6", "zlib1g"} <= records == {name for name, _ in archive.debian_packages(built.path)}
    unread = [name for name in records if not (built.root / "usr/share/doc" / name / "copyright").exists()]
    assert unread == []
    assert any("/flask-" in path and path.endswith(".dist-info/METADATA") for path in files)


def test_the_statement_beside_it_names_image_base_and_locks(built: Built) -> None:
    statement = provenance.statement(
        built.image, "evenload.tar", built_image.ROOT, "c" * 40, timestamp=built_image.TIMESTAMP
    )
    assert f"sha256:{statement['subject'][0]['digest']['sha256']}" == built.image.digest
    materials = {one["uri"]: one["digest"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {"git+evenload", "file:Dockerfile", "file:requirements.txt", "file:requirements-build.txt"} < set(materials)
    assert any(uri.startswith("localhost/debian-python:") for uri in materials)
    assert "MB  numpy" in make_image.contents(built.image)


def test_a_process_in_it_can_do_nothing_special(built: Built, tmp_path: pathlib.Path) -> None:
    program = "import pathlib\nprint(pathlib.Path('/proc/self/status').read_text())\n"
    program += "try:\n pathlib.Path('/opt/x').touch()\nexcept OSError as error:\n print(f'errno: {error.errno}')"
    lines = built_image.printed(built, tmp_path, PYTHON, "-c", program).splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    assert (status["Uid"], status["Gid"]) == (["65532"] * 4, ["65532"] * 4)
    assert {int(status[f"Cap{kind}"][0], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == ["1"]
    assert status["errno"] == [str(errno.EROFS)]


def test_it_has_what_the_steps_of_the_compose_file_import(built: Built, tmp_path: pathlib.Path) -> None:
    program = (
        "import sys; sys.path.insert(0, '/mnt/tree'); import lab.cluster.containers, lab.cluster.exporter; print('yes')"
    )
    assert built_image.printed(built, tmp_path, PYTHON, "-c", program, tree=built_image.ROOT) == "yes\n"
