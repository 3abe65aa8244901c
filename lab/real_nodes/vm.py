"""A node with a kernel of its own, in QEMU: cgroup v2, a /proc of its own, and pressure figures that no other shares.

`world` starts it beside the nodes in namespaces. It is slow where QEMU has to translate (`accelerator`), and as true.
"""

import pathlib
import subprocess
from collections.abc import Mapping, Sequence

from lab.cluster import errors
from lab.real_nodes import node, texts, vm_files, waiting

SHELL_PORT = 9101
SHELL_PATH = "/cgi-bin/sh"  # runs the commands that are posted to it and answers their output, 500 where one fails
MEMORY_MEBIBYTES = 2048
BOOT_SECONDS = 300.0
PROBE_SECONDS = 5.0
_UP = "the machine is up"
_LINK = "tap0"
_CONSOLE = "console.log"  # and the output of its programs
_KVM = ("-accel", "kvm", "-cpu", "host")
_TRANSLATION = ("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max")
_QEMU = ("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-smp", "1")


class Place(texts.Place):
    """The place of the machine; its files have the same paths in it as outside."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return f"vm{self.number}"

    @property
    def address(self) -> str:
        """The node's InternalIP."""
        return f"10.77.0.{20 + self.number}"

    @property
    def pod_cidr(self) -> str:
        """The addresses of the node's pods."""
        return f"10.78.{20 + self.number}.0/24"


def accelerator(kernel: pathlib.Path, initramfs: pathlib.Path) -> Sequence[str]:
    """The arguments of KVM where it boots the kernel within seconds, else those of QEMU's translation.

    A device /dev/kvm is no proof: on some machines it opens, and what runs in it makes no progress.
    """
    probe = [*_QEMU, *_KVM, "-m", "256", "-kernel", str(kernel), "-initrd", str(initramfs), "-append", "probe quiet"]
    if not pathlib.Path("/dev/kvm").exists():
        return _TRANSLATION
    try:
        answer = subprocess.run(probe, capture_output=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _TRANSLATION
    return _TRANSLATION if answer.returncode else _KVM


def files(place: texts.Place, archives: Sequence[pathlib.Path]) -> dict[str, str]:
    """The scripts of the machine, by their path in it."""
    imports = "\n".join(f"ctr -n k8s.io images import {path}" for path in archives)
    commands = {name: f"{name} {' '.join(arguments)}" for name, arguments in texts.arguments(place).items()}
    commands["node_exporter"] += " --collector.pressure"
    commands["httpd"] = f"httpd -f -p {SHELL_PORT} -h /www"
    script = f"""#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/system
echo 1 > /sys/fs/cgroup/system/cgroup.procs  # beside /kubepods, as systemd does it: each has its share
mount --make-rshared /
hostname {place.name}
modprobe -a virtio_net br_netfilter
ip link set lo up
ip address add {place.address}/24 dev eth0
ip link set eth0 up
ip route add default via {texts.GATEWAY}
echo 1 > /proc/sys/net/ipv4/ip_forward
echo "{_UP}" > /dev/console
"""
    # A program that ends is started again, and so are these steps before kubelet's.
    kubelet = f"""#!/bin/sh -e
until [ -e /run/containerd/containerd.sock ]; do sleep 1; done
if [ ! -e /run/imported ]; then
{imports}
touch /run/imported
fi
exec {commands.pop("kubelet")}
"""
    inittab = ["::sysinit:/etc/start", "::respawn:/etc/kubelet", *(f"::respawn:{each}" for each in commands.values())]
    return {
        "/etc/start": script,
        "/etc/kubelet": kubelet,
        "/etc/inittab": "\n".join(inittab) + "\n",
        "/etc/resolv.conf": "",
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\n",
        f"/www{SHELL_PATH}": """#!/bin/sh
output=$(sh -e 2>&1) && status="200 OK" || status="500 Failed"
printf "Status: $status\\r\\nContent-Type: text/plain\\r\\n\\r\\n%s\\n" "$output"
""",
    }


def start(place: texts.Place, programs: Mapping[str, pathlib.Path], archives: Sequence[pathlib.Path]) -> str:
    """Boots a machine that is a node, and returns its accelerator; it is Ready some seconds later.

    `programs` are the paths of kubelet, kube-proxy and node_exporter. Errors: ComponentError, BuildError.
    """
    here = place.root / "vm"
    here.mkdir()
    node.write_files(place)
    home = vm_files.kernel()
    kernel, initramfs = vm_files.image(home), vm_files.write_initramfs(home, here)
    copies = {str(path): path for path in (*archives, place.root / "plane" / "pki" / "ca.crt", place.directory)}
    copies |= {f"/etc/{name}": place.directory / name for name in ("hosts", "machine-id")}
    copies["/etc/os-release"] = pathlib.Path("/etc/os-release")
    disk = vm_files.write_disk(home, here, programs, {**files(place, archives), **copies})
    node.run("ip", "tuntap", "add", "dev", _LINK, "mode", "tap")
    node.run("ip", "link", "set", _LINK, "master", "rnbr", "up")
    node.run("ip", "route", "add", place.pod_cidr, "via", place.address)
    how = accelerator(kernel, initramfs)
    devices = ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe", "-device", "virtio-net-pci,netdev=net"]
    devices += ["-netdev", f"tap,id=net,ifname={_LINK},script=no,downscript=no", "-serial", f"file:{here}/{_CONSOLE}"]
    boots = ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", "console=ttyS0 psi=1 quiet panic=-1"]
    _boot([*_QEMU, *how, "-m", str(MEMORY_MEBIBYTES), *devices, *boots], here)
    return how[1].partition(",")[0]


def _boot(command: Sequence[str], here: pathlib.Path) -> None:
    """Starts QEMU and waits until the machine says on its console that it is up."""
    console = here / _CONSOLE
    with (here / "qemu.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_over() -> bool:
        return process.poll() is not None or (console.exists() and _UP.encode() in console.read_bytes())

    waiting.until(is_over, f"the machine to boot, see {console}", BOOT_SECONDS)
    if process.poll() is not None:
        tails = "\n".join(errors.log_tail(path) for path in (here / "qemu.log", console))
        raise errors.ComponentError(f"the machine with a kernel of its own ended:\n{tails}")
