"""The PromQL texts: pinned, because Prometheus and recording rules of users depend on them."""

import pytest

from promql.queries import node_queries, pod_queries


def window(resource: str, statistic: str, seconds: float, averaging_seconds: float = 300.0) -> node_queries.Window:
    return node_queries.Window(resource, statistic, seconds, averaging_seconds)


EXPORTER = (
    "app_kubernetes_io_version, container, controller_revision_hash, endpoint, helm_sh_chart, kubernetes_pod_name,"
    " pod, pod_name, pod_template_generation, pod_template_hash, uid"
)
CPU_AVG = (
    f'(1 - sum without (cpu, mode, {EXPORTER}) (rate(node_cpu_seconds_total{{mode="idle"}}[300s]) <= 1.5)'
    f" / sum without (cpu, mode, {EXPORTER})"
    " (clamp_max(sum without (mode) (rate(node_cpu_seconds_total[300s])), 1.5)))"
    f' and max without (cpu, mode, {EXPORTER}) (node_cpu_seconds_total{{cpu!="",mode="user"}})'
)
MEMORY_MAX = (
    f"max_over_time((1 - sum without ({EXPORTER}) (sum_over_time(node_memory_MemAvailable_bytes[300s]))"
    f" / sum without ({EXPORTER}) (sum_over_time(node_memory_MemTotal_bytes[300s])"
    " - (sum_over_time(node_memory_Hugetlb_bytes[300s])"
    " or sum_over_time(node_memory_HugePages_Total[300s]) * max_over_time(node_memory_Hugepagesize_bytes[300s])"
    " or 0 * sum_over_time(node_memory_MemTotal_bytes[300s]))))[3600s:75s])"
    f" and max without ({EXPORTER}) (node_memory_MemAvailable_bytes)"
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(window("cpu", "avg", 300.0), CPU_AVG, id="an average asks for its own window"),
        pytest.param(window("memory", "max", 3600.0), MEMORY_MAX, id="a maximum is taken over averages"),
    ],
)
def test_a_window_has_one_expression_for_all_nodes(wanted: node_queries.Window, expected: str) -> None:
    assert node_queries.expression(wanted) == expected


def test_a_selector_reaches_every_series_of_the_expression() -> None:
    text = node_queries.expression(window("memory", "p95", 60.0, 20.0), selector='job="node"')
    assert text.startswith("quantile_over_time(0.95, (")
    assert text.count("node_memory_") == text.count('{job="node"}') == 7


def test_where_another_label_names_the_node_instance_is_one_of_the_exporters() -> None:
    for resource in ("cpu", "memory"):
        for text in (
            node_queries.expression(window(resource, "max", 3600.0), node_label="node"),
            node_queries.data_time(resource, node_label="node"),
        ):
            assert text.count("without (") - text.count("without (mode)") == text.count(f"{EXPORTER}, instance)")


@pytest.mark.parametrize(
    ("seconds", "averaging_seconds", "expected"),
    [
        pytest.param(3600.0, 300.0, 75.0, id="an hour steps by a quarter of the average"),
        pytest.param(86400.0, 300.0, 300.0, id="a day steps by no more than 288 points"),
        pytest.param(60.0, 20.0, 5.0, id="a test's minute steps by seconds"),
    ],
)
def test_the_step_overlaps_the_averages_and_bounds_the_cost(
    seconds: float, averaging_seconds: float, expected: float
) -> None:
    assert node_queries.step_seconds(window("cpu", "max", seconds, averaging_seconds)) == expected


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        pytest.param(window("disk", "avg", 300.0), "disk", id="a resource without series"),
        pytest.param(window("cpu", "mode", 300.0), "mode", id="a statistic that PromQL has not"),
        pytest.param(window("cpu", "avg", 0.0), "0.0", id="a window of nothing"),
    ],
)
def test_what_cannot_be_asked_is_named(wanted: node_queries.Window, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        node_queries.expression(wanted)


def test_a_duration_below_a_second_is_written_in_milliseconds() -> None:
    assert (node_queries.duration(1.5), node_queries.duration(20.0)) == ("1500ms", "20s")


def test_pod_queries_leave_out_the_pod_cgroup_and_the_pause_container() -> None:
    for text in (pod_queries.cpu_cores(300.0), pod_queries.memory_bytes(300.0), pod_queries.data_time("cpu")):
        assert 'container!="",container!="POD"' in text
        assert "by (namespace, pod)" in text


def test_the_data_time_is_asked_under_the_labels_of_the_values() -> None:
    assert f"max without (cpu, mode, {EXPORTER}) (timestamp(" in node_queries.data_time("cpu")
    assert node_queries.data_time("memory") == f"max without ({EXPORTER}) (timestamp(node_memory_MemAvailable_bytes))"
