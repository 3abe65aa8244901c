"""The CRD of CapacityBuffer as an autoscaler ships it, from Karpenter's Go module: nothing of it is copied here."""

import json
import pathlib
import subprocess
import zipfile

from lab.cluster import golang

MODULE = "sigs.k8s.io/karpenter@v1.15.0"
FILE = "pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml"


def unpacked(directory: pathlib.Path) -> pathlib.Path:
    """The CRD's file, in that directory; the first call on a machine downloads the module from GOPROXY."""
    go = golang.find((1, 22, 0))
    environment = {**golang.environment(go), "GOFLAGS": ""}  # nothing is built, and there is no go.mod
    command = [str(go), "mod", "download", "-json", MODULE]
    # It names the file, and fails where this Go is older than the module wants for a build.
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    with zipfile.ZipFile(json.loads(answer.stdout)["Zip"]) as archive:
        return pathlib.Path(archive.extract(f"{MODULE}/{FILE}", directory))
