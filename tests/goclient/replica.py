"""`python -m tests.goclient.replica LISTEN KEEPALIVE POLICY KUBECONFIG`: the extender with a keep-alive of the test's.

The extender's command line has no such option, because any value under kube-scheduler's 90 s loses requests. This is
how the test shows that it would have noticed.
"""

import pathlib
import random
import sys

from extender import service
from extender.http import gunicorn_server
from kube import config
from policy.loading import loader
from runtime import clock, reloading


def main(listen: str, keepalive_seconds: int, policy: str, kubeconfig: str) -> None:
    """Serve until SIGTERM."""
    ticking = clock.WallClock()
    held: service.PolicyFile = reloading.Reloading(pathlib.Path(policy), loader.load, clock=ticking)
    held.load()

    def make() -> service.Service:
        kube = config.connect(kubeconfig, None)
        return service.Service(kube, held, namespace="default", ticking=ticking, rng=random.Random(1))

    gunicorn_server.run(listen, make, keepalive_seconds=keepalive_seconds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5])
