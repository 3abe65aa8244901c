"""Manifests from options: what each option changes and leaves, and what is refused with nothing on stdout."""

import functools
import json
import pathlib
from typing import Any

import pytest
import yaml

from cli.common import shipped
from cli.placeholder import render
from tests import commands

Document = dict[str, Any]
SHIPPED = shipped.DEPLOY / "placeholder"
run = functools.partial(commands.run, "placeholder", "render")


def objects(*arguments: str) -> dict[str, Document]:
    """What is printed, by kind; of two PriorityClasses the first."""
    result = run(*arguments, code=0)
    return {one["kind"]: one for one in reversed(list(yaml.safe_load_all(result.stdout)))}


def deployment(*arguments: str) -> Document:
    """The Deployment that is printed."""
    return objects(*arguments)["Deployment"]


def pod(*arguments: str) -> Document:
    """The pod spec of the Deployment."""
    found: Document = deployment(*arguments)["spec"]["template"]["spec"]
    return found


def job(*arguments: str) -> Document:
    """The container of the CronJob."""
    spec = objects(*arguments)["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert isinstance(container, dict)
    return container


def test_without_options_it_is_what_we_ship() -> None:
    shipped = render.build(yaml.safe_load((SHIPPED / "kustomization.yaml").read_text()), SHIPPED)
    assert list(yaml.safe_load_all(run("--burst-class").stdout)) == shipped
    assert list(yaml.safe_load_all(run().stdout)) == shipped[:-1]


BERLIN = ("--time-zone", "Europe/Berlin")
DURING = ("--during", "20:00-07:00=2", "--during", "Fri 20:00-Mon 07:00=0")
OVERLAYS = {
    "nights": ("--replicas", "10", *BERLIN, *DURING),
    "proportional": ("--nodes-per-replica", "4", "--max-replicas", "50"),
    "soak": ("--preset", "soak"),
    "buffers": ("--as", "buffers"),
}


@pytest.mark.parametrize("overlay", sorted(path.name for path in (SHIPPED / "overlays").iterdir()))
def test_an_overlay_that_we_ship_is_what_the_options_in_the_docs_print(overlay: str) -> None:
    folder = SHIPPED / "overlays" / overlay
    shipped = render.build(yaml.safe_load((folder / "kustomization.yaml").read_text()), folder)
    assert list(yaml.safe_load_all(run(*OVERLAYS[overlay]).stdout)) == shipped


def test_json_is_one_list_of_the_same() -> None:
    listed = json.loads(run("-o", "json").stdout)
    assert (listed["kind"], listed["items"]) == ("List", list(yaml.safe_load_all(run().stdout)))


def test_number_size_and_image_are_those_given() -> None:
    found = deployment(
        "--replicas", "0", "--requests", "cpu=2,memory=4Gi,nvidia.com/gpu=1", "--image", "r.example:5000/pause:1"
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert found["spec"]["replicas"] == 0
    assert container["image"] == "r.example:5000/pause:1"
    wanted = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": wanted, "limits": wanted}


def test_where_they_may_run_is_what_was_given(tmp_path: pathlib.Path) -> None:
    affinity: Document = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    file = tmp_path / "affinity.yaml"
    file.write_text(yaml.safe_dump(affinity))
    taints = ["dedicated=batch:NoSchedule", "nvidia.com/gpu", "a=", "*"]
    tolerations = [word for taint in taints for word in ("--toleration", taint)]
    found = pod("--node-selector", "pool=gpu", "--node-selector", "a.b/c=", *tolerations, "--affinity", str(file))
    assert found["nodeSelector"] == {"pool": "gpu", "a.b/c": ""}
    assert found["affinity"] == affinity
    assert found["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "a", "operator": "Equal", "value": ""},
        {"operator": "Exists"},
    ]


@pytest.mark.parametrize(
    ("nodes", "zones", "expected"),
    [
        ("soft", "hard", {"kubernetes.io/hostname": "ScheduleAnyway", "topology.kubernetes.io/zone": "DoNotSchedule"}),
        ("off", "hard", {"topology.kubernetes.io/zone": "DoNotSchedule"}),
        ("hard", "off", {"kubernetes.io/hostname": "DoNotSchedule"}),
        ("off", "off", {}),
    ],
)
def test_spread_over_nodes_and_zones_is_soft_hard_or_off(nodes: str, zones: str, expected: Document) -> None:
    found = pod("--spread-nodes", nodes, "--spread-zones", zones, "--name", "other")
    constraints = found.get("topologySpreadConstraints", [])
    assert {one["topologyKey"]: one["whenUnsatisfiable"] for one in constraints} == expected
    for one in constraints:
        assert one["labelSelector"]["matchLabels"]["evenload.io/placeholder-set"] == "other"


BY_USE = ("--use-per-replica", "cpu_avg_5m=55%", "--use-per-replica", "memory_avg_5m=60%", "--max-replicas", "9")


def test_by_use_a_node_holds_one_of_the_set_and_the_job_has_the_shares(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "affinity.yaml"
    file.write_text("nodeAffinity: {}")
    found = pod(*BY_USE, "--name", "load", "--affinity", str(file))["affinity"]
    (term,) = found["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"evenload.io/placeholder-set": "load"}}
    assert (term["topologyKey"], found["nodeAffinity"]) == ("kubernetes.io/hostname", {})
    assert job(*BY_USE)["args"][2:] == [*map("=".join, zip(BY_USE[::2], BY_USE[1::2], strict=True))]
    file.write_text("podAntiAffinity: {}")
    commands.assert_refused(
        run(*BY_USE, "--affinity", str(file)), 2, "its podAntiAffinity has no effect with --use-per"
    )


@pytest.mark.parametrize(("preset", "priority"), [("order", -10), ("order", -1), ("soak", -11), ("soak", -(2**31))])
def test_a_priority_of_the_preset_stands_in_the_class_that_the_pods_name(preset: str, priority: int) -> None:
    found = objects("--preset", preset, "--priority", str(priority), "--priority-class", "mine", "--burst-class")
    made = found["PriorityClass"]
    assert (made["metadata"]["name"], made["value"]) == ("mine", priority)
    spec = found["Deployment"]["spec"]["template"]
    assert spec["spec"]["priorityClassName"] == "mine"
    assert spec["metadata"]["annotations"]["evenload.io/placeholder-preset"] == preset


@pytest.mark.parametrize("preset", ["order", "soak"])
def test_a_class_that_exists_is_named_and_not_made(preset: str) -> None:
    found = objects("--preset", preset, "--existing-priority-class", "--priority-class", "low-priority")
    assert "PriorityClass" not in found
    template, name = found["Deployment"]["spec"]["template"], found["Deployment"]["metadata"]["name"]
    assert template["spec"]["priorityClassName"] == "low-priority"
    assert template["metadata"]["annotations"]["evenload.io/placeholder-preset"] == preset
    assert template["metadata"]["labels"]["evenload.io/placeholder-set"] == name
    assert name == ("placeholder" if preset == "order" else "placeholder-soak")


def test_the_cutoff_of_another_autoscaler_moves_the_border_of_the_presets() -> None:
    run("--priority", "-50", "--expendable-below", "-100", code=0)
    run("--preset", "soak", "--priority", "-50", "--expendable-below", "-100", code=2)


def test_another_namespace_is_not_made_and_all_of_the_set_is_in_it() -> None:
    found = objects("-n", "mine", "--name", "gpu", "--nodes-per-replica", "4", "--max-replicas", "9")
    assert "Namespace" not in found
    places = {one["metadata"].get("namespace") for kind, one in found.items() if not kind.startswith("Cluster")}
    assert places == {"mine", None}  # a PriorityClass is in none
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert found[kind]["subjects"][0] == {"kind": "ServiceAccount", "name": "gpu-size", "namespace": "mine"}
    assert found["ClusterRole"]["metadata"]["name"] == "evenload-mine-gpu-size"
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == "evenload-mine-gpu-size"
    assert found["Role"]["rules"][0]["resourceNames"] == ["gpu"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"] == "gpu-size"


def test_a_schedule_brings_the_job_that_keeps_it_and_takes_the_number_off_the_deployment() -> None:
    options = ("--replicas", "20", "--during", "20:00-07:00=2", *BERLIN, "--evenload-image", "e:2")
    container = job(*options)
    assert container["image"] == "e:2"
    assert container["args"] == [
        "--namespace=evenload-system",
        "--deployment=placeholder",
        "--replicas=20",
        "--time-zone=Europe/Berlin",
        "--during=20:00-07:00=2",
    ]
    assert "replicas" not in deployment(*options)["spec"]
    assert "--replicas=10" in job("--during", "20:00-07:00=2")["args"]  # as shipped


def test_proportion_counts_the_nodes_that_placeholders_may_run_on() -> None:
    options = ("--cores-per-replica", "32", "--min-replicas", "2", "--max-replicas", "50", "--node-selector", "pool=a")
    assert job(*options)["args"] == [
        "--namespace=evenload-system",
        "--deployment=placeholder",
        "--node-selector=pool=a",
        "--cores-per-replica=32",
        "--min-replicas=2",
        "--max-replicas=50",
    ]


def test_an_overlay_names_the_parts_where_they_are_and_patches_only_what_was_chosen() -> None:
    result = run("--kustomization", "https://example.org/evenload//deploy?ref=v0.1.0", "--replicas", "3")
    found = yaml.safe_load(result.stdout)
    assert found["resources"] == [
        "https://example.org/evenload//deploy/namespace?ref=v0.1.0",
        "https://example.org/evenload//deploy/placeholder/base?ref=v0.1.0",
    ]
    assert found["components"] == ["https://example.org/evenload//deploy/placeholder/components/order?ref=v0.1.0"]
    (patch,) = found["patches"]
    assert yaml.safe_load(patch["patch"]) == [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    assert "kubectl apply -k ." in result.stderr


def test_what_it_will_do_is_on_stderr() -> None:
    said = run("-n", "mine", "--during", "20:00-07:00=2").stderr
    assert "mine/placeholder: a changing number of placeholders of cpu 300m, memory 600Mi" in said
    assert "a CronJob sets the number every five minutes" in said
    assert "the namespace mine must exist" in said
    assert "evenload-system/placeholder: 10 placeholders" in run().stderr


REFUSED = {
    "a priority over the preset": (["--priority", "0"], "--priority 0 is outside the preset order, from -10 to -1"),
    "a priority under the preset": (["--priority", "-11"], "for that use --preset soak"),
    "a priority over the other preset": (
        ["--preset", "soak", "--priority", "-10"],
        "--priority -10 is outside the preset soak, from -2147483648 to -11: cluster-autoscaler adds no node for pods "
        "under -10; for that use --preset order",
    ),
    "a buffer of free room": (["--as", "buffers", "--preset", "soak"], "--preset soak is nothing for --as buffers"),
    "a buffer that spreads": (["--as", "buffers", "--spread-zones", "hard"], "one for each zone by --node-selector"),
    "a cutoff that is none": (["--expendable-below", "0"], "--expendable-below 0: a number under 0 expected"),
    "a class that exists and has no name": (["--existing-priority-class"], "needs --priority-class NAME"),
    "a value for a class that exists": (
        ["--existing-priority-class", "--priority-class", "low", "--priority", "-7"],
        "--priority -7 has no effect with --existing-priority-class",
    ),
    "a class of Kubernetes' own": (["--priority-class", "system-node-critical"], "Kubernetes' own"),
    "a class with capitals": (["--priority-class", "Low"], "'Low' is not a PriorityClass name"),
    "no memory": (["--requests", "cpu=1"], "'--requests': 'cpu=1' says nothing of memory"),
    "no requests at all": (["--requests", ""], "each resource once expected, as cpu=1,memory=2Gi"),
    "requests that hold nothing": (["--requests", "cpu=0,memory=1Gi"], "cpu in 'cpu=0,memory=1Gi' is 0: more than 0"),
    "requests of no quantity": (["--requests", "cpu=1,memory=2GB"], "quantity '2GB'"),
    "a resource twice": (["--requests", "cpu=1,cpu=2,memory=1Gi"], "each resource once"),
    "a time zone without a schedule": (
        ["--time-zone", "Europe/Berlin"],
        "--time-zone Europe/Berlin has no effect without a schedule: add --during [DAYS ]FROM-[DAY ]TO=REPLICAS",
    ),
    "a time zone that is none": (["--time-zone", "Mars/Olympus"], "'Mars/Olympus' is not an IANA time zone"),
    "a path for a time zone": (["--time-zone", "../etc/passwd"], "'../etc/passwd' is not an IANA time zone"),
    "a night size without its night": (["--during", "2"], "'--during': '2' is not a span with a size"),
    "a night without its size": (["--during", "20:00-07:00"], "write [DAYS ]FROM-[DAY ]TO=REPLICAS"),
    "a proportion without an end": (["--nodes-per-replica", "4"], "needs --max-replicas N"),
    "a use of more than a node": (["--use-per-replica", "cpu=101%"], "'cpu=101%' is no use of a node: a metric of the"),
    "a number beside a proportion": (
        ["--nodes-per-replica", "4", "--max-replicas", "9", "--replicas", "3"],
        "--replicas 3 has no effect beside --nodes-per-replica",
    ),
    "a bound without a proportion": (["--min-replicas", "3"], "--min-replicas 3 has no effect without"),
    "bounds that cross": (
        ["--nodes-per-replica", "4", "--min-replicas", "9", "--max-replicas", "3"],
        "--min-replicas 9 is more than --max-replicas 3",
    ),
    "a number under 0": (["--replicas", "-1"], "'--replicas': -1 is not in the range"),
    "no label": (["--node-selector", "gpu"], "'gpu' is not a node label: write KEY=VALUE"),
    "a label twice": (["--node-selector", "a=1", "--node-selector", "a=2"], "--node-selector a: given 2 times"),
    "no taint": (["--toleration", "=x"], "'=x' is not a taint: write KEY[=VALUE][:EFFECT]"),
    "an effect that is none": (["--toleration", "a:NoRun"], "the effect 'NoRun' is none of NoSchedule"),
    "a file that is not there": (["--affinity", "/nowhere"], "/nowhere cannot be read as YAML"),
    "a file that holds no affinity": (["--affinity", __file__], "cannot be read as YAML"),
    "an image with a blank": (["--image", "a b"], "'a b' is not an image reference"),
    "an image for no job": (["--evenload-image", "e:1"], "--evenload-image e:1 has no effect without --during"),
    "a name with capitals": (["--name", "GPU"], "'GPU' is not a Deployment name"),
    "a name that no CronJob could have": (["--name", "x" * 48], "at most 47 small letters"),
    "a namespace with capitals": (["-n", "Mine"], "'Mine' is not a namespace name"),
    "an absolute path to a kustomization": (["--kustomization", "/deploy"], "a path relative to the overlay or a URL"),
    "an option that is none": (["--nights", "2"], "No such option"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str) -> None:
    arguments, message = REFUSED[name]
    result = run(*arguments)
    commands.assert_refused(result, 2)
    assert message in " ".join(result.stderr.split())


def test_an_affinity_of_another_shape_is_refused(tmp_path: pathlib.Path) -> None:
    for number, text in enumerate(("{}", "[]", "affinity: {}", "nodeAffinities: {}")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        result = run("--affinity", str(file))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "holds no affinity: a mapping with nodeAffinity" in " ".join(result.stderr.split())


def test_all_that_does_not_go_together_is_said_at_once() -> None:
    result = run("--priority", "5", "--time-zone", "UTC", "--max-replicas", "5")
    assert [line[:6] for line in result.stderr.splitlines()] == ["error:"] * 3
