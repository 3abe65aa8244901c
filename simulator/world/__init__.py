"""A scenario happens: the services' own modules over the simulated doors, on the virtual clock.

`run(scenario, Setup(policy, seed))` gives an `outcome.Outcome`; `runs` calls it once per variant and seed. `running` is
the order of things, `services` wires the three services, `placing` is kube-scheduler's loop, `recording` what is
remembered, `setup` the conditions. `direct` asks the extender, `handing` brings it the annotator's readings, `windows`
is what nodes show; `asking` is the whole way of a question, by which `direct` is held.
"""

from simulator.world.setup import Setup, Simulated
from simulator.world.world import run

__all__ = ["Setup", "Simulated", "run"]
