"""Packs the plugin's archive and describes it in a manifest of krew (krew.googlecontainertools.github.com/v1alpha2)."""

import gzip
import hashlib
import io
import pathlib
import tarfile
from collections.abc import Iterable
from typing import Final

import yaml

PLUGIN: Final = "evenload"
COMMAND: Final = "kubectl-evenload"
_EXECUTABLE, _FILE = 0o755, 0o644


def packed(files: Iterable[pathlib.Path]) -> bytes:
    """Returns a gzipped tar of these files without their directories: the same bytes for the same files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(files, key=lambda each: each.name):
            entry = tarfile.TarInfo(path.name)  # owner 0, time 0
            entry.size = path.stat().st_size
            entry.mode = _EXECUTABLE if path.name == COMMAND else _FILE
            tar.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(raw.getvalue(), mtime=0)


def manifest(version: str, archive: bytes, uri: str) -> str:
    """Returns the manifest as YAML; `uri` is the address from which krew is to fetch the archive."""
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Load of nodes, scheduling decisions, evictions",
            "description": (
                "Shows the load that scheduling goes by, explains why a pod went where it went,\n"
                "what the descheduler would evict and why not, and checks an installation.\n"
            ),
            "caveats": (
                "Needs Python 3.11 or newer. The first call installs pinned packages from PyPI\n"
                "into the user's cache, which takes about a minute.\n"
            ),
            "platforms": [
                {
                    "selector": {
                        "matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}],
                    },
                    "uri": uri,
                    "sha256": hashlib.sha256(archive).hexdigest(),
                    "bin": COMMAND,
                }
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False)
