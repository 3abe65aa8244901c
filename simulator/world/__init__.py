"""A scenario happens: the services' own modules over the simulated doors, on the virtual clock.

`run(scenario, Setup(policy, seed))` gives an `outcome.Outcome`; `runs` calls it once per variant and seed.
`world.world` is the order of things, `services` wires the three services, `placing` is kube-scheduler's loop,
`recording` what is remembered, `setup` the conditions. `world.extender_port` asks the extender, `handing` brings it the
annotator's readings, `windows` is what nodes show; `world.extender_http_port` is the whole way of a question, by which
`world.extender_port` is held.
"""

from simulator.world.setup import Setup, SimulatedServices
from simulator.world.world import run

__all__ = ["Setup", "SimulatedServices", "run"]
