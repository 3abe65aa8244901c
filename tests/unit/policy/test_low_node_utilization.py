"""descheduler's LowNodeUtilization becomes bands, caps and protections; what has no equal is named, never guessed."""

from typing import Any

import pytest

from cli.common import output
from policy.imports import converting, low_node_utilization
from policy.loading import loader

LINES: dict[str, object] = {"thresholds": {"cpu": 20, "memory": 60}, "targetThresholds": {"cpu": 70, "memory": 80}}
EVERYTHING_HELD = {"metricsUtilization": {"source": "KubernetesMetrics"}}


def file(
    arguments: dict[str, object] | None = None, evictor: dict[str, object] | None = None, **top: object
) -> dict[str, object]:
    """A policy with the plugin's arguments, those of DefaultEvictor, and keys of the file itself."""
    configs: list[object] = [{"name": "LowNodeUtilization", "args": LINES | EVERYTHING_HELD | (arguments or {})}]
    configs += [{"name": "DefaultEvictor", "args": evictor}] if evictor is not None else []
    plugins = {"balance": {"enabled": ["LowNodeUtilization"]}}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [{"name": "p", "pluginConfig": configs, "plugins": plugins}],
        **top,
    }


def section(tree: object) -> dict[str, Any]:
    """The descheduler section, which Evenload's own reader takes."""
    imported = low_node_utilization.convert(tree)
    document = {"apiVersion": "evenload.io/v1alpha1", "kind": "LoadPolicy", **imported.sections}
    loader.load(output.as_yaml(document), "imported")
    found = imported.sections["descheduler"]
    assert isinstance(found, dict)
    return found


def remarks(tree: object) -> dict[str, str]:
    """The remarks by path."""
    found = low_node_utilization.convert(tree).remarks
    return {remark.path.rpartition("args.")[2] or remark.path: remark.message for remark in found}


def test_lines_become_bands_that_stop_a_little_lower_and_not_under_the_cool_line() -> None:
    assert section(file())["thresholds"] == {
        "memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.7},
        "cpu_avg_5m": {"evictAbove": 0.7, "evictUntil": 0.6},
    }
    close: dict[str, object] = {"thresholds": {"cpu": 75}, "targetThresholds": {"cpu": 80}}
    assert section(file(close))["thresholds"] == {"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.75}}


def test_it_only_observes_and_leaves_the_filter_off() -> None:
    sections = low_node_utilization.convert(file()).sections
    assert sections["filter"] == {"thresholds": {}}
    assert section(file())["mode"] == "Observe"


def test_caps_are_the_lowest_that_the_file_names_and_else_our_own() -> None:
    assert "limits" not in section(file())
    capped = file(
        {"evictionLimits": {"node": 2}},
        maxNoOfPodsToEvictPerNode=5,
        maxNoOfPodsToEvictPerNamespace=4,
        maxNoOfPodsToEvictTotal=9,
    )
    assert section(capped)["limits"] == {"perNode": 2, "perNamespace": 4, "perRun": 9}
    assert section(file({"numberOfNodes": 2}))["coolNodes"] == 3


def test_protections_of_the_default_evictor() -> None:
    evictor: dict[str, object] = {
        "labelSelector": {"matchLabels": {"movable": "yes"}},
        "namespaceLabelSelector": {"matchLabels": {"team": "shop"}},
        "priorityThreshold": {"value": 1000},
        "minReplicas": 3,
        "minPodAge": "10m",
        "podProtections": {
            "defaultDisabled": ["PodsWithLocalStorage"],
            "extraEnabled": ["PodsWithoutPDB", "PodsWithPVC"],
            "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
        },
    }
    assert section(file({"evictableNamespaces": {"exclude": ["db"]}}, evictor))["protect"] == {
        "labelSelector": {"matchLabels": {"movable": "yes"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["shop"]}]},
        "priorityAtLeast": 1000,
        "minReplicas": 3,
        "minPodAge": "10m",
        "localStorage": "none",
        "withoutBudget": True,
        "storageClasses": ["fast"],
        "namespaces": ["kube-system", "db"],
    }


@pytest.mark.parametrize(
    ("key", "names"),
    [("evictLocalStoragePods", {"localStorage": "none"}), ("ignorePodsWithoutPDB", {"withoutBudget": True})],
)
def test_the_keys_of_old_mean_the_same(key: str, names: dict[str, object]) -> None:
    assert section(file(evictor={key: True}))["protect"] == names


def test_a_class_of_priority_is_known_by_its_number() -> None:
    found = section(file(evictor={"priorityThreshold": {"name": "system-cluster-critical"}}))
    assert found["protect"] == {"priorityAtLeast": 2_000_000_000}
    assert (
        "takes the class's number"
        in remarks(file(evictor={"priorityThreshold": {"name": "gold"}}))["priorityThreshold.name"]
    )


def test_a_selector_of_several_conditions_cannot_be_turned_round() -> None:
    two = {"matchLabels": {"a": "1", "b": "2"}}
    assert "protect" not in section(file(evictor={"namespaceLabelSelector": two}))
    assert "cannot be turned round" in remarks(file(evictor={"namespaceLabelSelector": two}))["namespaceLabelSelector"]
    expression = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    found = section(file(evictor={"namespaceLabelSelector": expression}))["protect"]["namespaceSelector"]
    assert found == {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}


def test_what_has_no_equal_is_named() -> None:
    tree = file(
        {"thresholds": {"cpu": 20, "pods": 20}, "targetThresholds": {"cpu": 50, "pods": 50}, "numberOfNode": 1},
        {"evictDaemonSetPods": True, "nodeFit": False},
        nodeSelector="role=worker",
        gracePeriodSeconds=0,
    )
    profile: Any = tree["profiles"]
    profile[0]["plugins"]["deschedule"] = {"enabled": ["RemoveDuplicates"]}
    found = remarks(tree)
    assert "only cpu and memory" in found["targetThresholds.pods"]
    assert 'did you mean "numberOfNodes"' in found["numberOfNode"]
    assert "never evicted" in found["evictDaemonSetPods"]
    assert "always on" in found["nodeFit"]
    assert "all are looked at" in found["nodeSelector"]
    assert "own grace period" in found["gracePeriodSeconds"]
    assert section(file(gracePeriodSeconds=90))["gracePeriod"] == "1m30s"
    assert "RemoveDuplicates; keep descheduler" in found["profiles[0].plugins"]
    assert "0 has no equal" in remarks(file(maxNoOfPodsToEvictTotal=0))["maxNoOfPodsToEvictTotal"]


def test_lines_above_the_mean_follow_the_mean_beside_the_default_ones() -> None:
    lines = {"targetThresholds": {"cpu": 25, "memory": 5}, "thresholds": {"cpu": 10, "memory": 5}}
    tree = file({"useDeviationThresholds": True, "numberOfNodes": 1, **lines})
    fixed = {"evictAbove": 0.8, "evictUntil": 0.6}
    assert section(tree) == {
        "mode": "Observe",
        "coolNodes": 2,
        "thresholds": {
            "memory_avg_5m": {**fixed, "overMean": {"evictAbove": 0.05, "evictUntil": 0.0}},
            "cpu_avg_5m": {**fixed, "overMean": {"evictAbove": 0.25, "evictUntil": 0.15}},
        },
    }
    assert "fixed default lines hold" in remarks(tree)["useDeviationThresholds"]


def test_a_distance_to_the_mean_beyond_the_fixed_line_leaves_the_fixed_line() -> None:
    tree = file({"useDeviationThresholds": True, "targetThresholds": {"cpu": 90}, "thresholds": {"cpu": 10}})
    assert section(tree)["thresholds"] == {"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}


def test_lines_above_the_mean_need_a_resource_with_lines() -> None:
    with pytest.raises(converting.ImportRefused, match="cpu or memory expected"):
        low_node_utilization.convert(file({"useDeviationThresholds": True, "targetThresholds": {"pods": 20}}))


def test_where_usage_comes_from_is_said() -> None:
    assert "compares requests" in "".join(remarks(file({"metricsUtilization": None})).values())
    assert "under metrics:" in "".join(remarks(file({"metricsUtilization": {"prometheus": {"query": "x"}}})).values())


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (None, "apiVersion: descheduler/v1alpha2 expected"),
        ([], "file: a mapping expected"),
        (file() | {"apiVersion": "descheduler/v1alpha1"}, "descheduler/v1alpha2 expected"),
        (file() | {"profiles": []}, "no profile enables LowNodeUtilization"),
        (file() | {"profiles": "x"}, "profiles: a list expected"),
        (file({"targetThresholds": {"cpu": 170, "memory": 50}}), "a percentage from 0 to 100 expected"),
        (file({"targetThresholds": {"cpu": 70}}), "must name the same resources"),
        (file({"thresholds": {"pods": 1}, "targetThresholds": {"pods": 2}}), "cpu or memory expected"),
        (file({"numberOfNodes": "two"}), "a whole number from 0 expected"),
        (file(evictor={"minPodAge": "soon"}), "minPodAge"),
    ],
)
def test_a_file_that_descheduler_would_not_read_is_refused(tree: object, words: str) -> None:
    with pytest.raises(converting.ImportRefused) as error:
        low_node_utilization.convert(tree)
    assert words in str(error.value)
