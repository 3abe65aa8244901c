"""Settings of a policy by their paths, as pages and messages name them."""

from collections.abc import Mapping
from typing import Any


def nested(by_path: Mapping[str, object]) -> dict[str, Any]:
    """The sections of a policy in which these settings, named as `sync.minChange` is, have these values."""
    sections: dict[str, Any] = {}
    for path, value in by_path.items():
        *parents, key = path.split(".")
        section = sections
        for parent in parents:
            section = section.setdefault(parent, {})
        section[key] = value
    return sections
