"""Collect a root file system: an interpreter, one virtual environment, the libraries under them, and nothing else.

    python deploy/image/root.py /opt/evenload /image annotator cli …

The last step of the Dockerfile's first stage runs it with the Python of the base image; the second stage begins from
scratch and copies /image. Every path stays the one that it has in the base, so nothing here knows where a base keeps
its Python. There is no shell, no package manager and no file with a setuid bit in the result. The words at the end are
the packages that are imported there at the end, in a chroot: a list below that leaves out too much ends the build.
"""

import collections.abc
import compileall
import fnmatch
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Final

# Of the standard library; paths as fnmatch reads them, so that * takes in slashes.
STDLIB_UNUSED: Final = (
    *("config-*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle.py", "turtledemo"),
    *("distutils", "dist-packages", "site-packages", "EXTERNALLY-MANAGED", "*/test", "*/tests", "__pycache__"),
    *("*/__pycache__", "*.a"),
    # Extensions for terminals, databases and tests, whose libraries would follow them into the image.
    *("lib-dynload/_curses*", "lib-dynload/_tkinter*", "lib-dynload/readline*", "lib-dynload/_gdbm*"),
    *("lib-dynload/_dbm*", "lib-dynload/nis.*", "lib-dynload/ossaudiodev*", "lib-dynload/_test*"),
    *("lib-dynload/_xx*", "lib-dynload/xx*", "lib-dynload/_ctypes_test*"),
)
# Of the environment's site-packages. kubernetes' models are 60 MB: objects are decoded by kube.api.
SITE_UNUSED: Final = (
    *("kubernetes/aio", "kubernetes/client/api", "kubernetes/client/apis", "kubernetes/client/models/[!_]*"),
    *("numpy/f2py", "numpy/distutils", "numpy/_core/include", "numpy/_core/lib", "*/tests", "__pycache__"),
    *("*/__pycache__", "*.pyi", "*.a", "*.h", "*.c", "*.pxd", "*.pyx"),
)
COMMANDS: Final = ("evenload", "kubectl-evenload", "python", "python3", "python3.*")  # of the environment's bin
AUTHORITIES: Final = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER: Final = 65532
FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/nonexistent:/nonexistent\n"
    f"evenload:x:{USER}:{USER}:evenload:/nonexistent:/nonexistent\n",
    "etc/group": f"root:x:0:\nevenload:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
MOUNT_POINTS: Final = ("dev", "proc", "run", "sys")
DPKG: Final = pathlib.Path("/var/lib/dpkg")
_LIBRARY: Final = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING: Final = re.compile(r"^\s+(\S+) => not found$", re.MULTILINE)


class Root:
    """A directory that becomes the root of an image; `copied` are the files that lie in it, by their real paths."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.copied: set[pathlib.Path] = set()

    def path(self, path: pathlib.Path) -> pathlib.Path:
        """Returns the place in the directory of an absolute path."""
        return self.directory / path.relative_to("/")

    def add(self, path: pathlib.Path) -> None:
        """Copy a file, and each symbolic link on the way to it as a link."""
        walked = pathlib.Path("/")
        for depth, part in enumerate(path.parts[1:], start=2):
            walked /= part
            if walked.is_symlink():
                self._link(walked)
                rest = path.parts[depth:]
                self.add(pathlib.Path(os.path.normpath(walked.parent.joinpath(walked.readlink(), *rest))))
                return
        if path not in self.copied:
            self.copied.add(path)
            executable = path.stat().st_mode & 0o100
            self.write(path, path.read_bytes(), mode=0o755 if executable else 0o644)

    def add_tree(self, top: pathlib.Path, unused: collections.abc.Sequence[str]) -> None:
        """Copy the files below a directory, but for those whose path below it, or a parent's, matches a pattern."""
        for folder, folders, files in os.walk(top):
            below = pathlib.Path(folder).relative_to(top)
            folders[:] = sorted(name for name in folders if not _matches(below / name, unused))
            for name in sorted(files):
                if not _matches(below / name, unused):
                    self.add(pathlib.Path(folder, name))

    def write(self, path: pathlib.Path, content: bytes, *, mode: int = 0o644) -> None:
        """Make a file."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)

    def _link(self, link: pathlib.Path) -> None:
        place = self.path(link)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(link.readlink())


def _matches(path: pathlib.Path, patterns: collections.abc.Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path.as_posix(), pattern) for pattern in patterns)


def add_python(root: Root, environment: pathlib.Path) -> None:
    """Copy the interpreter, the standard library and the environment."""
    root.add_tree(pathlib.Path(sysconfig.get_path("stdlib")), STDLIB_UNUSED)
    root.add(environment / "pyvenv.cfg")
    for pattern in COMMANDS:
        for command in sorted((environment / "bin").glob(pattern)):
            root.add(command)
    (site,) = environment.glob("lib/python3.*/site-packages")
    root.add_tree(site, SITE_UNUSED)


def add_libraries(root: Root, environment: pathlib.Path) -> None:
    """Copy the shared libraries that the copied files need, and write the loader's cache of them."""
    programs = sorted(path for path in root.copied if _is_elf(path))
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)  # noqa: S603, S607 - the base's own
    if missing := sorted(set(_MISSING.findall(listed.stdout))):
        raise SystemExit(f"the base image lacks shared libraries: {', '.join(missing)}")
    # A library that no file names: the C library opens it when a thread is ended.
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout  # noqa: S607 - the base's own
    by_name = re.findall(r"^\s+libgcc_s\.so\.1 .* => (\S+)$", known, re.MULTILINE)[:1]
    found = {pathlib.Path(name) for name in (*_LIBRARY.findall(listed.stdout), *by_name)}
    libraries = sorted(path for path in found if environment not in path.parents)
    for library in libraries:
        root.add(library)
    folders = sorted({str(library.parent) for library in libraries})
    root.write(pathlib.Path("/etc/ld.so.conf"), "".join(f"{folder}\n" for folder in folders).encode())
    subprocess.run(["ldconfig", "-r", root.directory], check=True)  # noqa: S603, S607 - the base's own
    shutil.rmtree(root.directory / "var/cache", ignore_errors=True)  # ldconfig's, with inode numbers


def _is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def add_system(root: Root) -> None:
    """Write users, name service and mount points; copy the certificate authorities and the name of the distribution."""
    if not AUTHORITIES.exists():
        raise SystemExit(f"the base image has no {AUTHORITIES}: install ca-certificates in it")
    root.add(AUTHORITIES)
    root.add(pathlib.Path("/etc/os-release"))
    for name, content in FILES.items():
        root.write(pathlib.Path("/", name), content.encode())
    for name in MOUNT_POINTS:
        (root.directory / name).mkdir()
    (root.directory / "tmp").mkdir()
    (root.directory / "tmp").chmod(0o1777)


def add_packages(root: Root) -> None:
    """Copy the records and licences of the Debian packages that the copied files are of, where scanners look."""
    owners: dict[str, str] = {}
    for listing in sorted(DPKG.glob("info/*.list")):
        for line in listing.read_text(encoding="utf-8").splitlines():
            owners[os.path.realpath(line)] = listing.stem
    used = {owner for path in root.copied if (owner := owners.get(str(path)))}
    for owner in sorted(used):
        name = owner.partition(":")[0]
        record = subprocess.run(["dpkg-query", "--status", owner], capture_output=True, check=True).stdout  # noqa: S603, S607 - the base's own
        root.write(DPKG / "status.d" / name, record)
        root.add(pathlib.Path("/usr/share/doc", name, "copyright"))


def compile_all(directory: pathlib.Path) -> None:
    """Compile every module once: the root is read-only where it runs, so no source can be newer than its bytecode."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    place = str(directory)
    if not compileall.compile_dir(place, maxlevels=50, stripdir=place, prependdir="/", quiet=1, invalidation_mode=mode):
        raise SystemExit("a module of the image does not compile")


def check(root: Root, environment: pathlib.Path, packages: collections.abc.Sequence[str]) -> None:
    """Import everything within the root, so that a module or library that was left out is missed here."""
    program = pathlib.Path(__file__).with_name("imports.py").read_text(encoding="utf-8")
    command = ["chroot", str(root.directory), str(environment / "bin" / "python"), "-B", "-", *packages]
    subprocess.run(command, input=program, text=True, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - the base's own


def main(environment: pathlib.Path, directory: pathlib.Path, packages: collections.abc.Sequence[str]) -> None:
    """Make the root, and see that it runs."""
    root = Root(directory)
    add_python(root, environment)
    add_libraries(root, environment)
    add_system(root)
    add_packages(root)
    compile_all(directory)
    check(root, environment, packages)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:])
