"""The annotator's pods without a watch: told when it catches up, and not before."""

from kube.objects import Pod
from simulator.world import told_pods
from tests import builders


def test_what_happened_is_told_in_its_order_when_it_is_caught_up_with() -> None:
    heard: list[tuple[Pod | None, Pod | None]] = []
    pods = told_pods.Pods().telling(lambda old, new: heard.append((old, new)))  # type: ignore[arg-type]
    waiting, bound, other = builders.pod("a"), builders.pod("a", node="n"), builders.pod("b")
    for news in ((None, waiting), (waiting, bound), (None, other), (other, None)):
        pods.pod_changed(*news)
    assert not heard
    assert pods.snapshot() == {}
    assert not pods.synced.is_set()
    pods.catch_up()
    before = pods.snapshot()
    assert heard == [(None, waiting), (waiting, bound), (None, other), (other, None)]
    assert before == {"default/a": bound}
    assert pods.synced.is_set()
    pods.pod_changed(bound, None)
    pods.catch_up()
    assert (dict(before), pods.snapshot()) == ({"default/a": bound}, {})
