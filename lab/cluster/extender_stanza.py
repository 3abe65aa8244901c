"""kube-scheduler's stanza for an extender, as it is shipped, with an address of this machine."""

import collections.abc
from typing import Final

import yaml

from lab.cluster import processes

FILE: Final = processes.ROOT / "deploy" / "scheduler" / "extender-stanza.yaml"


def at(url: str) -> collections.abc.Mapping[str, object]:
    """Returns the stanza for the extender at a URL, for `Cluster.start_scheduler`."""
    (stanza,) = yaml.safe_load(FILE.read_text(encoding="utf-8"))["extenders"]
    return {**stanza, "urlPrefix": url}
