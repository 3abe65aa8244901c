"""Readings of nodes by the real promtool: series of exporters, and the figures of the built-in queries over them."""

import collections.abc
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.cluster import binaries
from policy import metrics
from policy.loading import loader
from promql.queries import node_queries, recording_rules
from promql.queries.node_queries import Window
from tests import pages
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
WINDOWS: Final = {
    one.name: Window(one.resource, one.statistic, one.window_seconds, one.averaging_seconds) for one in metrics.BUILT_IN
}
TARGET: Final = {"instance": "10.0.0.1:9100", "job": "node-exporter"}
GIB: Final = 2**30
Series = dict[str, str]


@pytest.fixture(scope="module")
def promtool() -> str:
    """The real one."""
    tools = [tool for tool in binaries.TOOLS if tool.name == "promtool"]
    return str(binaries.find_or_build(tools)["promtool"])


def braces(labels: collections.abc.Mapping[str, str]) -> str:
    """Labels as promtool writes them."""
    return "{" + ",".join(f'{label}="{value}"' for label, value in labels.items()) + "}"


def one_series(name: str, values: str, **labels: str) -> Series:
    """A series of the target; one value every 30 s from 0 on."""
    return {"series": name + braces({**TARGET, **labels}), "values": values}


def cpus(idle: str, busy: str, **labels: str) -> list[Series]:
    """Counters of two CPUs."""
    return [
        one_series("node_cpu_seconds_total", values, cpu=cpu, mode=mode, **labels)
        for cpu in "01"
        for mode, values in (("idle", idle), ("user", busy))
    ]


def iowait(*values: str) -> list[Series]:
    """Counters of waiting, CPU by CPU."""
    return [one_series("node_cpu_seconds_total", text, cpu=str(cpu), mode="iowait") for cpu, text in enumerate(values)]


def question(expression: str, at: str, expected: float | None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A question at a time, rounded to a thousandth; None expects no series."""
    samples = [] if expected is None else [{"labels": braces(labels or TARGET), "value": expected}]
    return {"expr": f"round({expression}, 0.001)", "eval_time": at, "exp_samples": samples}


def raw(metric: str, **options: str) -> str:
    return node_queries.expression(WINDOWS[metric], **options)


def check(promtool: str, directory: Path, series: list[Series], questions: list[dict[str, Any]]) -> None:
    """Fails with promtool's words where a figure is another one; the shipped recording rules are loaded."""
    rules = directory / "rules.yaml"
    document = recording_rules.document(WINDOWS)
    rules.write_text(yaml.safe_dump(document), encoding="utf-8")
    test = {"interval": "30s", "input_series": series, "promql_expr_test": questions}
    content = {"rule_files": [str(rules)], "evaluation_interval": "30s", "tests": [test]}
    (directory / "test.yaml").write_text(json.dumps(content), encoding="utf-8")
    words = [promtool, "test", "rules", str(directory / "test.yaml")]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def replaced(old: dict[str, str], new: dict[str, str], ends: str = " stale") -> list[Series]:
    """At 30 min 30 s another exporter goes on with a node's counters: 90 % in use before, 20 % after."""
    before = cpus(f"1000+3x60{ends}", f"1000+27x60{ends}", **old)
    return before + cpus("_x61 1204+24x139", "_x61 2647+6x139", **new)


@reported("readings", "giantswarm/prometheus-meta-operator#823", "prometheus/node_exporter#1842", before=Before.WRONG)
@situation("the exporter's pod is replaced: another pod, or labels of a new release")
@behaviour("one reading, weighed by the scrapes of both; maxima go on, also in recording rules")
@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        pytest.param({"pod": "ne-aaaaa"}, {"pod": "ne-bbbbb"}, " stale", id="another pod"),
        pytest.param({"pod": "ne-aaaaa"}, {"pod": "ne-bbbbb"}, "", id="and no stale marker, as from some agents"),
        pytest.param(
            {"pod": "ne-aaaaa", "endpoint": "metrics", "helm_sh_chart": "ne-4.1", "app_kubernetes_io_version": "1.8"},
            {"pod": "ne-bbbbb", "endpoint": "http", "helm_sh_chart": "ne-4.2", "app_kubernetes_io_version": "1.9"},
            " stale",
            id="another release of its chart",
        ),
    ],
)
def test_another_pod_of_the_exporter_goes_on_with_the_reading(
    promtool: str, tmp_path: Path, old: dict[str, str], new: dict[str, str], ends: str
) -> None:
    at = (("29m", 0.9), ("31m", 0.9), ("45m", 0.9), ("89m", 0.9))
    questions = [
        question(text, time, value)
        for time, value in at
        for text in (raw("cpu_max_1h"), recording_rules.record("cpu_max_1h"), raw("cpu_max_1d"))
    ]
    questions += [
        question(raw("cpu_avg_5m"), time, value) for time, value in (("29m", 0.9), ("30m30s", 0.9), ("45m", 0.2))
    ]
    questions += [question(f"({raw('cpu_avg_5m')}) > 0.7", "31m", 0.795), question(raw("cpu_avg_5m"), "36m", 0.2)]
    questions += [
        {
            "expr": f"{node_queries.data_time('cpu')}",
            "eval_time": "31m10s",
            "exp_samples": [{"labels": braces(TARGET), "value": 1860}],
        }
    ]
    check(promtool, tmp_path, replaced(old, new, ends), questions)


@reported("readings", "prometheus/node_exporter#1842", before=Before.WRONG)
@situation("an exporter without the host's network gets another address, and a label of the target names the node")
@behaviour("one reading by that label, as above")
def test_another_address_of_the_exporter_goes_on_where_a_label_names_the_node(promtool: str, tmp_path: Path) -> None:
    series = replaced({"instance": "10.1.0.7:9100", "node": "a"}, {"instance": "10.1.0.9:9100", "node": "a"})
    labels = {"job": "node-exporter", "node": "a"}
    questions = [question(raw("cpu_max_1h", node_label="node"), at, 0.9, labels) for at in ("29m", "31m", "45m")]
    check(promtool, tmp_path, series, questions)


@reported(
    "readings",
    "GoogleCloudPlatform/prometheus-engine#476",
    "compassvpn/agent#126",
    "prometheus/node_exporter#3389",
    before=Before.WRONG,
)
@situation("to save series, Prometheus keeps of each CPU its idle time only, or of each mode the sum of all CPUs")
@behaviour("a hot node has no reading of CPU; it looked idle (0), or 47 % busy with 16 CPUs at 95 %")
@pytest.mark.parametrize(
    "series",
    [
        pytest.param(cpus("0+1.5x200", "0+28.5x200")[::2], id="idle time only"),
        pytest.param(
            [
                one_series("node_cpu_seconds_total", values, mode=mode)
                for mode, values in (("idle", "0+24x200"), ("user", "0+456x200"))
            ],
            id="sums of 16 CPUs",
        ),
    ],
)
def test_a_part_of_the_series_of_a_hot_node_does_not_look_idle(
    promtool: str, tmp_path: Path, series: list[Series]
) -> None:
    names = [name for name, window in WINDOWS.items() if window.resource == "cpu"]
    texts = [text for name in names for text in (raw(name), recording_rules.record(name))]
    check(promtool, tmp_path, series, [question(text, "90m", None) for text in texts])


@reported("readings", "prometheus-operator/prometheus-operator#6548", before=Before.RIGHT)
@situation("two jobs scrape the exporter of one node")
@behaviour("two series, refused as a double: no mean of targets that may be two machines")
def test_two_jobs_stay_two_series(promtool: str, tmp_path: Path) -> None:
    series = cpus("0+3x200", "0+27x200") + cpus("0+24x200", "0+6x200", job="other")
    samples = [
        {"labels": braces({**TARGET, "job": job}), "value": value}
        for job, value in (("node-exporter", 0.9), ("other", 0.2))
    ]
    both = {"expr": f"round({raw('cpu_avg_5m')}, 0.001)", "eval_time": "30m", "exp_samples": samples}
    check(promtool, tmp_path, series, [both])


@reported("readings", "prometheus/node_exporter#1161", before=Before.RIGHT)
@situation("a machine starts anew: counters begin at 0, its exporter is away for two minutes")
@behaviour("neither load nor idle time; the maximum goes on")
def test_a_machine_that_starts_anew_is_neither_idle_nor_hot(promtool: str, tmp_path: Path) -> None:
    series = cpus("90000+3x60 stale _x4 0.5+3x139", "90000+27x60 stale _x4 4.5+27x139")
    questions = [question(raw("cpu_avg_5m"), at, 0.9) for at in ("30m", "34m", "36m", "45m")]
    questions += [question(raw("cpu_max_1h"), at, 0.9) for at in ("34m", "45m", "90m")]
    check(promtool, tmp_path, series, [*questions, question(raw("cpu_max_1h"), "32m", None)])


FELL: Final = {
    "an idle node, iowait falls": (
        [*cpus("90000+27x200", "9000+3x200"), *iowait("5000x60 4999+0x139", "5000x200")],
        (0.1, 0.28),
    ),
    "a hot node, iowait falls": (
        [*cpus("90000+3x200", "9000+27x200"), *iowait("5000x60 4999+0x139", "5000x200")],
        (0.9, 0.92),
    ),
    "an idle node of two CPUs, idle falls": (
        [*cpus("90000+27x60 91619+27x139", "9000+3x200")[:2], *cpus("90000+27x200", "9000+3x200")[2:]],
        (0.1, 0.64),
    ),
    "a hot node, idle falls": (
        [*cpus("90000+3x60 90179.5+3x138", "9000+27x200")[:2], *cpus("90000+3x200", "9000+27x200")[2:]],
        (0.9, 0.96),
    ),
}


@reported("readings", "prometheus/node_exporter#1686", "prometheus/node_exporter#1903", before=Before.WRONG)
@situation("a counter of one CPU falls by a second, as iowait and idle may")
@behaviour("a hot node stays hot, an idle one does not get hot, in averages and maxima")
@pytest.mark.parametrize("case", FELL)
def test_a_counter_that_falls_is_no_load_and_no_idle_time(promtool: str, tmp_path: Path, case: str) -> None:
    series, (least, most) = FELL[case]
    questions = []
    for at in ("29m", "31m", "34m", "45m"):
        for metric in ("cpu_avg_5m", "cpu_max_1h"):
            for text in (raw(metric), recording_rules.record(metric)):
                inside = f"round({text}, 0.001) >= {least} <= {most} > bool 0"
                questions.append(
                    {"expr": inside, "eval_time": at, "exp_samples": [{"labels": braces(TARGET), "value": 1}]}
                )
    check(promtool, tmp_path, series, questions)


def meminfo(total_gib: int, available_gib: int, **others: float) -> list[Series]:
    """The memory of a node; further series without their prefix."""
    amounts: dict[str, float] = {"MemTotal_bytes": total_gib * GIB, "MemAvailable_bytes": available_gib * GIB, **others}
    return [one_series(f"node_memory_{name}", f"{value:.0f}x200") for name, value in amounts.items()]


@reported("readings", "vexxhost/atmosphere#3934", before=Before.WRONG)
@situation("720 of 768 GiB are free huge pages; 30 of the other 48 GiB are in use")
@behaviour("0.625: memory without the pool, in use or not")
@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(
            {"HugePages_Total": 720, "HugePages_Free": 720, "Hugepagesize_bytes": GIB}, id="a kernel without Hugetlb"
        ),
        pytest.param(
            {"HugePages_Total": 368640, "Hugepagesize_bytes": 2 * 2**20, "Hugetlb_bytes": 720 * GIB}, id="2 MiB"
        ),
        pytest.param(
            {"HugePages_Total": 0, "Hugepagesize_bytes": 2 * 2**20, "Hugetlb_bytes": 720 * GIB},
            id="pages of another size than the kernel's default",
        ),
    ],
)
def test_memory_is_without_the_pool_of_huge_pages(promtool: str, tmp_path: Path, pool: dict[str, float]) -> None:
    names = ("memory_avg_5m", "memory_max_1h")
    texts = [*(raw(name) for name in names), *map(recording_rules.record, names)]
    check(promtool, tmp_path, meminfo(768, 18, **pool), [question(text, "30m", 0.625) for text in texts])


@reported("readings", "vexxhost/atmosphere#3934", before=Before.RIGHT)
@situation("a node without huge pages, or whose exporter says nothing of them")
@behaviour("its memory as ever")
@pytest.mark.parametrize("pool", [{}, {"HugePages_Total": 0, "Hugepagesize_bytes": 2 * 2**20, "Hugetlb_bytes": 0}])
def test_memory_without_a_pool_is_what_it_was(promtool: str, tmp_path: Path, pool: dict[str, float]) -> None:
    check(promtool, tmp_path, meminfo(64, 16, **pool), [question(raw("memory_avg_5m"), "30m", 0.75)])


def cgroups(resource: str, waiting: float, stalled: float, use: float) -> list[Series]:
    """cAdvisor's counters of all pods of a node of 8 CPUs and 8 GiB, as it has them in every second."""
    amounts = {f"pressure_{resource}_waiting": waiting, f"pressure_{resource}_stalled": stalled, "cpu_usage": 8 * use}
    cgroup = {"id": "/kubepods.slice"}
    return [
        one_series("machine_cpu_cores", "8x200", machine_id="m"),
        one_series("machine_memory_bytes", f"{8 * GIB}x200", machine_id="m"),
        one_series("container_memory_working_set_bytes", f"{8 * use * GIB:.0f}x200", **cgroup),
        *(
            one_series(f"container_{name}_seconds_total", f"0+{30 * each:g}x200", **cgroup)
            for name, each in amounts.items()
        ),
    ]


@pytest.mark.parametrize(
    ("resource", "waiting", "stalled", "use", "reading"),
    [
        pytest.param("cpu", 0.99, 0.4, 0.54, 0.59, id="pods with limits that also wait for each other"),
        pytest.param("cpu", 0.4, 0.4, 0.57, 0.0, id="pods with limits that never wait for each other"),
        pytest.param("cpu", 0.83, 0.47, 0.39, 0.0, id="idle CPUs"),
        pytest.param("cpu", 0.64, 0.0, 0.47, 0.64, id="no limits"),
        pytest.param("memory", 0.9, 0.9, 0.2, 0.0, id="memory is free"),
        pytest.param("memory", 0.9, 0.9, 0.7, 0.9, id="memory is not"),
    ],
)
@reported(
    "readings",
    *("kubernetes/enhancements#5062", "openshift/cluster-kube-descheduler-operator#459, #1788"),
    before=Before.WRONG,
)
@situation("pods wait for CPU or memory at limits of their own, which the kernel's pressure of their node counts, too")
@behaviour("the preset `pressure` reads what they wait beyond that, and 0 where they use under 40 % of the node")
def test_waiting_for_a_limit_of_ones_own_is_no_pressure_of_the_node(
    promtool: str, tmp_path: Path, resource: str, waiting: float, stalled: float, use: float, reading: float
) -> None:
    text = (pages.ROOT / "deploy" / "policies" / "pressure.yaml").read_text("utf-8")
    queries = {one.name: str(one.query) for one in loader.load(text, "pressure").metrics}
    questions = [question(queries[f"{resource}_pressure_5m"], "30m", reading, {"instance": TARGET["instance"]})]
    check(promtool, tmp_path, cgroups(resource, waiting, stalled, use), questions)
