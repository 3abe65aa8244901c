"""What a process of the package loads at its start: each cluster starts two, and neither needs the control plane."""

import subprocess
import sys

import pytest

HEAVY = ("lab.cluster.control_plane", "requests", "cryptography", "yaml")


@pytest.mark.parametrize("module", ["lab.cluster.exporter", "lab.cluster.watchdog"])
def test_a_process_of_the_cluster_loads_none_of_what_starts_it(module: str) -> None:
    program = f"import sys; import {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


def test_the_package_offers_its_names_and_no_others() -> None:
    names = "*(getattr(cluster, name).__name__ for name in cluster.__all__)"
    program = f"from lab import cluster; print({names}); cluster.Other"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.stdout.split() == ["BuildError", "Cluster", "ClusterError", "ComponentError", "NodeShape", "Process"]
    assert answer.stderr.endswith("AttributeError: module 'lab.cluster' has no attribute 'Other'\n")
