"""The needs of real nodes of a machine, and the one line that names what is missing."""

import os
import pathlib
import shutil
from collections.abc import Callable

# The programs by the Debian package that has them.
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "lxcfs": "lxcfs",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "gcc": "gcc",
}
FILES = {
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/include/stdio.h": "libc6-dev",
}
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "blkio", "pids", "devices", "freezer", "memory")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
_Exists = Callable[[str], bool]


def missing() -> str:
    """One line that says what this machine lacks, "" when it has everything."""
    return lacks(os.geteuid(), lambda name: shutil.which(name) is not None, lambda path: pathlib.Path(path).exists())


def lacks(user: int, has_program: _Exists, has_file: _Exists) -> str:
    """Returns the line of `missing` for a machine whose user, programs and files the arguments name."""
    if user != 0:
        return "real nodes need root"
    packages = [package for name, package in PROGRAMS.items() if not has_program(name)]
    packages += [package for path, package in FILES.items() if not has_file(path)]
    if packages:
        return f"real nodes need Debian's packages: apt-get install {' '.join(sorted(set(packages)))}"
    if not has_file("/dev/fuse"):
        return "real nodes need FUSE (/dev/fuse), for lxcfs"
    absent = [name for name in CONTROLLERS if not has_file(f"{CGROUPS}/{name}")]
    return f"real nodes need cgroup v1 with {', '.join(absent)} under {CGROUPS}" if absent else ""
