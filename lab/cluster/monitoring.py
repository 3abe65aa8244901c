"""Prometheus for a cluster: its arguments, its configuration, and history written into it before the fact.

`control_plane` starts it; the targets are a file it watches, so an exporter that had to change its port is found
again. What the load exporter says about `instance` stands (honor_labels), because one process plays the node_exporters
of all nodes.
"""

import collections.abc
import json
import pathlib
import subprocess
import tempfile

import yaml

from lab.cluster import components, errors

RETENTION = "15d"
TARGETS = "targets.json"
EXPORTERS = ("load-exporter", "node-exporter")
EVENLOAD = "evenload"  # Evenload's services, where somebody starts them


def arguments(layout: components.Layout, *, port: int) -> components.Arguments:
    """Prometheus with its data in the cluster's directory and the reload endpoint open."""
    return [
        layout.binary("prometheus"),
        f"--config.file={layout.configuration('prometheus.yaml')}",
        f"--storage.tsdb.path={layout.directory / 'prometheus'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={layout.listen}:{port}",
        "--web.enable-lifecycle",
        "--web.enable-admin-api",
        "--log.level=warn",
    ]


def configuration(directory: pathlib.Path, *, scrape_seconds: float) -> str:
    """One job per exporter and one for Evenload's services, each with a targets file in `directory`."""
    interval = f"{round(scrape_seconds * 1000)}ms"
    document = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": [_job(name, directory) for name in (*EXPORTERS, EVENLOAD)],
    }
    return yaml.safe_dump(document, sort_keys=False)


def targets(addresses: collections.abc.Mapping[str, str]) -> dict[str, str]:
    """File name -> content of the target files, from job names to HOST:PORT; a job without an address has no target."""
    return dict(_targets(job, [addresses[job]] if job in addresses else []) for job in EXPORTERS)


def services(addresses: collections.abc.Sequence[str]) -> tuple[str, str]:
    """The name and content of the target file for Evenload's services at these HOST:PORTs."""
    return _targets(EVENLOAD, addresses)


def _targets(job: str, addresses: collections.abc.Sequence[str]) -> tuple[str, str]:
    return f"{job}-{TARGETS}", json.dumps([{"targets": list(addresses)}] if addresses else [])


def create_blocks(layout: components.Layout, openmetrics: str) -> None:
    """Turns OpenMetrics text with timestamps into blocks of Prometheus' data directory (promtool does it).

    Errors: ClusterError with what promtool said.
    """
    text = openmetrics if openmetrics.rstrip().endswith("# EOF") else openmetrics.rstrip("\n") + "\n# EOF\n"
    with tempfile.TemporaryDirectory(dir=layout.directory) as name:
        source = pathlib.Path(name) / "history.om"
        source.write_text(text, encoding="utf-8")
        command = [layout.binary("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        command += [str(source), str(layout.directory / "prometheus")]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise errors.ClusterError(
            f"promtool could not read the history: {(answer.stderr or answer.stdout).strip()[-800:]}\n"
            "Expected OpenMetrics text with a timestamp in seconds on each sample."
        )


def _job(name: str, directory: pathlib.Path) -> dict[str, object]:
    files = [str(directory / f"{name}-{TARGETS}")]
    return {"job_name": name, "honor_labels": name == "load-exporter", "file_sd_configs": [{"files": files}]}
