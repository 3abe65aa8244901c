"""Controllers beside the simulated apiserver: kubelets, workload controllers, the disruption controller.

Each subscribes to `simulator.apiserver.ApiServer` and writes through it; `simulator.world` puts them together.
"""
