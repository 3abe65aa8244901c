"""The control plane as containers: what docker-compose.yml runs, and the two steps that prepare it.

The commands of the containers are those of `components` and `monitoring` with other addresses and paths; a test holds
docker-compose.yml to `commands`. `python -m lab.cluster.containers files` writes certificates, kubeconfigs and
configuration into the volume before anything starts, `python -m lab.cluster.containers objects` makes the namespace,
the rights of the services and the fake nodes once the apiserver answers. Both may be repeated: what is there stays.
"""

import pathlib
import threading
import time

import click
import yaml

from lab.cluster import api, binaries, cache, components, errors, extender_stanza, nodes, ports, processes, site
from lab.cluster.demo import permissions

VOLUME = pathlib.Path("/var/lib/evenload")  # the image makes it its own user's, and a new volume takes that over
STAGES = pathlib.Path("/etc/kwok")
PORTS = {
    "etcd": 2379, "etcd-peer": 2380, "kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259,
    "kwok": 10247, "prometheus": 9090, "node-exporter": 9100, "load-exporter": 8910, "extender": 8900,
}  # fmt: skip
REACHED = ("etcd", "kube-apiserver", "prometheus", "node-exporter", "load-exporter", "extender")
SERVICES = ("annotator", "extender", "descheduler")
EXPORTERS = ("node-exporter", "load-exporter")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a container's own network; docker-compose.yml publishes on loopback alone
HOST_KUBECONFIG = "kubeconfigs/host.kubeconfig"
NAMESPACE = processes.ROOT / "deploy" / "namespace" / "namespace.yaml"
WAIT_SECONDS = 300.0
_NEVER = threading.Event()


def place(volume: pathlib.Path = VOLUME) -> site.Site:
    """The cluster whose components are containers named after them, with their files in one volume."""
    commands = {tool.name: pathlib.Path(tool.name) for tool in binaries.TOOLS}
    layout = components.Layout(volume, commands, {name: name for name in REACHED}, EVERYWHERE)
    return site.Site(layout, ports.FixedPorts(PORTS), site.Settings(stages=STAGES))


def commands() -> dict[str, components.Arguments]:
    """The command of each component's container."""
    here = place()
    return {name: here.arguments(name) for name in site.ORDER}


def own_directory(service: str) -> str:
    """Returns the folder of the volume that a service sees, and nothing else of it."""
    return f"services/{service}"


def write_files(here: site.Site, *, now_seconds: float) -> bool:
    """Everything that the containers read, made in one go; False if it was there."""
    if (here.layout.directory / HOST_KUBECONFIG).exists():
        return False
    here.prepare(now_seconds=now_seconds)
    here.write_kubeconfigs()
    here.write_scheduler([extender_stanza.at(here.url("extender"))])
    here.write_targets(EXPORTERS)
    for service in SERVICES:
        user = f"system:serviceaccount:{permissions.NAMESPACE}:evenload-{service}"
        here.write(f"{own_directory(service)}/kubeconfig", here.client_kubeconfig(user, ()))
    url = f"https://{components.LOOPBACK}:{PORTS['kube-apiserver']}"
    here.write(HOST_KUBECONFIG, here.client_kubeconfig(*site.ADMIN, url=url))
    return True


class Admin:
    """The cluster's administrator, as `permissions` needs one."""

    def __init__(self, client: api.Api) -> None:
        self._client = client

    @property
    def api(self) -> api.Api:
        """REST calls as admin."""
        return self._client


def create_objects(client: api.Api, count: int) -> None:
    """Creates the missing namespace, RBAC and so many fake nodes, and waits until pods can be scheduled."""
    wait_ready(client)
    (namespace,) = yaml.safe_load_all(NAMESPACE.read_text(encoding="utf-8"))
    if not client.exists(f"api/v1/namespaces/{permissions.NAMESPACE}"):
        client.create("api/v1/namespaces", namespace)
    permissions.apply(Admin(client))
    wanted = nodes.shapes(count)
    for index, shape in enumerate(wanted):
        if not client.exists(f"api/v1/nodes/{shape.name}"):
            nodes.create(client, [shape], first_index=index)
    nodes.wait_ready(client, [shape.name for shape in wanted])


def wait_ready(client: api.Api) -> None:
    """Waits for the apiserver; ComponentError when it does not become ready."""
    limit = time.monotonic() + WAIT_SECONDS
    while not client.is_ready():
        if time.monotonic() > limit:
            raise errors.ComponentError(f"{client.url} is not ready after {WAIT_SECONDS:g} s: look at the logs")
        _NEVER.wait(processes.POLL_SECONDS)


@click.group()
def main() -> None:
    """Prepare what docker-compose.yml runs."""


@main.command("files")
def files() -> None:
    """Certificates, kubeconfigs and configuration, before anything starts."""
    written = write_files(place(), now_seconds=time.time())
    cache.say(
        f"{VOLUME}: {'written' if written else 'kept as it was; `docker compose down --volumes` starts from scratch'}"
    )


@main.command("objects")
@click.option("--nodes", "count", default=20, show_default=True, type=click.IntRange(min=0), help="Fake nodes.")
def objects(*, count: int) -> None:
    """The namespace, the services' rights and the nodes, once the apiserver answers."""
    create_objects(place().admin(), count)
    cache.say(f"{count} nodes are Ready")


if __name__ == "__main__":
    main()
