"""The peers by name, and how each is put beside a simulated scheduler. `world` is handed one as `Setup.peer`."""

from collections.abc import Callable, Mapping
from typing import Protocol

from kube.kinds import PODS
from lab.peers import crane, koordinator, trimaran
from lab.peers.formula import Formula, Peer
from lab.peers.observations import Book, Observations
from lab.peers.oracle import Oracle
from runtime.clock import Clock
from simulator.apiserver import ApiServer
from simulator.scenario import Scenario
from simulator.scheduling.extenders import ExtenderPort


class Owners(Protocol):
    """The part of `simulator.controllers.owners.Owners` that is needed here."""

    def replica_of(self, pod_key: str) -> int | None:
        """Which replica a pod fills, by its index in the scenario."""


class Stage(Protocol):
    """The parts of a run that a peer may read (`world.setup.Simulated`); only the oracle reads more than a scheduler
    can.
    """

    @property
    def scenario(self) -> Scenario:
        """Returns the scenario of the run."""

    @property
    def api(self) -> ApiServer:
        """The apiserver, which tells of every pod."""

    @property
    def book(self) -> Book:
        """The truth of use."""

    @property
    def clock(self) -> Clock:
        """Virtual time."""

    @property
    def owners(self) -> Owners:
        """Which pod fills which replica."""


Join = Callable[[Stage], ExtenderPort]


FORMULAS: Mapping[str, Callable[[], Formula]] = {
    "crane": crane.Crane,
    "target-load-packing": trimaran.TargetLoadPacking,
    "risk-balancing": trimaran.RiskBalancing,
    "koordinator": koordinator.LoadAware,
}
ORACLE = "oracle"  # knows the next hour, and decides alone
NAMES = (*FORMULAS, ORACLE)


def peer(name: str, weight: int) -> Join:
    """Returns a peer with the weight of its plugin in the profile; KeyError for an unknown name."""
    if name == ORACLE:
        return _oracle
    formula = FORMULAS[name]

    def join(stage: Stage) -> ExtenderPort:
        observations = Observations(stage.scenario, stage.book, stage.clock)
        stage.api.subscribe(PODS, observations.pod_changed)
        return Peer(formula(), observations, weight=weight)

    return join


def _oracle(stage: Stage) -> ExtenderPort:
    knowing = Oracle(stage.scenario, stage.owners.replica_of, stage.clock)
    stage.api.subscribe(PODS, knowing.pod_changed)
    return knowing
