"""Points of load beside those of kube-scheduler's own plugins, under a real kube-scheduler.

Its plugins give up to 100 points times their weights; ours are 0 to 100 times the weight in the extender's stanza.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.extender_world import POLICY, World
from tests.reports.real.test_placements_real import create
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
IMAGE = "registry.example/large:1"
SCORED = """
filter: {thresholds: {cpu_avg_5m: 0.65}}
hotSpots: []
recentPods: {enabled: false}
score: {combine: worst, weights: {cpu_avg_5m: 1, memory_avg_5m: 1}, spread: SPREAD}
"""
# Weights of the stanza: scores as they are need the shipped one, stretched ones stand with less.
WEIGHED = pytest.mark.parametrize(("spread", "weight"), [("stretch", 2), ("stretch", 1), ("none", 2)])


@pytest.fixture
def world(extender_plane: World) -> Iterator[World]:
    """The control plane as every test finds it."""
    extender_plane.reset()
    yield extender_plane
    extender_plane.obey(POLICY)
    extender_plane.use_extender()


def weigh(world: World, spread: str, weight: int) -> None:
    """Put the score in force, and the weight into the scheduler."""
    world.obey(POLICY + SCORED.replace("SPREAD", spread))
    world.use_extender(weight=weight)


@reported("scores", "gocrane/crane-scheduler#40", "gocrane/crane#849", before=Before.RIGHT)
@situation("the node of the best load has most requests, and in-tree plugins prefer a hot one")
@behaviour("30 % more load is worth 200 points, and 60 without `stretch`")
@WEIGHED
def test_load_outweighs_free_requests(world: World, prefix: str, spread: str, weight: int) -> None:
    for node in ("node-1", "node-2"):
        create(world, f"{prefix}-old-{node}", cpu="6", nodeSelector={"kubernetes.io/hostname": node})
    world.placed(f"{prefix}-old", 2)
    world.load(node_0=0.4, node_1=0.1, node_2=0.1)
    weigh(world, spread, weight)
    world.create(f"{prefix}-new", 4)
    assert world.placed(f"{prefix}-new", 4)["node-0"] == 0


@pytest.fixture
def pulled(world: World) -> Iterator[None]:
    """A large image that only node-0 has."""
    status = "api/v1/nodes/node-0/status"
    world.cluster.api.patch(status, {"status": {"images": [{"names": [IMAGE], "sizeBytes": 1_500_000_000}]}})
    yield
    world.cluster.api.patch(status, {"status": {"images": []}})


@pytest.mark.usefixtures("pulled")
@reported("scores", "kubernetes/kubernetes#65745", "kubernetes-sigs/descheduler#994", before=Before.RIGHT)
@situation("only a busy node has pulled a large image, which draws every replica there")
@behaviour("load outweighs the image")
@WEIGHED
def test_load_outweighs_an_image_that_is_there(world: World, prefix: str, spread: str, weight: int) -> None:
    world.load(node_0=0.6, node_1=0.1, node_2=0.1)
    weigh(world, spread, weight)
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "10m"}}}
    for at in range(4):
        create(world, f"{prefix}-{at}", containers=[container])
    assert world.placed(prefix, 4)["node-0"] == 0


@reported("scores", "kubernetes/kubernetes#88174", before=Before.RIGHT)
@situation("a pod prefers by affinity a node whose load is 1 % higher than the others'")
@behaviour("the preference decides, stretched or not")
@pytest.mark.parametrize("spread", ["stretch", "none"])
def test_a_preferred_node_outweighs_a_little_load(world: World, prefix: str, spread: str) -> None:
    world.load(node_0=0.1, node_1=0.11, node_2=0.1)
    weigh(world, spread, 2)
    named = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [named]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    for at in range(4):
        create(world, f"{prefix}-{at}", affinity=affinity)
    assert world.placed(prefix, 4) == {"node-1": 4}
