"""The root file system of the image: links stay links, what is unused stays out, and nothing changes its user."""

import os
import pathlib
import subprocess
import sys

import pytest
from click import testing

from deploy.image import imports, root
from lab.image import __main__ as make_image
from lab.image import archive, container

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def base(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with a file behind two links, as the C library is on Debian."""
    folder = tmp_path.resolve() / "base"
    (folder / "usr" / "lib").mkdir(parents=True)
    (folder / "lib").symlink_to("usr/lib")
    (folder / "usr" / "lib" / "library.so.1.2").write_bytes(b"\x7fELF")
    (folder / "usr" / "lib" / "library.so.1").symlink_to("library.so.1.2")
    return folder


@pytest.fixture
def collected(tmp_path: pathlib.Path) -> root.Root:
    return root.Root(tmp_path.resolve() / "image")


def test_a_file_is_copied_with_the_links_on_the_way_to_it(base: pathlib.Path, collected: root.Root) -> None:
    collected.add(base / "lib" / "library.so.1")
    place = collected.path(base)
    assert (place / "lib").readlink() == pathlib.Path("usr/lib")
    assert (place / "usr" / "lib" / "library.so.1").readlink() == pathlib.Path("library.so.1.2")
    assert (place / "lib" / "library.so.1").read_bytes() == b"\x7fELF"
    assert collected.copied == {base / "usr" / "lib" / "library.so.1.2"}


def test_a_copy_may_be_run_but_changes_no_user(base: pathlib.Path, collected: root.Root) -> None:
    for name, mode in (("run", 0o4755), ("read", 0o2664)):
        (base / name).write_text("")
        (base / name).chmod(mode)
        collected.add(base / name)
    assert [collected.path(base / name).stat().st_mode & 0o7777 for name in ("run", "read")] == [0o755, 0o644]


def test_what_matches_is_left_out_with_all_below_it(base: pathlib.Path, collected: root.Root) -> None:
    for name in ("kubernetes/client/models/__init__.py", "kubernetes/client/models/v1_pod.py", "numpy/ma/tests/test.py",
                 "kubernetes/aio/client.py", "numpy/ma/core.py", "numpy/ma/core.pyi"):  # fmt: skip
        (base / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "site" / name).write_text("")
    collected.add_tree(base / "site", root.SITE_UNUSED)
    assert {str(path.relative_to(base / "site")) for path in collected.copied} == {
        "kubernetes/client/models/__init__.py",
        "numpy/ma/core.py",
    }


def test_bytecode_is_never_compared_with_its_source(base: pathlib.Path) -> None:
    (base / "module.py").write_text("VALUE = 1\n")
    root.compile_all(base)
    (compiled,) = (base / "__pycache__").iterdir()
    assert compiled.read_bytes()[4:8] == (1).to_bytes(4, "little")  # by hash, unchecked: PEP 552
    (base / "module.py").write_text("VALUE = \n")
    compiled.unlink()
    with pytest.raises(SystemExit, match="does not compile"):
        root.compile_all(base)


def loaded(tmp_path: pathlib.Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs `imports` over a package whose only module has this text."""
    (tmp_path / "package").mkdir(exist_ok=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "module.py").write_text(text)
    command = [sys.executable, imports.__file__, "package"]
    return subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)


def test_an_import_within_a_function_counts_and_one_for_type_checkers_does_not(tmp_path: pathlib.Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import gone\n"
    done = loaded(tmp_path, text + "def late():\n    from wsgiref.util import guess_scheme\n")
    assert done.returncode == 0, done.stderr
    assert "\nwsgiref.util\t" in done.stdout


def test_a_module_that_was_left_out_is_missed(tmp_path: pathlib.Path) -> None:
    done = loaded(tmp_path, "def late():\n    import gone\n")
    assert done.returncode == 1
    assert "No module named 'gone'" in done.stderr


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/usr/lib/python3.11/json/decoder.py", "Python"),
        ("/usr/bin/python3.11", "Python"),
        ("/usr/lib/python3.11/json/__pycache__/decoder.cpython-311.pyc", "bytecode"),
        ("/opt/evenload/lib/python3.11/site-packages/numpy.libs/libopenblas.so", "numpy"),
        ("/opt/evenload/lib/python3.11/site-packages/extender/service.py", "Evenload"),
        ("/opt/evenload/lib/python3.11/site-packages/flask-3.1.3.dist-info/METADATA", "metadata of packages"),
        ("/opt/evenload/lib/python3.11/site-packages/typing_extensions.py", "typing_extensions"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "shared libraries"),
        ("/etc/passwd", "other files"),
    ],
)
def test_a_file_belongs_to_a_part(path: str, part: str) -> None:
    assert archive.part(path) == part


def test_a_container_is_what_the_manifests_ask_for() -> None:
    config = {"User": "65532:65532", "Entrypoint": ["evenload"], "Env": ["PATH=/opt/evenload/bin"]}
    image = archive.Image("sha256:0", config, {}, "amd64", 0, ())
    made = container.bundle(image, ROOT, ["extender"], {"/etc/evenload": ROOT, "/var/lib/evenload": ROOT})
    process = made["process"]
    assert process["args"] == ["evenload", "extender"]
    assert process["user"] == {"uid": 65532, "gid": 65532}
    assert (process["noNewPrivileges"], made["root"]["readonly"]) == (True, True)
    assert set(map(tuple, process["capabilities"].values())) == {()}
    assert len(process["capabilities"]) == 5
    modes = {mount["destination"]: mount["options"][-1] for mount in made["mounts"] if mount.get("type") == "bind"}
    assert modes == {"/etc/evenload": "ro", "/var/lib/evenload": "rw"}


@pytest.mark.parametrize(("continuous", "code"), [("1", 1), ("", 0)])
def test_without_root_it_says_so_in_a_line_and_fails_only_in_ci(
    continuous: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = testing.CliRunner().invoke(make_image.main, [], env={"CI": continuous})
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr == "no root: the image is not built; run make -C lab image as root, or docker build\n"
