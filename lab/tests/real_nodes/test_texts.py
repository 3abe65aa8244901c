"""The texts of a node's configuration, its images, and the line that says what a machine lacks."""

import io
import json
import pathlib
import tarfile

import pytest
import yaml

from lab.real_nodes import images, machine, node, texts, vm

PLACE = texts.Place(2, pathlib.Path("/nodes-of-a-test"))


def test_a_place_has_addresses_of_its_own() -> None:
    assert (PLACE.name, PLACE.address, PLACE.pod_cidr) == ("rn2", "10.77.0.12", "10.78.2.0/24")


def test_a_machine_with_its_own_kernel_has_addresses_that_no_node_in_namespaces_has() -> None:
    place = vm.Place(1, PLACE.root)
    others = [PLACE._replace(number=number) for number in range(1, 10)]
    assert not {(each.name, each.address, each.pod_cidr) for each in others} & {
        (place.name, place.address, place.pod_cidr)
    }
    assert place.name == "vm1"


def test_a_machine_starts_kubelet_when_it_has_the_images() -> None:
    script = vm.files(vm.Place(1, PLACE.root), [pathlib.Path("/a.tar"), pathlib.Path("/b.tar")])["/etc/kubelet"]
    steps = [line.split()[:2] for line in script.splitlines()]
    wanted = (["ctr", "-n"], ["touch", "/run/imported"], ["exec", "kubelet"])
    assert [step for step in steps if step in wanted] == [wanted[0], *wanted]


def test_kubelet_asks_the_apiserver_about_its_clients() -> None:
    document = yaml.safe_load(texts.kubelet(PLACE, pathlib.Path("/ca.crt")))
    assert document["authentication"]["x509"] == {"clientCAFile": "/ca.crt"}
    assert document["authentication"]["anonymous"] == {"enabled": False}
    assert document["authorization"] == {"mode": "Webhook"}
    assert document["staticPodPath"] == "/nodes-of-a-test/nodes/rn2/manifests"


def test_kube_proxy_leaves_the_conntrack_of_the_machine_alone() -> None:
    conntrack = yaml.safe_load(texts.proxy(PLACE))["conntrack"]
    assert set(conntrack.values()) == {0, "0s"}


def test_prometheus_verifies_kubelets_and_scrapes_each_node() -> None:
    places = [PLACE._replace(number=number) for number in (1, 2)]
    jobs = yaml.safe_load(texts.prometheus(places, {"ca_file": "/ca.crt"}, scrape_seconds=5))["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets == {
        "node-exporter": ["10.77.0.11:9100", "10.77.0.12:9100"],
        "cadvisor": ["10.77.0.11:10250", "10.77.0.12:10250"],
        "kubelet": ["10.77.0.11:10250", "10.77.0.12:10250"],
    }
    assert [job.get("tls_config") for job in jobs] == [None, {"ca_file": "/ca.crt"}, {"ca_file": "/ca.crt"}]


def test_pods_get_addresses_of_their_node() -> None:
    bridge = json.loads(texts.pod_network(PLACE))["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.78.2.0/24"}]]


def test_containerd_takes_the_sandbox_that_is_made_here() -> None:
    assert f'sandbox_image = "{images.PAUSE}"' in texts.containerd(PLACE)


def test_a_node_hides_every_sysctl_that_kubelet_writes() -> None:
    script = texts.init(PLACE)
    for name in texts.KERNEL:
        assert f"mount --bind {PLACE.directory}/kernel/{name.replace('/', '.')} /proc/sys/{name}" in script


def test_an_image_holds_its_program_under_its_name() -> None:
    packed = images.archive("lab.local/x:1", "/x", {"x": b"program"})
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    (manifest,) = json.loads(members["manifest.json"])
    assert manifest["RepoTags"] == ["lab.local/x:1"]
    assert json.loads(members[manifest["Config"]])["config"]["Entrypoint"] == ["/x"]
    with tarfile.open(fileobj=io.BytesIO(members[manifest["Layers"][0]])) as layer:
        assert [(member.name, member.mode) for member in layer] == [("x", 0o755)]


def test_memory_is_limited_below_the_starters_own_cgroup() -> None:
    own = "9:name=systemd:/\n4:memory:/ours/deep\n1:cpu:/\n0::/\n"
    paths = {str(path) for path in node.cgroups(PLACE, own)}
    assert "/sys/fs/cgroup/memory/ours/deep/evenload-nodes-of-a-test-rn2" in paths
    assert "/sys/fs/cgroup/cpu/evenload-nodes-of-a-test-rn2" in paths
    assert len(paths) == len(machine.CONTROLLERS) + 1


@pytest.mark.parametrize(
    ("user", "absent", "line"),
    [
        (0, "", ""),
        (1000, "", "real nodes need root"),
        (0, "lxcfs", "real nodes need Debian's packages: apt-get install lxcfs"),
        (0, "ctr", "real nodes need Debian's packages: apt-get install containerd"),
        (0, "/dev/fuse", "real nodes need FUSE (/dev/fuse), for lxcfs"),
        (0, "/sys/fs/cgroup/pids", "real nodes need cgroup v1 with pids under /sys/fs/cgroup"),
    ],
)
def test_one_line_says_what_a_machine_lacks(user: int, absent: str, line: str) -> None:
    assert machine.lacks(user, lambda name: name != absent, lambda path: path != absent) == line


@pytest.mark.parametrize(
    ("absent", "line"),
    [
        ("", ""),
        ("qemu-system-x86_64", "real nodes need Debian's packages: apt-get install qemu-system-x86"),
        (
            "/dev/net/tun",
            "a node with a kernel of its own needs TUN (/dev/net/tun), for its network",
        ),
    ],
)
def test_one_line_says_what_a_machine_lacks_for_a_kernel_of_its_own(absent: str, line: str) -> None:
    assert machine.lacks(0, lambda name: name != absent, lambda path: path != absent, vm=True) == line
    assert machine.lacks(0, lambda name: name != absent, lambda path: path != absent) == ""
