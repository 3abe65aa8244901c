"""A statement of what an image was built of, in the form of in-toto with SLSA's predicate; it is not signed.

`__main__` writes it beside the image. A signature needs a key that a release has and a checkout does not.
"""

import hashlib
import pathlib
from typing import Any, Final

from lab.image import archive

BUILD_TYPE: Final = "urn:evenload:make-image:1"
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


def _digest(text: str) -> dict[str, str]:
    algorithm, _, value = text.partition(":")
    return {algorithm: value}
