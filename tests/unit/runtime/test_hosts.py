"""A service answers by addresses and by names that are its own, and not by a name that a web site could have."""

import flask
import pytest

from runtime import hosts

RESOLVER = (
    "nameserver 10.96.0.10\nsearch evenload-system.svc.k8s.corp svc.k8s.corp k8s.corp eu.internal\noptions ndots:5\n"
)
DOMAINS = hosts.domains_in(RESOLVER)
OURS = (
    "localhost:8902", "LOCALHOST", "a.localhost:1", "127.0.0.1:8902", "[::1]:8902", "[fd00::7]", "10.244.1.7:8902",
    "192.168.1.4:30902", "evenload-descheduler:8902", "evenload-descheduler.evenload-system:8902",
    "evenload-descheduler.evenload-system.svc:8902", "evenload-descheduler.other.svc.cluster.local:8902",
    "evenload-descheduler.evenload-system.svc.k8s.corp.:8902", "node-7.eu.internal:8902",
)  # fmt: skip
FOREIGN = (
    "evil.example:8902", "127.0.0.1.evil.example", "svc.evil.example", "localhost.evil.example", "a.svc.evil.example",
    "[", "evil.dev",
)  # fmt: skip


@pytest.mark.parametrize("host", OURS)
def test_addresses_and_own_names_are_ours(host: str) -> None:
    assert hosts.is_ours(host, DOMAINS)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_a_site_can_have_is_not_ours(host: str) -> None:
    assert not hosts.is_ours(host, DOMAINS)


@pytest.mark.parametrize("text", ["", "search", "search .\n", "\n#\n"])
def test_a_resolver_without_domains_has_none(text: str) -> None:
    assert hosts.domains_in(text) == ()


def test_a_foreign_name_reaches_the_plain_paths_only_and_what_tls_proves() -> None:
    app = flask.Flask("test")
    app.before_request(lambda: hosts.check({"/filter"}))
    for path in ("/livez", "/metrics", "/plan", "/filter"):
        app.add_url_rule(path, path, lambda: "ok")
    client, foreign = app.test_client(), {"Host": "evil.example"}
    assert [client.get(path, headers=foreign).status_code for path in ("/livez", "/metrics", "/filter")] == [200] * 3
    refused = client.get("/plan", headers=foreign)
    assert (refused.status_code, "evil.example" in refused.text, "port-forward" in refused.text) == (403, True, True)
    assert client.get("/plan").status_code == 200
    assert client.get("/plan", headers=foreign, base_url="https://evil.example").status_code == 200
