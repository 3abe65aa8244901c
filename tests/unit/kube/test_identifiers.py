"""What Kubernetes takes for a name, kind, API version or uid, and nothing else."""

import pytest

from kube.api import identifiers

FOREIGN = ["", " ", "../healthz", "a b", "a/b/c", "a\x1b]52;c;eA==\x07", "ä", "a\n", "-a", "a-", "a" * 1_000_000]


@pytest.mark.parametrize("text", ["web", "web-7d4b9", "ip-10-0-0-1.eu.internal", "a" * 253])
def test_a_name_is_a_dns_subdomain(text: str) -> None:
    assert identifiers.is_name(text)


@pytest.mark.parametrize("text", [*FOREIGN, "Web", "a..b", ".a", "a" * 254])
def test_anything_else_is_no_name(text: str) -> None:
    assert not identifiers.is_name(text)


@pytest.mark.parametrize(("text", "expected"), [("shop", True), ("a" * 63, True), ("a.b", False), ("a" * 64, False)])
def test_a_namespace_is_a_dns_label(text: str, expected: bool) -> None:
    assert identifiers.is_namespace(text) is expected


@pytest.mark.parametrize("text", ["ReplicaSet", "Job", "a", "K" * 63])
def test_a_kind_is_a_label_with_capitals(text: str) -> None:
    assert identifiers.is_kind(text)


@pytest.mark.parametrize("text", [*FOREIGN, "1Kind", "Replica.Set", "K" * 64])
def test_anything_else_is_no_kind(text: str) -> None:
    assert not identifiers.is_kind(text)


@pytest.mark.parametrize("text", ["v1", "apps/v1", "argoproj.io/v1alpha1", "a" * 253 + "/v1", "v" * 63])
def test_an_api_version_is_a_version_or_a_group_with_one(text: str) -> None:
    assert identifiers.is_api_version(text)


@pytest.mark.parametrize("text", [*FOREIGN, "V1", "1", "/v1", "apps/", "apps/v1/", "a" * 254 + "/v1", "v" * 64])
def test_anything_else_is_no_api_version(text: str) -> None:
    assert not identifiers.is_api_version(text)


@pytest.mark.parametrize("text", ["8c1b4e0e-6f6d-4f3c-9d1c-1d3f0c3a9b11", "uid-web", "7", "u" * 128])
def test_a_uid_needs_no_escaping(text: str) -> None:
    assert identifiers.is_uid(text)


@pytest.mark.parametrize("text", [*FOREIGN, "u" * 129])
def test_anything_else_is_no_uid(text: str) -> None:
    assert not identifiers.is_uid(text)
