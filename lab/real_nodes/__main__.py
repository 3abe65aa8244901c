"""`python -m lab.real_nodes [--nodes 3] [--vm] [--keep]`: real nodes for people. Only wiring."""

import signal
import sys

import click

from lab.cluster import binaries, cache, errors
from lab.real_nodes import machine
from lab.real_nodes.starter import Starter


@click.command()
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 9), help="How many, rn1, rn2, …")
@click.option("--vm", is_flag=True, help="Also vm1, which has a kernel of its own: cgroup v2 and pressure figures.")
@click.option("--keep", is_flag=True, help="End when all are Ready; the nodes stay until --down.")
@click.option("--down", is_flag=True, help="End nodes that stayed.")
def main(*, nodes: int, vm: bool, keep: bool, down: bool) -> None:
    """Real kubelets on this machine, as root on Debian, until Ctrl-C."""
    if reason := machine.missing(vm=vm):
        cache.say(reason)
        sys.exit(2)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    starter = Starter()
    try:
        if down:
            starter.stop()
        else:
            _run(starter, nodes, vm=vm, keep=keep)
    except errors.ClusterError as error:
        cache.say(f"error: {error}")
        sys.exit(2)


def _run(starter: Starter, nodes: int, *, vm: bool, keep: bool) -> None:
    """Starts nodes and says where they are; waits for Ctrl-C and ends them, unless they are to stay."""
    starter.start(nodes, vm=vm, keep=keep)
    try:
        _print(starter, nodes)
        if not keep:
            starter.wait()
    except KeyboardInterrupt:
        cache.say("ending the nodes")
    finally:
        if not keep:
            starter.stop()


def _print(starter: Starter, nodes: int) -> None:
    kubeconfig, apiserver, prometheus = starter.addresses()
    kubectl = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "kubectl"])["kubectl"]
    cache.say(f"{nodes} nodes are Ready, in namespaces: kube-apiserver {apiserver}, Prometheus {prometheus}")
    if accelerator := starter.accelerator():
        cache.say(f"vm1 is Ready, too, with a kernel of its own, by {accelerator}")
    cache.say(f"next: nsenter -t {starter.init} -m -n {kubectl} --kubeconfig {kubeconfig} get pods -A -o wide")
    cache.say("end them with Ctrl-C, or where they stay with: python -m lab.real_nodes --down")
    click.echo(f"export KUBECONFIG={kubeconfig}")


if __name__ == "__main__":
    main()
