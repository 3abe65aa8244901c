"""buildah, runc and mmdebstrap: Debian's, installed where that is allowed; their storage is in the user cache.

`Engine.build` runs the Dockerfile of a tree. No registry is asked: `--from` replaces the Dockerfile's base by an image
of Debian's own Python, which mmdebstrap makes once. pip runs in the build with this machine's index and certificate
authorities; neither gets into the image.
"""

import ast
import datetime
import functools
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from lab.cluster import cache
from runtime import version

PROGRAMS: Final = ("buildah", "runc", "mmdebstrap")
BASE_PACKAGES: Final = ("ca-certificates", "python-is-python3", "python3", "python3-pip")
TAG: Final = f"localhost/evenload:{version.VERSION}"
_PIP_KEYS: Final = ("extra-index-url", "index-url", "proxy", "timeout", "trusted-host")
_SETTING: Final = re.compile(r"^[\w:-]+\.([\w-]+)=(.*)$", re.MULTILINE)
_TAIL_LINES: Final = 15
_MOST_STEPS: Final = 60  # an earlier build leaves 18


class EngineError(Exception):
    """A program of the engine failed; the message has its command and the end of what it wrote."""


def obstacle() -> str | None:
    """Why no image can be built and run here, in one line; None where it can, after installing Debian's packages."""
    if os.geteuid() != 0:
        return "no root: the image is not built; run make -C lab image as root, or docker build"
    missing = _missing()
    if missing and shutil.which("apt-get"):
        cache.say(f"installing {', '.join(missing)}")
        subprocess.run(("apt-get", "update", "-q"), capture_output=True, check=False)
        command = ("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing)
        subprocess.run(command, capture_output=True, check=False)
    if missing := _missing():
        return f"no {', '.join(missing)}: the image is not built; install Debian's packages of these names"
    if subprocess.run(("unshare", "--mount", "true"), capture_output=True, check=False).returncode:
        return "no right to mount, which building and running it takes: the image is not built"
    return None


def _missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def run(command: Sequence[str | pathlib.Path]) -> str:
    """The output of a command; EngineError when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
        raise EngineError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    return done.stdout


class Engine:
    """buildah with a storage of its own; two processes may use it at once, one builds after the other."""

    def __init__(self, home: pathlib.Path | None = None) -> None:
        self.home = home or cache.here() / "image"
        self.home.mkdir(parents=True, exist_ok=True)

    def build(self, tree: pathlib.Path, *, timestamp: int, fresh: bool = False, pull: bool = False) -> None:
        """Build the tree's Dockerfile as `TAG`; `fresh` uses no step of an earlier build, `pull` the base it names.

        Every file and the image's own date are `timestamp`, so that equal trees make equal images. buildah finds a kept
        step by its text alone, so the text of the last stage has the date, too.
        """
        with cache.locked(self.home), tempfile.TemporaryDirectory() as settings:
            self._forget_steps()
            dockerfile = pathlib.Path(settings, "Dockerfile")
            text = (tree / "Dockerfile").read_text(encoding="utf-8")
            created = datetime.datetime.fromtimestamp(timestamp, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            label = f'LABEL org.opencontainers.image.created="{created}"'
            dockerfile.write_text(text.replace("FROM scratch\n", f"FROM scratch\n{label}\n"), encoding="utf-8")
            base = [] if pull else self._stand_in()
            self._buildah(
                *("build", "--isolation", "chroot", "--format", "oci", "--identity-label=false", "--quiet"),
                *("--timestamp", str(timestamp)),
                *("--layers", *(("--no-cache",) if fresh else ())),
                *_pip_volumes(pathlib.Path(settings)),
                *base,
                *("--tag", TAG, "--file", str(dockerfile), str(tree)),
            )

    def configuration_digest(self) -> str:
        """Returns the digest of the configuration of `TAG`, which names the contents of its layers."""
        return self._buildah("images", "--no-trunc", "--format", "{{.ID}}", TAG).strip()

    def export(self, archive: pathlib.Path, *, as_docker: str = "") -> None:
        """Write `TAG` as an OCI archive, over one that is there; or, under the name given, as Docker loads it."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.unlink(missing_ok=True)
        if as_docker:
            self._buildah("push", "--quiet", TAG, f"docker-archive:{archive}:{as_docker}")
        else:
            self._buildah("push", "--quiet", "--format", "oci", TAG, f"oci-archive:{archive}:{TAG}")

    def _stand_in(self) -> list[str]:
        """Options that replace the Dockerfile's base, in FROM and in the labels."""
        name = self._base()
        digest = self._buildah("images", "--format", "{{.Digest}}", name).strip()
        label = "org.opencontainers.image.base"
        return ["--from", name, "--label", f"{label}.name={name}", "--label", f"{label}.digest={digest}"]

    def _base(self) -> str:
        """The image of Debian's Python, of this machine's release; made if it is not there."""
        codename = _codename()
        name = f"localhost/debian-python:{codename}-{cache.key(*BASE_PACKAGES)}"
        if name in self._buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
            return name
        cache.say(f"making {name} of Debian's packages: minutes, once")
        with tempfile.TemporaryDirectory(dir=self.home) as made:
            options = ("--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}")
            run(("mmdebstrap", *options, codename, made, _mirror(codename)))
            container = self._buildah("from", "scratch").strip()
            self._buildah("copy", "--quiet", container, made, "/")
            self._buildah("commit", "--quiet", "--rm", container, name)
        return name

    def _forget_steps(self) -> None:
        """Remove what no name leads to, once it is much: each changed tree leaves steps of some 500 MB."""
        if len(self._buildah("images", "--all", "--quiet").split()) > _MOST_STEPS:
            self._buildah("rmi", "--prune", "--force")

    def _buildah(self, *arguments: str) -> str:
        storage = ("--root", str(self.home / "storage"), "--runroot", str(self.home / "run"))
        return run(("buildah", *storage, *arguments))


def _codename() -> str:
    """Returns the name of this machine's release, "" where it has none."""
    release: dict[str, str] = dict(
        re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.M)
    )
    return release.get("VERSION_CODENAME", "")


def _mirror(codename: str) -> str:
    """The archive that apt uses for a release; to ask apt takes a second of processor time."""
    targets = run(("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"))
    mirrors = [line.split()[0] for line in targets.splitlines() if line.split()[1:] == [codename]]
    if not mirrors:
        raise EngineError(f"apt has no archive of {codename or 'this release'}: run apt-get update on Debian")
    return mirrors[0]


def _pip_volumes(directory: pathlib.Path) -> list[str]:
    """Mounts by which pip asks the index and believes the authorities that this machine's pip does."""
    config = {key: ast.literal_eval(value) for key, value in _SETTING.findall(_pip_config())}
    lines = [f"{key} = {config[key]}" for key in _PIP_KEYS if key in config]
    volumes = []
    if authorities := config.get("cert") or ssl.get_default_verify_paths().cafile:
        lines.append("cert = /run/authorities.pem")
        volumes = ["--volume", f"{authorities}:/run/authorities.pem:ro"]
    settings = directory / "pip.conf"
    settings.write_text("\n".join(("[global]", *lines, "")), encoding="utf-8")
    return [*volumes, "--volume", f"{settings}:/etc/pip.conf:ro"]


@functools.cache
def _pip_config() -> str:
    """The settings of this machine's pip, which takes 0.3 s to print them."""
    return run((sys.executable, "-m", "pip", "config", "list"))
