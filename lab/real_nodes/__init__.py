"""Real nodes on this machine: kubelet, containerd and kube-proxy in namespaces and cgroups of their own.

`python -m lab.real_nodes` (`make -C lab real-nodes`) starts them beside the control plane of `lab.cluster`. `starter`
runs outside; everything else runs inside of one PID, network and mount namespace, so that the kernel ends all of it.
"""
