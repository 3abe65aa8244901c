"""The extender and the descheduler that answer the commands of a page, each over a small world of the page's own.

They are our applications over fake doors, and obey the policy file in the reader's directory as it is at each command.
"""

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from policy.loading import loader
from runtime import reloading
from tests import builders
from tests.unit.cli import deschedulers, extenders
from tests.unit.descheduler.scenes import Scene
from tests.unit.extender import worlds

NAMES: Final = tuple(worlds.IDLE)


class World(NamedTuple):
    """What a page's nodes use, what is overloaded, the policy file in force, and the pods decided about."""

    loads: Mapping[str, Mapping[str, float]]
    scene: Callable[[], Scene]
    policy: str
    cpu: str
    memory: str
    pods: tuple[str, ...] = ("web-7",)


def load(*percents: int) -> dict[str, float]:
    """CPU as 5m, 1h, 1d, then memory."""
    return {name: percent / 100 for name, percent in zip(NAMES, percents, strict=True)}


def crowded() -> Scene:
    """A hot node with a pod that may leave, one that a budget holds, and one without a controller."""
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.workload("web", on=["hot", "cool"], gib=10).workload("db", on=["hot", "cool"], gib=9.9)
    return scene.budget("db", allowed=0).pod("bare", "hot", owner=None, labels={"app": "bare"})


def full_of_caches() -> Scene:
    """A node at 86 % of its memory: a large cache, a database that its budget holds, and web servers."""
    scene = Scene().node("cache-1", memory=0.86, cpu=0.15).node("mixed-1", memory=0.28, cpu=0.3)
    scene.workload("cache", on=["cache-1", "mixed-1"], gib=8.5).workload("db", on=["cache-1", "mixed-1"], gib=9)
    scene.budget("db", allowed=0)
    return scene.workload("web", on=["cache-1", "mixed-1"], gib=1.5).workload(
        "tiny", on=["cache-1", "mixed-1"], gib=0.1
    )


WORLDS: Final = {
    "docs/reference/cli.md": World(
        {"node-0": load(90, 10, 10, 10, 10, 10), "node-1": worlds.IDLE, "node-2": load(50, 10, 10, 10, 10, 10)},
        crowded,
        policy="running.yaml",
        cpu="500m",
        memory="256Mi",
    ),
    "docs/how-to/tune.md": World(
        {
            "build-1": load(72, 80, 90, 25, 30, 35),
            "cache-1": load(15, 20, 25, 66, 68, 72),
            "mixed-1": load(20, 25, 30, 55, 58, 60),
            "mixed-2": load(30, 50, 60, 45, 72, 75),
        },
        full_of_caches,
        policy="policy.yaml",
        cpu="500m",
        memory="2Gi",
        pods=("web-7", "web-8"),
    ),
}


@contextlib.contextmanager
def beside(page: str, directory: pathlib.Path, command: str) -> Iterator[dict[str, str]]:
    """The services that the command asks, as the environment that names them; nothing for pages without a world."""
    world = WORLDS.get(page)
    with contextlib.ExitStack() as stack:
        if world and command.startswith(("evenload nodes", "evenload explain pod")):
            decided = world.pods if "explain" in command else ()
            yield {"EVENLOAD_EXTENDER": stack.enter_context(_extender(world, directory, decided))}
        elif world and command.startswith(("evenload plan", "evenload explain eviction")):
            yield {"EVENLOAD_DESCHEDULER": stack.enter_context(_descheduler(world, directory))}
        else:
            yield {}


@contextlib.contextmanager
def _extender(world: World, directory: pathlib.Path, decided: tuple[str, ...]) -> Iterator[str]:
    """It has decided about these pods, one after the other, a moment ago."""
    content = (directory / world.policy).read_bytes()
    in_force = loader.load(content.decode(), world.policy)
    seen = worlds.view_of(world.loads, in_force, reloading.content_hash(content))
    with extenders.serving({}, seen) as served:
        for pod in decided:
            served.decide(tuple(world.loads), pod, namespace="shop", cpu=world.cpu, memory=world.memory)
            winner = served.get(f"/decisions?pod={pod}")["decisions"][0]["assumed"]
            served.pods[f"shop/{pod}"] = builders.pod(pod, namespace="shop", node=winner)
        yield served.url


@contextlib.contextmanager
def _descheduler(world: World, directory: pathlib.Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as temporary:
        own = pathlib.Path(temporary)
        with deschedulers.serving(world.scene(), own) as served:
            shutil.copy(directory / world.policy, own / "policy.yaml")
            served.world.policy.load()
            yield served.url
