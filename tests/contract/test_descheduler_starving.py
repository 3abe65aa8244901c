"""One pod that cannot be evicted, or whose owner cannot be looked up, and the others that must not wait for it.

The real apiserver under the rights that we ship, with a real admission webhook, an aggregated API without a server, a
conversion webhook that is not there, and its own flow control. One cluster for the file.
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest

from descheduler.eviction import followup
from kube import config, errors, kinds
from kube.door import EvictionAnswer
from kube.objects import Pod
from lab.cluster import api as cluster_api
from lab.cluster.demo import permissions
from tests.contract import descheduler_site, webhook
from tests.contract.descheduler_site import HOT, NAMESPACE, Site, Watcher
from tests.contract.test_descheduler_evicting import DEFINITIONS, definition_body, new_crew
from tests.contract.webhook import Webhook
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
ELSEWHERE = "tenant"
GROUP = "starving.example.com"
SERVICES = "apis/apiregistration.k8s.io/v1/apiservices"
FLOW = "apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture(scope="module")
def plane(plane: Site) -> Site:
    """The control plane with a second namespace, of another tenant."""
    plane.cluster.api.create("api/v1/namespaces", {"metadata": {"name": ELSEWHERE}})
    return plane


@pytest.fixture
def site(site: Site) -> Site:
    """The site with cool-downs of one second."""
    site.obey(descheduler__cooldown={"workload": "1s", "node": "1s"})
    return site


@pytest.fixture
def installed_webhook(site: Site) -> Iterator[Webhook]:
    """A webhook that allows everything."""
    with webhook.registered(site.cluster) as created_name:
        yield created_name


def started(site: Site) -> None:
    """The first replica runs on a hot node."""
    site.heat()
    site.first.service.start()


def app_of(pod: str) -> str:
    """The Deployment of a pod by its name: "web" of "web-5d4f-x7k2p"."""
    return pod.rpartition("-")[0].rpartition("-")[0]


def of_its_first(answer: dict[str, object] | None, hold: threading.Event | None = None) -> webhook.Answer:
    """Whatever is asked about first, no pod of that workload ever goes: it is denied so, or `hold` is waited for."""
    denied: list[str] = []

    def decide(pod: str) -> dict[str, object] | None:
        denied.append(app_of(pod))
        if app_of(pod) != denied[0]:
            return None
        if hold is not None:
            hold.wait()
        return answer

    return decide


DENIAL = {"code": 429, "message": "too many evictions of this today"}
EVACUATION = {"code": 429, "message": 'Eviction triggered evacuation of VMI "shop/vm"'}


def test_an_eviction_that_a_controller_carries_out_itself_is_followed_to_its_end(
    site: Site, installed_webhook: Webhook
) -> None:
    """As KubeVirt's webhook answers; the controller that ends the pod later is this test."""
    installed_webhook.answer = lambda _: EVACUATION
    started(site)

    def ends(result: str) -> list[str]:
        return [str(row["pod"]) for row in site.rows(site.first) if row["result"] == result]

    (pod, *_) = waiting.until(lambda: ends("in_progress"), "an eviction in progress")
    site.first.more_runs(3)
    assert installed_webhook.asked.count(pod) == 1, "it is not asked for again while it goes on"
    site.judged(site.first, "in_flight")
    site.door.delete(kinds.PODS, pod, namespace=NAMESPACE)
    waiting.until(lambda: pod in ends("evicted"), "the eviction to have ended", lambda: site.rows(site.first))


@pytest.mark.parametrize(
    "denial",
    [
        pytest.param(DENIAL, id="a code and a message"),
        pytest.param(
            {**DENIAL, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}, id="as flow control words it"
        ),
    ],
)
def test_a_webhook_that_denies_one_workload_with_429_does_not_keep_the_other(
    site: Site, watcher: Watcher, installed_webhook: Webhook, denial: dict[str, object]
) -> None:
    installed_webhook.answer = of_its_first(denial)
    started(site)
    waiting.until(lambda: watcher.left, "a pod of the other workload to leave", lambda: site.rows(site.first))
    refused = [row for row in site.rows(site.first) if row["http_status"] == 429]
    assert {row["result"] for row in refused} == {"failed"}, refused
    assert len({row["pod"] for row in refused}) == len(refused), "no pod is asked for again at once"
    site.judged(site.first, "backoff")
    assert site.given_up(site.first) == 0
    site.hold(watcher, site.first)


def test_an_eviction_that_is_never_answered_keeps_its_own_workload_and_no_other(
    site: Site, watcher: Watcher, installed_webhook: Webhook
) -> None:
    """The minute after which no answer can come any more passes by the clock of the descheduler's machine."""
    hold = threading.Event()
    installed_webhook.answer = of_its_first(DENIAL, hold)
    shift = site.on_a_clock_of_its_own()
    started(site)
    try:
        waiting.eventually(
            lambda: watcher.left, waiting.START_SECONDS, "another pod to leave", lambda: site.rows(site.first)
        )

        def first_two() -> list[dict[str, Any]]:
            return sorted(site.rows(site.first), key=lambda row: row["id"])[:2]

        waiting.until(  # it is seen to leave before the descheduler has read the answer
            lambda: first_two()[1]["result"] == "evicted", "the ledger to tell of it", first_two
        )
        silent, other = first_two()
        assert silent["result"] == "unknown"
        assert app_of(silent["pod"]) != app_of(other["pod"])

        def first() -> dict[str, Any]:
            return next(row for row in site.rows(site.first) if row["id"] == silent["id"])

        site.first.more_runs(2)
        assert first()["result"] == "unknown", "the apiserver may still carry it out"
        of_its_workload = [row for row in site.rows(site.first) if app_of(row["pod"]) == app_of(silent["pod"])]
        assert of_its_workload == [first()], "until then its workload is left alone"
        shift.set(followup.ANSWER_SECONDS)
        waiting.eventually(lambda: first()["result"] == "failed", waiting.START_SECONDS, "the end of the wait", first)
        shift.set(0.0)
        assert "still stands" in first()["message"], "an answer that never came is a failure"
    finally:
        hold.set()
    site.hold(watcher, site.first)


@contextlib.contextmanager
def shed(site: Site) -> Iterator[None]:
    """The apiserver's own flow control gives evictions of the descheduler no seat at all."""
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}}
    account = {"namespace": permissions.NAMESPACE, "name": "evenload-descheduler"}
    rule = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"], "namespaces": ["*"]}
    schema = {
        "priorityLevelConfiguration": {"name": "no-seat"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [{"kind": "ServiceAccount", "serviceAccount": account}], "resourceRules": [rule]}],
    }
    api = site.cluster.api
    api.create(f"{FLOW}/prioritylevelconfigurations", {"metadata": {"name": "no-seat"}, "spec": level})
    api.create(f"{FLOW}/flowschemas", {"metadata": {"name": "no-seat"}, "spec": schema})
    try:
        yield
    finally:
        api.delete(f"{FLOW}/flowschemas/no-seat")
        api.delete(f"{FLOW}/prioritylevelconfigurations/no-seat")


def test_what_flow_control_refuses_is_told_from_what_a_webhook_refuses(site: Site, installed_webhook: Webhook) -> None:
    first, second = site.door.list(kinds.PODS, namespace=NAMESPACE).items[:2]
    hold = threading.Event()

    def ask(pod: Pod) -> EvictionAnswer:
        return door.evict(namespace=NAMESPACE, name=pod.name, uid=pod.uid, dry_run=True)

    def beside_another() -> EvictionAnswer | None:
        """The answer while another eviction has the only seat; a level without seats lets one request through."""
        hold.clear()
        installed_webhook.asked.clear()
        with futures.ThreadPoolExecutor(1) as pool:
            held = pool.submit(ask, first)
            waiting.until(lambda: installed_webhook.asked, "the first to be held")
            answer = ask(second)
            hold.set()
            held.result()
        return None if answer.accepted else answer

    def wait_for_the_first(pod: str) -> None:
        if pod == first.name:
            hold.wait()

    installed_webhook.answer = wait_for_the_first
    door = config.connect(permissions.kubeconfig(site.cluster, "descheduler"))
    with contextlib.closing(door), shed(site):
        answer = waiting.until(beside_another, "flow control to refuse")
        assert (answer.status, answer.of_flow_control, answer.of_budget) == (429, True, False), answer
        assert second.name not in installed_webhook.asked, "nothing has looked at the pod"
    installed_webhook.answer = lambda _: DENIAL
    with contextlib.closing(config.connect(permissions.kubeconfig(site.cluster, "descheduler"))) as door:
        answer = ask(first)
        assert (answer.status, answer.of_flow_control, answer.of_budget) == (429, False, False), answer


def owned(name: str, version: str, uid: str = "11111111-1111-1111-1111-111111111111") -> dict[str, Any]:
    """A pod on the hot node that says it belongs to this."""
    body: dict[str, Any] = bodies.pod(name, **descheduler_site.HEAVY)
    owner = {"apiVersion": version, "kind": "Crew", "name": "its-owner", "uid": uid, "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    body["spec"]["nodeName"] = HOT
    return body


def without_conversion(site: Site) -> str:
    """Makes a kind whose version v2 nobody converts to, and one object of it; its uid."""
    client = {"url": "https://127.0.0.1:1/"}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    api = site.cluster.api
    api.create(DEFINITIONS, definition_body(GROUP, "v1", "v2", conversion=conversion))

    def created_name() -> str:
        try:
            return new_crew(api, GROUP, ELSEWHERE, "its-owner")
        except cluster_api.ApiError:  # not served yet, or its storage begins
            return ""

    return waiting.until(created_name, "the kind to be served")


@contextlib.contextmanager
def strays(site: Site) -> Iterator[None]:
    """Three pods on the hot node: of a path, of an aggregated API without a server, of a kind that is not converted."""
    api, backend = site.cluster.api, {"namespace": ELSEWHERE, "name": "not-there"}
    group = {"group": "away.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    api.create(
        SERVICES,
        {
            "metadata": {"name": "v1.away.example.com"},
            "spec": {**group, "service": backend, "insecureSkipTLSVerify": True},
        },
    )
    uid = without_conversion(site)
    pods = [owned("path", "../healthz"), owned("away", "away.example.com/v1"), owned("old", f"{GROUP}/v2", uid=uid)]
    for body in pods:
        site.door.create(kinds.PODS, body, namespace=ELSEWHERE)
    try:
        yield
    finally:
        for body in pods:
            with contextlib.suppress(errors.KubeError):
                site.door.delete(kinds.PODS, body["metadata"]["name"], namespace=ELSEWHERE)
        api.delete(f"{SERVICES}/v1.away.example.com")
        api.delete(f"{DEFINITIONS}/crews.{GROUP}")


def test_an_owner_that_cannot_be_looked_up_keeps_its_own_pod_and_no_other(site: Site, watcher: Watcher) -> None:
    def judged() -> dict[str, str]:
        return {one["pod"]: one["detail"] for one in site.candidates(site.first) if one["namespace"] == ELSEWHERE}

    with strays(site):
        started(site)
        waiting.until(lambda: watcher.left, "a pod to leave", lambda: site.first.service.log()[-2000:])
        waiting.until(lambda: len(judged()) == 3, "all three to be judged", judged)
        details = judged()
        assert "apiVersion '../healthz'" in details["path"]
        assert "503" in details["away"]
        assert "500" in details["old"]
        assert site.given_up(site.first) == 0
        assert site.first.service.metric("evenload_owner_lookup_failures_total") >= 3
    site.hold(watcher, site.first)
