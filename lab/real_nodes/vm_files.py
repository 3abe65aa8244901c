"""The files of a machine with a kernel of its own: Debian's cloud kernel, an initramfs, and a disk with this machine's
programs. `starter` asks for the kernel where there is a network, `vm` for everything else within the world.
"""

import pathlib
import re
import shutil
import subprocess
from collections.abc import Mapping

from lab.cluster import cache, errors

_META_PACKAGE = "linux-image-cloud-amd64"
_BUSYBOX = "/usr/bin/busybox"  # static
_PLUGINS = "/usr/lib/x86_64-linux-gnu/xtables"
_PROGRAMS = (
    *(f"/usr/bin/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
    *(f"/usr/sbin/{name}" for name in ("runc", "xtables-nft-multi")),
    *(f"/usr/lib/cni/{name}" for name in ("bridge", "host-local", "loopback", "portmap")),
)
_DIRECTORIES = ("bin", "sbin", "lib64", "proc", "sys", "dev", "run", "tmp", "root", "var/log", "www/cgi-bin")
_TABLES = [f"{family}tables{verb}" for family in ("ip", "ip6") for verb in ("", "-save", "-restore")]
# In the order of their needs; the kernel loads all others by itself from the disk.
_MODULES = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk")
DISK_BYTES = 4 << 30  # sparse
# Without a disk it says only that a kernel runs here.
_INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox grep -q probe /proc/cmdline && /bin/busybox poweroff -f
for name in {" ".join(_MODULES)}; do /bin/busybox insmod /$name.ko; done
/bin/busybox mount /dev/vda /root
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""


def kernel() -> pathlib.Path:
    """The directory of Debian's cloud kernel, from the cache or by apt-get, which checks it; BuildError."""
    home = cache.here() / "kernel"
    with cache.locked(home):
        if not (home / "boot").exists():
            depends = _run("apt-cache", "depends", "--important", _META_PACKAGE)
            match = re.search(r"Depends: (linux-image-\S+)", depends)
            if match is None:
                raise errors.BuildError(f"apt knows no {_META_PACKAGE}, which Debian 12 has: apt-get update")
            partial = home / "partial"
            partial.mkdir(exist_ok=True)
            _run("apt-get", "download", match[1], cwd=partial)
            (package,) = partial.glob("*.deb")
            _run("dpkg-deb", "-x", str(package), str(partial))
            for name in ("lib", "boot"):  # boot is last: it says that all of it is here
                (partial / name).rename(home / name)
            shutil.rmtree(partial)
    return home


def image(home: pathlib.Path) -> pathlib.Path:
    """The kernel itself; the end of its name is its release."""
    return next((home / "boot").glob("vmlinuz-*"))


def write_initramfs(home: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """Writes the first file system: busybox, the modules of the disk, and a script that mounts it."""
    root = directory / "initramfs"
    for name in ("bin", "dev", "proc", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy2(_BUSYBOX, root / "bin")
    for name in _MODULES:
        shutil.copy2(next((home / "lib").rglob(f"{name}.ko")), root)
    (root / "init").write_text(_INIT, encoding="utf-8")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = directory / "initramfs.cpio"
    _run("busybox", "cpio", "-o", "-H", "newc", "-F", str(packed), cwd=root, text=names)
    return packed


def write_disk(
    home: pathlib.Path,
    directory: pathlib.Path,
    programs: Mapping[str, pathlib.Path],
    files: Mapping[str, str | pathlib.Path],
) -> pathlib.Path:
    """Writes a disk with the kernel's modules, this machine's programs, `programs` in /usr/bin, `files` by path."""
    root, disk = directory / "root", directory / "disk.img"
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True)
    libraries = re.findall(r"(/\S+) \(0x", _run("ldd", *_PROGRAMS))
    release = image(home).name.removeprefix("vmlinuz-")
    copies = {path: pathlib.Path(path) for path in (_BUSYBOX, _PLUGINS, *_PROGRAMS, *libraries)}
    copies |= {f"/usr/bin/{name}": path for name, path in programs.items()}
    copies |= {f"/lib/modules/{release}": home / "lib" / "modules" / release}
    for path, source in {**copies, **files}.items():
        _put(root / path.lstrip("/"), source)
    for name in _run("busybox", "--list").split():
        if name != "busybox":
            (root / "bin" / name).symlink_to(_BUSYBOX)
    for name in ("init", "modprobe"):
        (root / "sbin" / name).symlink_to(_BUSYBOX)
    for name in _TABLES:
        (root / "usr" / "sbin" / name).symlink_to("xtables-nft-multi")
    _run("busybox", "depmod", "-b", str(root), release)
    with disk.open("wb") as empty:
        empty.truncate(DISK_BYTES)
    _run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", str(root), str(disk))
    shutil.rmtree(root)
    return disk


def _put(target: pathlib.Path, source: str | pathlib.Path) -> None:
    """Puts a text, a file or a directory there; texts are scripts, too."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, str):
        target.write_text(source, encoding="utf-8")
        target.chmod(0o755)
    elif source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def _run(*command: str, cwd: pathlib.Path | None = None, text: str = "") -> str:
    """The output of a command; BuildError with its words."""
    answer = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise errors.BuildError(f"{' '.join(command)}: {answer.stderr.strip()[-800:]}")
    return answer.stdout
