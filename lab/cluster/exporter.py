"""The load exporter: `python -m lab.cluster.exporter` plays a workload as node_exporter and cAdvisor series.

It watches a cluster's Nodes and Pods and serves what they would use (docs/reference/load-exporter.md), so that fake
nodes have real load: a pod's load shows on the node where kube-scheduler really put it. `cluster.Cluster` starts it and
points Prometheus at it. This module only wires; the parts are the `cluster.exporter_*` modules.
"""

import pathlib
import random
import threading

import click

from kube import config, door, errors, kinds
from kube.cache import reflector
from lab.cluster import exporter_fleet, exporter_http, exporter_load, exporter_text, exporter_watch
from runtime import clock as clocks
from runtime import exit_codes, logs, loop, options
from simulator import contention, load_curves

log = logs.get(__name__)

DEFAULT_PORT = 8910
JOIN_SECONDS = 2.0


@click.command()
@click.option("--kubeconfig", type=click.Path(), help="Cluster to watch. Default: as kubectl.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", show_default=True, help="HOST:PORT.")
@click.option("--seed", default=0, show_default=True, help="Seed of the back-off jitter; curves are seeded per pod.")
@click.option("--trace", type=click.Path(path_type=pathlib.Path), help='.npz to play for pods with series "trace".')
@click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--node-label", is_flag=True, help="Label node_exporter's series with node=NAME too.")
@click.option("--system-cpu", default=0.03, show_default=True, help="A node's own CPU load, share of capacity.")
@click.option("--system-memory", default=0.05, show_default=True, help="A node's own memory load, share of capacity.")
@click.option("--max-cpus", default=0, help="Export at most so many CPUs of a node (0: all).")
@click.option("--logging-format", default="text", type=click.Choice(["text", "json"]))
@click.option("-v", "--verbose", count=True)
def main(
    *, kubeconfig: str | None, context: str | None, listen: str, seed: int, trace: pathlib.Path | None, speed: float,
    node_label: bool, system_cpu: float, system_memory: float, max_cpus: int, logging_format: str, verbose: int,
) -> None:  # fmt: skip
    """Serve node_exporter and cAdvisor series for all nodes of a cluster from what its pods say they use."""
    logs.configure(logging_format=logging_format, verbosity=verbose)
    clock = clocks.WallClock()
    with exit_codes.reported(errors.ConfigError, errors.Unreachable, load_curves.TraceError, OSError):
        curves = exporter_load.curves([job.curve for job in exporter_load.read_trace(trace)] if trace else ())
        fleet = exporter_fleet.Fleet(exporter_load.Clock(clock.now(), speed), curves)
        exporter = exporter_http.Exporter(fleet, exporter_text.Page(node_label=node_label, max_cpus=max_cpus), clock)
        watcher = exporter_watch.Watcher(exporter, contention.SystemLoad(system_cpu, system_memory))
        run(exporter, watcher, config.connect(kubeconfig, context), clock, rng=random.Random(seed), listen=listen)


def run(
    exporter: exporter_http.Exporter, watcher: exporter_watch.Watcher, door: door.KubeDoor, clock: clocks.Clock,
    *, rng: random.Random, listen: str,
) -> None:  # fmt: skip
    """Serves until SIGTERM or SIGINT, while two reflectors keep the fleet up to date."""
    stop = loop.stop_on_signals()
    server = exporter_http.Server(options.listen_address(listen, DEFAULT_PORT), exporter)
    serving = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    nodes = reflector.Reflector(door, kinds.NODES, clock=clock, rng=rng, on_change=watcher.on_node)
    pods = reflector.Reflector(door, kinds.PODS, clock=clock, rng=rng, on_change=watcher.on_pod)
    serving.start()
    threads = [nodes.start(stop), pods.start(stop)]
    log.info("serving", address=listen)
    stop.wait()
    server.shutdown()
    server.server_close()
    for thread in (serving, *threads):
        thread.join(timeout=JOIN_SECONDS)


if __name__ == "__main__":
    main()
