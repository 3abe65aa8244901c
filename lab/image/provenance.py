"""The bill of materials of an image, and a statement of what it was built of (in-toto with SLSA's predicate, unsigned).

`__main__` writes both beside the image. A signature needs a key that a release has and a checkout does not.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final

from lab.image import archive

BUILD_TYPE: Final = "urn:evenload:make-image:1"
BILL_OF_PACKAGES: Final = ("cyclonedx_py", "requirements", "--output-reproducible", "--sv=1.6", "--pyproject")
LOCKS: Final = ("Dockerfile", "requirements.txt", "requirements-build.txt")


def statement(image: archive.Image, name: str, tree: pathlib.Path, commit: str, *, timestamp: int) -> dict[str, Any]:
    """The statement about `image`, called `name`, built from `tree` at `commit` ("" where no commit is the tree)."""
    labels = image.labels
    base = {
        "uri": labels["org.opencontainers.image.base.name"],
        "digest": _digest(labels["org.opencontainers.image.base.digest"]),
    }
    locks = [
        {"uri": f"file:{lock}", "digest": {"sha256": hashlib.sha256((tree / lock).read_bytes()).hexdigest()}}
        for lock in LOCKS
    ]
    source = [{"uri": "git+evenload", "digest": {"gitCommit": commit}}] if commit else []
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": _digest(image.digest)}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"dockerfile": "Dockerfile", "platform": f"linux/{image.architecture}"},
                "internalParameters": {"SOURCE_DATE_EPOCH": timestamp},
                "resolvedDependencies": [*source, base, *locks],
            },
            "runDetails": {"builder": {"id": "urn:evenload:lab.image"}},
        },
    }


def bill_of_materials(tree: pathlib.Path, system: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Returns CycloneDX of the tree's pins, with their hashes, and of the Debian packages by name and version."""
    command = (sys.executable, "-W", "ignore", "-m", *BILL_OF_PACKAGES, "pyproject.toml", "requirements.txt")
    bill: dict[str, Any] = json.loads(subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True).stdout)
    for name, number in system:
        purl = f"pkg:deb/debian/{name}@{number}"
        component = {"bom-ref": purl, "name": name, "purl": purl, "type": "library", "version": number}
        bill["components"].append(component)
        bill["dependencies"].append({"ref": purl})
    return bill


def _digest(text: str) -> dict[str, str]:
    algorithm, _, value = text.partition(":")
    return {algorithm: value}
