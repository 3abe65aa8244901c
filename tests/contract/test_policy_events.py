"""A refused and an accepted policy file become Events: all three services, under the rights they ship with."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from kube import config, errors, events, kinds, objects
from lab import cluster
from lab.cluster.demo import permissions
from runtime import reloading
from tests import builders
from tests.e2e import services, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
NAMES = ("annotator", "extender", "descheduler")
HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
REFUSED = HEAD + "filter:\n  onMissing: maybe\n"
ACCEPTED = HEAD + "filter:\n  onMissing: reject\n"
POD = "--pod-name=annotator-0", "--pod-uid=11111111-2222-3333-4444-555555555555"


class World:
    """A control plane, and the services over one policy file."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path) -> None:
        self.cluster = running
        self.policy = directory / "policy.yaml"
        self.write(HEAD)
        more = {
            "annotator": ["--prometheus", "http://127.0.0.1:1", *POD],  # the one that knows its pod
            "extender": [],
            "descheduler": ["--prometheus", "http://127.0.0.1:1", "--ledger", str(directory / "ledger.sqlite")],
        }
        self.services = {}
        for name in NAMES:
            shared = ["--policy", str(self.policy), "--kubeconfig", str(permissions.kubeconfig(running, name))]
            arguments = [*shared, "--namespace", permissions.NAMESPACE, *more[name]]
            self.services[name] = services.Service(name, arguments, directory)

    def write(self, text: str) -> None:
        """A policy file that appears whole: half of one would be another refusal."""
        whole = self.policy.with_suffix(".new")
        whole.write_text(text, encoding="utf-8")
        whole.rename(self.policy)

    def events_of(self, reason: events.Reason) -> dict[str, dict[str, Any]]:
        """The Events of a reason by who reports them, once all three have; {} before."""
        path = f"apis/events.k8s.io/v1/namespaces/{permissions.NAMESPACE}/events"
        found = [event for event in self.cluster.api.items(path) if event["reason"] == reason]
        by_name = {event["reportingController"].removeprefix("evenload.io/"): event for event in found}
        assert len(found) == len(by_name), "somebody said it twice"
        return by_name if set(by_name) == set(NAMES) else {}


@pytest.fixture(scope="module")
def world(control_plane: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with lent(control_plane) as running:
        running.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        permissions.apply(running)
        made = World(running, tmp_path_factory.mktemp("reloads"))
        try:
            for service in made.services.values():
                service.start()
            yield made
        finally:
            for service in made.services.values():
                service.stop()


def test_every_service_tells_of_a_refused_policy_and_of_the_next_accepted_one(world: World) -> None:
    world.write(REFUSED)
    refused = waiting.until(lambda: world.events_of(events.Reason.POLICY_REFUSED), "three refusals")
    for event in refused.values():
        assert f"{world.policy}:4:14: filter.onMissing: " in event["note"]
        assert f"{reloading.content_hash(HEAD.encode())} stays in force" in event["note"]
        assert event["type"] == "Warning"
    assert refused["annotator"]["regarding"]["kind"] == "Pod"
    assert refused["annotator"]["regarding"]["name"] == "annotator-0"
    assert refused["extender"]["regarding"]["kind"] == "Namespace"
    for service in world.services.values():
        assert "onMissing: " in service.text("/readyz?verbose")
        assert service.metric("evenload_config_last_reload_successful") == 0
    world.write(ACCEPTED)
    accepted = waiting.until(lambda: world.events_of(events.Reason.POLICY_ACCEPTED), "three acceptances")
    assert {event["note"] for event in accepted.values()} == {
        f"policy {reloading.content_hash(ACCEPTED.encode())} is in force"
    }
    assert all("Forbidden" not in service.log() for service in world.services.values())
    assert len(world.events_of(events.Reason.POLICY_REFUSED)) == 3


@pytest.mark.parametrize("name", ["annotator", "extender"])
def test_events_in_other_namespaces_are_beyond_their_rights(world: World, name: str) -> None:
    regarding = objects.Reference("Namespace", "default", "default", "", "v1")
    body = {**builders.event_body(regarding), "metadata": {"generateName": "default-", "namespace": "default"}}
    door = config.connect(str(permissions.kubeconfig(world.cluster, name)), None)
    with contextlib.closing(door), pytest.raises(errors.Forbidden):
        door.create(kinds.EVENTS, body, namespace="default")
