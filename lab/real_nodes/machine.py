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
# A node with a kernel of its own needs these, too. The kernel itself comes by apt-get into the cache.
VM_PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "busybox": "busybox-static"}
VM_FILES = {"/usr/share/doc/busybox-static": "busybox-static"}  # the package busybox needs libraries
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "blkio", "pids", "devices", "freezer", "memory")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
_Exists = Callable[[str], bool]


def missing(*, vm: bool = False) -> str:
    """One line that says what this machine lacks for nodes, with `vm` also for vm1; "" when it has everything."""
    programs, files = lambda name: shutil.which(name) is not None, lambda path: pathlib.Path(path).exists()
    return lacks(os.geteuid(), programs, files, vm=vm)


def lacks(user: int, has_program: _Exists, has_file: _Exists, *, vm: bool = False) -> str:
    """Returns the line of `missing` for a machine whose user, programs and files the arguments name."""
    if user != 0:
        return "real nodes need root"
    programs, files = PROGRAMS | (VM_PROGRAMS if vm else {}), FILES | (VM_FILES if vm else {})
    packages = [package for name, package in programs.items() if not has_program(name)]
    packages += [package for path, package in files.items() if not has_file(path)]
    if packages:
        return f"real nodes need Debian's packages: apt-get install {' '.join(sorted(set(packages)))}"
    if not has_file("/dev/fuse"):
        return "real nodes need FUSE (/dev/fuse), for lxcfs"
    if vm and not has_file("/dev/net/tun"):
        return "a node with a kernel of its own needs TUN (/dev/net/tun), for its network"
    absent = [name for name in CONTROLLERS if not has_file(f"{CGROUPS}/{name}")]
    return f"real nodes need cgroup v1 with {', '.join(absent)} under {CGROUPS}" if absent else ""
