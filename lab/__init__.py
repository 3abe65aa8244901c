"""The makers' room: it imports the product, and of the product only the tests import it.

`cluster` is the real control plane on one machine, which `make test` and `make run` use, too. `bench` measures, `peers`
has the formulas of other schedulers, `campaigns` are long runs (faults, an hour, an upgrade, growth, fuzzing, mutants),
`image`, `krew`, `licences` and `release` make a release, `pictures` those of the pages. `make -C lab`
lists the commands, `make lab` runs the tests of the tools.
"""
