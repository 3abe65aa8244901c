"""What makes a simulated cluster live beside its apiserver: kubelets, workload controllers, the disruption controller.

Each subscribes to `simulator.apiserver.ApiServer` and writes through it; `simulator.world` puts them together.
"""
