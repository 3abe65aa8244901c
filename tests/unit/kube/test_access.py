"""Questions about rights, the apiserver's clock and its proxy: what goes over the wire and what comes of the answer."""

import contextlib
import pathlib
from collections.abc import Callable
from urllib import parse

import pytest

from kube import access, config, errors, kinds
from kube.http import client
from tests import scripted_http

RIGHT = access.Access("create", "pods/eviction", "", "shop", "web-1")


def review(
    directory: pathlib.Path, answer: object, ask: Callable[[client.Client], object], **headers: str
) -> tuple[object, scripted_http.Exchange]:
    """What `ask` gives on a server that answers this, and the last request."""

    def script(exchange: scripted_http.Exchange) -> None:
        exchange.answer(answer, 201 if exchange.method == "POST" else 200, headers)

    with (
        scripted_http.serving(script) as server,
        contextlib.closing(config.connect(scripted_http.kubeconfig(directory, server.url))) as door,
    ):
        return ask(door), server.seen[-1]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_right_of_ones_own_is_asked_in_rbacs_words(tmp_path: pathlib.Path, allowed: bool) -> None:
    found, request = review(tmp_path, {"status": {"allowed": allowed}}, lambda door: access.may_i(door, RIGHT))
    assert found is allowed
    assert request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    given = {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "shop", "name": "web-1"}
    assert request.body["spec"] == {"resourceAttributes": given}
    assert request.body["kind"] == "SelfSubjectAccessReview"


def test_a_service_account_is_asked_about_with_its_groups(tmp_path: pathlib.Path) -> None:
    account = {"namespace": "ours", "name": "evenload-x"}
    answer = {"status": {"allowed": True}}
    found, request = review(tmp_path, answer, lambda door: access.may_account(door, RIGHT, **account))
    assert found is True
    assert request.body["spec"]["user"] == "system:serviceaccount:ours:evenload-x"
    assert "system:serviceaccounts:ours" in request.body["spec"]["groups"]


def test_a_right_reads_as_rbac_writes_it() -> None:
    assert str(RIGHT) == "create pods/eviction/web-1 in shop"
    assert str(access.Access("list", "leases", "coordination.k8s.io")) == "list leases.coordination.k8s.io"


def test_the_apiservers_clock_is_its_date_header(tmp_path: pathlib.Path) -> None:
    found, request = review(tmp_path, {}, lambda door: door.server_time_seconds())
    assert isinstance(found, float)
    assert found % 1 == 0.0
    assert request.path == "/version"


def test_an_answer_without_a_date_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.Undecodable, match="no usable Date header"):
        review(tmp_path, {}, lambda door: door.server_time_seconds(), Date="today")


def test_a_place_in_the_cluster_is_reached_through_the_proxy(tmp_path: pathlib.Path) -> None:
    place = client.Place(kinds.PODS, "ours", "extender-0", "8900", "https")
    query = (("limit", "1"),)
    found, request = review(tmp_path, "hello", lambda door: door.proxied(place, "/decisions", query=query))
    assert found == b"hello"
    assert parse.unquote(request.path) == "/api/v1/namespaces/ours/pods/https:extender-0:8900/proxy/decisions"
    assert request.query == {"limit": "1"}
    assert str(place) == "pod ours/extender-0:8900"
