"""`evenload doctor` on a real control plane: a healthy one is well, and each thing broken is named with its fix."""

import contextlib
import itertools
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cli.doctor import services
from kube import kinds
from lab import cluster
from lab.cluster.demo import permissions
from lab.cluster.demo.installing import PATHS
from tests import commands
from tests.contract import test_guard
from tests.e2e import bodies, policies, stack, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
Checks = dict[str, dict[str, Any]]
NOT_TRIED = (
    "nothing was tried (you may not impersonate evenload-annotator; you may not impersonate evenload-descheduler)"
)
GUARD = {f"{PATHS[body['kind']]}/{body['metadata']['name']}": body for body in test_guard.documents()}


def scheduling(item: stack.Stack) -> None:
    """Waits until kube-scheduler asks the extender about pods."""
    item.use_extender()
    numbers = itertools.count()

    def was_queried() -> bool:
        """An extender that is late is passed over; the next pod asks it again."""
        prefix = f"first-{next(numbers)}-"
        item.create_pods(prefix, 1)
        item.placed(prefix, 1)
        return item.extender.metric("evenload_extender_request_duration_seconds_count") > 0

    waiting.until(was_queried, "kube-scheduler to ask the extender", item.extender.log)


def guard(running: cluster.Cluster) -> None:
    """Creates what of the shipped guard is not there."""
    for path, body in GUARD.items():
        if not running.api.exists(path):
            running.api.create(PATHS[body["kind"]], body)


@contextlib.contextmanager
def guarded(running: cluster.Cluster) -> Iterator[None]:
    """The guard as shipped, until the file ends."""
    guard(running)
    try:
        yield
    finally:
        for path in GUARD:
            running.api.delete(path)


@pytest.fixture(scope="module")
def running(fleet: cluster.Cluster) -> Iterator[stack.Stack]:
    """Annotator and extender at work, the shipped rights and guard in place, and kube-scheduler asking about pods."""
    with lent(fleet), stack.started_on(fleet, policies.write) as cluster_site, guarded(fleet):
        cluster_site.start(cluster_site.annotator, cluster_site.extender)
        scheduling(cluster_site)
        yield cluster_site


@pytest.fixture
def breaking(running: stack.Stack) -> Iterator[stack.Stack]:
    """The same, healthy again afterwards."""
    yield running
    running.stop()
    permissions.apply(running.cluster)
    guard(running.cluster)
    running.start(running.annotator, running.extender)
    running.reset()
    scheduling(running)


def examine(item: stack.Stack, *words: str, kubeconfig: pathlib.Path | None = None) -> tuple[int, Checks]:
    """Exit code and checks by name of `evenload doctor -o json`."""
    given = ["doctor", "--kubeconfig", str(kubeconfig or item.cluster.kubeconfig), "-o", "json"]
    given += ["--prometheus", item.cluster.prometheus_url, "--extender", item.extender.url]
    given += [] if "--policy" in words else ["--policy", str(item.policy)]
    result = commands.run(*given, *words)
    assert result.stdout, result.stderr
    return result.exit_code, {one["check"]: one for one in json.loads(result.stdout)["checks"]}


def summary_of(checks: Checks, name: str) -> str:
    """Verdict, what was seen and the fix of a check, in one line."""
    one = checks[name]
    return f"{one['verdict']}: {one['seen']} -> {one['fix']}"


def test_a_healthy_cluster_is_well(running: stack.Stack) -> None:
    running.door.create(kinds.PODS, bodies.pod("proof"), namespace=stack.SYSTEM_NAMESPACE)

    def well() -> Checks:
        code, checks = examine(running)
        return checks if code == 0 else {}

    checks = waiting.eventually(well, 240, "doctor to find nothing", lambda: examine(running))
    assert {one["verdict"] for one in checks.values()} == {"ok"}
    assert checks["metrics"]["seen"].startswith("6 of 6 metrics have values; by built-in queries")
    assert "samples read" in checks["query cost"]["seen"]
    assert checks["nodes matched"]["seen"].startswith("3 of 3 nodes matched")
    assert "the shortest window holds" in checks["scrape interval"]["seen"]
    assert "annotator" in checks["policy in force"]["seen"]
    assert checks["extender asked"]["seen"].startswith("kube-scheduler asks: ")
    assert "refused in a dry run: an eviction of evenload-system/proof by evenload-descheduler" in summary_of(
        checks, "guard"
    )
    assert not running.door.get(kinds.PODS, "proof", namespace=stack.SYSTEM_NAMESPACE).deleting
    running.door.delete(kinds.PODS, "proof", namespace=stack.SYSTEM_NAMESPACE)


def test_a_person_with_the_shipped_rights_sees_the_same(running: stack.Stack) -> None:
    api = running.cluster.api
    subjects = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    for kind in ("ClusterRole", "Role"):
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "evenload-doctor"}
        body = {"metadata": {"name": "evenload-doctor-jane"}, "roleRef": role, "subjects": subjects}
        api.create(permissions.PATHS[f"{kind}Binding"].format(namespace=permissions.NAMESPACE), body)
    jane = running.cluster.kubeconfig_for("jane")

    def well() -> bool:
        code, checks = examine(running, kubeconfig=jane)
        return code == 0 and checks["your rights"]["verdict"] == "ok" and NOT_TRIED in checks["guard"]["seen"]

    waiting.eventually(well, 240, "jane to find nothing", lambda: examine(running, kubeconfig=jane))
    nobody = running.cluster.kubeconfig_for("nobody")

    def refused() -> Checks:
        code, checks = examine(running, kubeconfig=nobody)
        return checks if code == 1 else {}

    checks = waiting.eventually(refused, 120, "nobody to be refused", lambda: examine(running, kubeconfig=nobody))
    assert "you may not list nodes" in summary_of(checks, "your rights")
    assert checks["disruption budgets"]["verdict"] == "unknown"


def test_every_broken_thing_is_named_with_its_fix(breaking: stack.Stack, tmp_path: pathlib.Path) -> None:
    api, policy = breaking.cluster.api, tmp_path / "policy.yaml"
    policies.write(policy, descheduler__mode="Enforce", filter={"thresholds": {"cpu_avg_5m": 0.9}})
    breaking.door.create(kinds.DEPLOYMENTS, bodies.deployment("guarded", 2), namespace=stack.NAMESPACE)
    breaking.placed("guarded-", 2)
    budget = {"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}}}
    breaking.door.create(kinds.BUDGETS, {"metadata": {"name": "never"}, **budget}, namespace=stack.NAMESPACE)
    breaking.set_load("node-1", hidden=True)
    breaking.annotator.kill()
    api.delete(f"{permissions.PATHS['ClusterRoleBinding']}/evenload-annotator")
    breaking.cluster.start_scheduler()
    api.delete(f"{PATHS['ValidatingAdmissionPolicyBinding']}/evenload-guard-nodes")
    api.delete(test_guard.NODES)
    address = next(one.address for one in breaking.nodes()["node-1"].addresses if one.type == "InternalIP")
    wanted = {**BROKEN, "nodes matched": (*BROKEN["nodes matched"], f"no target with instance {address}")}
    numbers = itertools.count()

    def unnamed() -> dict[str, str]:
        """What a check does not say yet, all of one moment: its other failures on the way say something else."""
        checks = examine(breaking, "--policy", str(policy))[1]
        told = {name: summary_of(checks, name) for name in wanted}
        return {
            name: told[name]
            for name, (verdict, *words) in wanted.items()
            if not (told[name].startswith(f"{verdict}: ") and all(word in told[name] for word in words))
        }

    def all_named() -> bool:
        breaking.create_pods(f"unasked-{next(numbers)}-", 1)
        return not unnamed()

    # Before that seventeen checks, five times a second, are work for nothing.
    soonest = time.monotonic() + services.GRACE_SECONDS
    waiting.eventually(lambda: time.monotonic() > soonest, 200, "an extender that is not asked to be worth a word")
    waiting.eventually(all_named, 200, "every check to notice", unnamed)
    breaking.extender.kill()

    def views() -> str:
        return summary_of(examine(breaking)[1], "extender views")

    waiting.eventually(lambda: "gives no answer" in views(), 120, "the dead extender to be noticed", views)


BROKEN = {
    "nodes matched": ("fail", "2 of 3 nodes matched", "node-1 has no series", "let Prometheus scrape node-exporter"),
    "annotator": ("fail", "older than staleAfter", "logs deployment/evenload-annotator"),
    "service rights": ("fail", "evenload-annotator may not", "kubectl apply -f deploy/rbac/annotator.yaml"),
    "policy in force": ("fail", "annotator obeys", "kubectl -n evenload-system create configmap evenload-policy"),
    "extender asked": ("fail", "kube-scheduler does not ask", "evenload scheduler-config"),
    "policy rules": ("warn", "placed where others are evicted", "set filter.thresholds.cpu_avg_5m lower"),
    "guard": ("fail", "evenload-guard-nodes is missing", "was not refused", "kubectl apply -k deploy/guard"),
    "disruption budgets": ("warn", "default/never (maxUnavailable 0", "kubectl -n default patch pdb never"),
}


def test_a_prometheus_that_is_gone_is_unreachable_and_one_without_address_is_looked_for(running: stack.Stack) -> None:
    common = ["doctor", "--kubeconfig", str(running.cluster.kubeconfig), "--policy", str(running.policy)]
    gone = commands.run(*common, "--prometheus", "http://127.0.0.1:1")
    assert gone.exit_code == 3, gone.output
    assert "cannot be reached" in " ".join(gone.stdout.split())
    ports = [{"name": "web", "port": 9090}]
    body = {"metadata": {"name": "prometheus", "labels": {"app.kubernetes.io/name": "prometheus"}}}
    running.cluster.api.create(
        "api/v1/namespaces/default/services", {**body, "spec": {"ports": ports, "selector": {"app": "prometheus"}}}
    )

    def was_queried() -> str:
        checks = commands.document(*common)["checks"]
        return next(str(one["seen"]) for one in checks if one["check"] == "prometheus")

    through = "no endpoints available for service"  # the apiserver's proxy knew the Service, and has nobody to ask
    label = "(found by label app.kubernetes.io/name=prometheus)"
    waiting.eventually(
        lambda: through in (told := was_queried()) and label in told,
        120,
        "the apiserver's proxy to know the Service",
        was_queried,
    )
