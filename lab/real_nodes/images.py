"""Images of one static program each, compiled here and written as docker-archives that `ctr images import` reads."""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
from collections.abc import Mapping

from lab.cluster import errors

HERE = pathlib.Path(__file__).parent
PAUSE = "lab.local/pause:1"
BURNER = "lab.local/burner:1"


def compiled(name: str, directory: pathlib.Path) -> pathlib.Path:
    """Compiles a C file beside this one to a static program; BuildError with the compiler's words."""
    program = directory / name
    command = ["gcc", "-O1", "-static", "-o", str(program), str(HERE / f"{name}.c")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise errors.BuildError(f"{name}.c did not compile (apt install gcc libc6-dev):\n{answer.stderr.strip()}")
    return program


def archive(name: str, entrypoint: str, files: Mapping[str, bytes]) -> bytes:
    """A docker-archive of one layer that holds these programs by their paths."""
    layer = _tar({path.lstrip("/"): content for path, content in files.items()})
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [entrypoint], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [],
    }
    text = json.dumps(config).encode()
    config_name, layer_name = f"{hashlib.sha256(text).hexdigest()}.json", f"{digest}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]
    return _tar({config_name: text, layer_name: layer, "manifest.json": json.dumps(manifest).encode()})


def write_all(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """Compiles and writes the images; their archives by name."""
    archives = {}
    for name, image in (("pause", PAUSE), ("burner", BURNER)):
        program = compiled(name, directory).read_bytes()
        archives[image] = directory / f"{name}.tar"
        archives[image].write_bytes(archive(image, f"/{name}", {name: program}))
    return archives


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.mode, member.size = 0o755, len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
