"""What Kubernetes takes for a name, kind, API version or uid, and nothing else."""

from collections.abc import Callable

import pytest

from kube.api import identifiers

FOREIGN = ["", " ", "../healthz", "a b", "a/b/c", "a\x1b]52;c;eA==\x07", "ä", "a\n", "-a", "a-", "a" * 1_000_000]
# What each is, and what it is not beside the foreign.
EXAMPLES: dict[Callable[[str], bool], tuple[list[str], list[str]]] = {
    identifiers.is_name: (["web", "web-7d4b9", "ip-10-0-0-1.eu.internal", "a" * 253], ["Web", "a..b", ".a", "a" * 254]),
    identifiers.is_kind: (["ReplicaSet", "Job", "a", "K" * 63], ["1Kind", "Replica.Set", "K" * 64]),
    identifiers.is_api_version: (
        ["v1", "apps/v1", "argoproj.io/v1alpha1", "a" * 253 + "/v1", "v" * 63],
        ["V1", "1", "/v1", "apps/", "apps/v1/", "a" * 254 + "/v1", "v" * 64],
    ),
    identifiers.is_uid: (["8c1b4e0e-6f6d-4f3c-9d1c-1d3f0c3a9b11", "uid-web", "7", "u" * 128], ["u" * 129]),
}
CASES = [
    pytest.param(judge, text, expected, id=f"{judge.__name__}-{text[:40]!r}-{expected}")
    for judge, (good, bad) in EXAMPLES.items()
    for expected, texts in ((True, good), (False, [*FOREIGN, *bad]))
    for text in texts
]


@pytest.mark.parametrize(("judge", "text", "expected"), CASES)
def test_a_text_is_what_kubernetes_takes_for_it_or_not(judge: Callable[[str], bool], text: str, expected: bool) -> None:
    assert judge(text) is expected


@pytest.mark.parametrize(("text", "expected"), [("shop", True), ("a" * 63, True), ("a.b", False), ("a" * 64, False)])
def test_a_namespace_is_a_dns_label(text: str, expected: bool) -> None:
    assert identifiers.is_namespace(text) is expected
