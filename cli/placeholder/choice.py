"""Options of a set of placeholders: how each is read, which exclude each other, and the kustomization that they make.

`render` gathers the options into a `Choice`. Readers take the text of one option and raise ValueError with what is
expected; `refusals` names everything that is wrong between options at once. `kustomization` says which parts of deploy/
it is, with patches for what is not as shipped: so there is one description of the manifests, the files of
deploy/placeholder, and one language for changing them, kustomize's own.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import click
import yaml

from cli.common import option_types, output
from cli.placeholder import sizing as sizes
from cli.placeholder.sizing import Sizing
from kube.api import identifiers, quantities
from runtime import files, options

NAMESPACE: Final = options.DEFAULT_NAMESPACE
Preset = Literal["order", "soak"]
PRESETS: Final[tuple[Preset, ...]] = ("order", "soak")
Form = Literal["pods", "buffers"]
Spread = Literal["soft", "hard", "off"]
SPREADS: Final[tuple[Spread, ...]] = ("soft", "hard", "off")
REPLICAS: Final = 10  # as deploy/placeholder has them
CUTOFF: Final = -10  # cluster-autoscaler's default of expendable-pods-priority-cutoff
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
SUFFIX: Final = "-size"
LONGEST_NAME: Final = 52 - len(SUFFIX)  # of a CronJob: its Jobs' names add eleven characters to 63 at most
_LOWEST: Final = -(2**31)
_NAME: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_NAME: Final = rf"({_NAME}(\.{_NAME})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
_LABEL_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_LABEL: Final = re.compile(rf"(?P<key>{_LABEL_NAME})=(?P<value>{_LABEL_VALUE})")
_TAINT: Final = re.compile(rf"(?P<key>{_LABEL_NAME})(=(?P<value>{_LABEL_VALUE}))?(:(?P<effect>[A-Za-z]+))?|(?P<all>\*)")
Document = dict[str, Any]
Operations = list[Document]
NAMES: Final = {"order": "placeholder", "soak": "placeholder-soak"}  # as deploy/placeholder has them
CLASSES: Final = {"order": "evenload-placeholder", "soak": "evenload-placeholder-soak"}
_SET: Final = "evenload.io~1placeholder-set"
_SPREAD: Final = "/spec/template/spec/topologySpreadConstraints"
_LABELS: Final = (
    *("/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"),
    *(f"{_SPREAD}/{index}/labelSelector/matchLabels" for index in (0, 1)),
)
_PRESET: Final = "/spec/template/metadata/annotations/evenload.io~1placeholder-preset"
_CRON_SPEC: Final = "/spec/jobTemplate/spec/template/spec"
_CRON: Final = f"{_CRON_SPEC}/containers/0"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Every option of `render`; None and () where it was not given, so that the shipped manifest's own value stays."""

    form: Form = "pods"
    preset: Preset = "order"
    name: str | None = None
    namespace: str = NAMESPACE
    sizing: Sizing
    requests: dict[str, str] | None = None
    image: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    existing_priority_class: bool = False
    burst_class: bool = False
    expendable_below: int = CUTOFF
    node_selectors: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Document, ...] = ()
    affinity: Document | None = None
    spread_nodes: Spread = "soft"
    spread_zones: Spread = "soft"
    evenload_image: str | None = None


def refusals(choice: Choice) -> Iterator[str]:
    """Returns all conflicts of a choice at once."""
    priority, existing = choice.priority, choice.existing_priority_class
    if existing and choice.priority_class is None:
        yield "--existing-priority-class needs --priority-class NAME: which class is there already?"
    if existing and priority is not None:
        yield (
            f"--priority {priority} has no effect with --existing-priority-class: that class has its value, and no "
            "class's value can be changed"
        )
    if choice.evenload_image is not None and not choice.sizing.changes:
        yield f"--evenload-image {choice.evenload_image} has no effect without --during, {sizes.PROPORTIONS}: no job"
    if choice.sizing.use_per_replica and "podAntiAffinity" in (choice.affinity or {}):
        yield "--affinity: its podAntiAffinity has no effect with --use-per-replica, which puts one on a node"
    for key, times in collections.Counter(key for key, _ in choice.node_selectors).items():
        if times > 1:
            yield f"--node-selector {key}: given {times} times, and a node has one value of it"
    if choice.form == "buffers" and choice.preset == "soak":
        yield "--preset soak is nothing for --as buffers: a buffer orders nodes; free room needs --as pods to be held"
    if choice.form == "buffers" and "hard" in (choice.spread_nodes, choice.spread_zones):
        yield "a buffer spreads over nothing: instead of --spread-zones hard make one for each zone by --node-selector"
    yield from _priority(choice)
    yield from sizes.refusals(choice.sizing)


def _priority(choice: Choice) -> Iterator[str]:
    """Why the priority is not that of the preset."""
    priority, cutoff = choice.priority, choice.expendable_below
    if not _LOWEST < cutoff < 0:
        yield f"--expendable-below {cutoff}: a number under 0 expected, as cluster-autoscaler's own {CUTOFF}"
        return
    lowest, highest = (cutoff, -1) if choice.preset == "order" else (_LOWEST, cutoff - 1)
    if priority is None or lowest <= priority <= highest:
        return
    why = (
        f"from {cutoff} to -1: ordinary pods (0) preempt them, and cluster-autoscaler adds nodes for them"
        if choice.preset == "order"
        else f"from {_LOWEST} to {cutoff - 1}: cluster-autoscaler adds no node for pods under {cutoff}"
    )
    other = "; for that use --preset order" if cutoff <= priority < 0 else ""
    other = "; for that use --preset soak" if _LOWEST <= priority < cutoff else other
    yield f"--priority {priority} is outside the preset {choice.preset}, {why}{other}"


def requests(text: str) -> dict[str, str]:
    """`cpu=1,memory=2Gi` and further resources; both of these are needed, or placeholders would hold no room."""
    amounts: dict[str, str] = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        if not re.fullmatch(_LABEL_NAME, name) or name in amounts:
            raise ValueError(f"{part.strip()!r} in {text!r}: each resource once expected, as cpu=1,memory=2Gi")
        try:
            held = quantities.amount(amount)
        except ValueError as error:
            raise ValueError(f"{name} in {text!r}: {error}") from error
        if held <= 0:
            raise ValueError(f"{name} in {text!r} is {amount}: more than 0 expected, or it holds no room")
        amounts[name] = amount
    missing = [name for name in ("cpu", "memory") if name not in amounts]
    if missing:
        raise ValueError(f"{text!r} says nothing of {' and '.join(missing)}: both expected, as cpu=1,memory=2Gi")
    return amounts


def label(text: str) -> tuple[str, str]:
    """`KEY=VALUE` of a node."""
    match = _LABEL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a node label: write KEY=VALUE, as topology.kubernetes.io/zone=a")
    return match["key"], match["value"]


def toleration(text: str) -> Document:
    """`KEY[=VALUE][:EFFECT]` as `kubectl taint` writes taints, or `*` for all of them."""
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a taint: write KEY[=VALUE][:EFFECT], as dedicated=batch:NoSchedule, or *")
    if match["all"]:
        return {"operator": "Exists"}
    if match["effect"] is not None and match["effect"] not in EFFECTS:
        raise ValueError(f"{text!r}: the effect {match['effect']!r} is none of {', '.join(EFFECTS)}")
    value = {"operator": "Exists"} if match["value"] is None else {"operator": "Equal", "value": match["value"]}
    return {"key": match["key"], **value, **({"effect": match["effect"]} if match["effect"] else {})}


def affinity(path: str) -> Document:
    """The file of a pod's `affinity`, YAML or JSON; the apiserver judges what stands below its three keys."""
    try:
        document = yaml.safe_load(files.read(pathlib.Path(path)).decode())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(document, dict) or not document or not set(document) <= set(AFFINITIES):
        raise ValueError(f"{path} holds no affinity: a mapping with {', '.join(AFFINITIES)} at its top expected")
    return document


def priority_class(text: str) -> str:
    """The name of a PriorityClass that is not one of Kubernetes' own."""
    if not identifiers.is_name(text):
        raise ValueError(f"{text!r} is not a PriorityClass name: small letters, digits, - and . expected")
    if text.startswith("system-"):
        raise ValueError(f"{text!r}: names with system- are Kubernetes' own, and placeholders would preempt every pod")
    return text


NAME_TYPE: Final = option_types.matching(  # of a set: of its Deployment, and with an ending of what belongs to it
    "NAME",
    lambda text: identifiers.is_namespace(text) and len(text) <= LONGEST_NAME,
    f" is not a Deployment name: at most {LONGEST_NAME} small letters, digits and -, beginning and ending with no -",
)
NAMESPACE_TYPE: Final = option_types.matching(
    "NAME", identifiers.is_namespace, " is not a namespace name: at most 63 small letters, digits and - expected"
)
IMAGE_TYPE: Final = option_types.matching(
    "IMAGE",
    re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:]*(@sha256:[0-9a-f]{64})?").fullmatch,
    " is not an image reference: write such as registry.k8s.io/pause:3.10 or NAME@sha256:...",
)


form_option: Final = click.option(
    "--as",
    "form",
    type=click.Choice(("pods", "buffers")),
    default="pods",
    show_default=True,
    help="pods hold room on the nodes there are; for buffers an autoscaler keeps it free.",
)


def kustomization(choice: Choice, deploy: str) -> Document:
    """The kustomization of a choice; `deploy` is the path or URL of deploy/ as kustomize is to find it."""
    of_class = (("/metadata/name", choice.priority_class), ("/value", choice.priority))
    named = [_replace(path, value) for path, value in of_class if value is not None]
    by_target = [  # of all kinds but PriorityClass a set has at most one object
        ({"kind": "PriorityClass", "name": CLASSES[choice.preset]}, [] if choice.existing_priority_class else named),
        *(({"kind": kind}, operations) for kind, operations in _room(choice).items()),
        *(({"kind": kind}, operations) for kind, operations in _size(choice).items()),
    ]
    patches = [
        {"target": target, "patch": output.as_yaml(operations, block=True) + "\n"}
        for target, operations in by_target
        if operations
    ]
    # Another namespace than the default has labels of its own, and must not go with `kubectl delete -k`.
    base, kind = ("base", "") if choice.form == "pods" else ("buffer", "buffer-")
    resources = ["namespace"] * (choice.namespace == NAMESPACE) + [f"placeholder/{base}"]
    parts = (
        (not choice.existing_priority_class, choice.preset),  # it brings its PriorityClass
        (choice.burst_class, "burst"),
        (choice.sizing.changes, f"{kind}sizing"),
        (choice.sizing.proportional, f"{kind}proportional"),
    )
    components = [f"placeholder/components/{name}" for wanted, name in parts if wanted]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [_joined(deploy, name) for name in resources],
        **({"components": [_joined(deploy, name) for name in components]} if components else {}),
        **({"patches": patches} if patches else {}),
    }


def name_of(choice: Choice) -> str:
    """The set's name: the one given, or its preset's."""
    return choice.name or NAMES[choice.preset]


def _joined(deploy: str, name: str) -> str:
    """A path below deploy/; the revision of a URL (?ref=) stays at its end."""
    path, mark, query = deploy.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


def _replace(path: str, value: object) -> Document:
    return {"op": "replace", "path": path, "value": value}


def _room(choice: Choice) -> dict[str, Operations]:
    """Returns the patches of the Deployment, or those of the PodTemplate and the CapacityBuffer."""
    sizing, buffered = choice.sizing, choice.form == "buffers"
    number = sizing.replicas if buffered or not sizing.changes else None
    if buffered and sizing.proportional:  # its CRD wants a number: no node is ordered before nodes are counted
        number = sizing.min_replicas or 0
    numbered = [] if number is None else [_replace("/spec/replicas", number)]
    if not buffered:
        return {"Deployment": [*_named(choice, _LABELS), *numbered, *_pod(choice, "/spec"), *_spread(choice)]}
    reference = [_replace("/spec/podTemplateRef/name", choice.name)] if choice.name else []
    return {
        "PodTemplate": [*_named(choice, ("/metadata/labels", "/template/metadata/labels")), *_pod(choice, "")],
        "CapacityBuffer": [*_named(choice, ("/metadata/labels",)), *reference, *numbered],
    }


def _pod(choice: Choice, root: str) -> Operations:
    """Returns the patches of the pods' template below `root`."""
    pod = f"{root}/template/spec"
    resources = None if choice.requests is None else {"requests": choice.requests, "limits": dict(choice.requests)}
    simple = (
        ("priorityClassName", choice.priority_class),
        ("containers/0/image", choice.image),
        ("containers/0/resources", resources),
    )
    added = (
        ("nodeSelector", dict(choice.node_selectors)),
        ("tolerations", list(choice.tolerations)),
        ("affinity", _affinity(choice)),
    )
    return [
        *(_replace(f"{pod}/{name}", value) for name, value in simple if value is not None),
        *({"op": "add", "path": f"{pod}/{name}", "value": value} for name, value in added if value),
    ]


def _affinity(choice: Choice) -> Document | None:
    """The affinity given; by use at most one a node: a hot node may have room by requests, and the autoscaler goes by
    those. So as many as the use wants nodes order the nodes that are missing, and keep those that are there.
    """
    if not choice.sizing.use_per_replica:
        return choice.affinity
    same = {"matchLabels": {"evenload.io/placeholder-set": name_of(choice)}}
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": same}]
    return {**(choice.affinity or {}), "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}


def _named(choice: Choice, labels: Sequence[str]) -> Operations:
    """Another name is another set: its pods select and spread among themselves, by the label in these places."""
    bare = choice.existing_priority_class  # of the preset's component only the class is left out
    shipped = NAMES["order"] if bare else NAMES[choice.preset]
    preset = [_replace(_PRESET, choice.preset)] if bare and choice.preset != "order" else []
    if name_of(choice) == shipped:
        return preset + _moved(choice)
    return [
        _replace("/metadata/name", name_of(choice)),
        *_moved(choice),
        *preset,
        *(_replace(f"{place}/{_SET}", name_of(choice)) for place in labels),
    ]


def _moved(choice: Choice) -> Operations:
    return [_replace("/metadata/namespace", choice.namespace)] if choice.namespace != NAMESPACE else []


def _spread(choice: Choice) -> Operations:
    """The constraints as shipped: hostname, then zone; the last one goes first, or the other's index would move."""
    wanted = {1: choice.spread_zones, 0: choice.spread_nodes}
    if set(wanted.values()) == {"off"}:
        return [{"op": "remove", "path": _SPREAD}]
    hard = [_replace(f"{_SPREAD}/{at}/whenUnsatisfiable", "DoNotSchedule") for at in wanted if wanted[at] == "hard"]
    return hard + [{"op": "remove", "path": f"{_SPREAD}/{at}"} for at in wanted if wanted[at] == "off"]


def _size(choice: Choice) -> dict[str, Operations]:
    """Returns the patches of the CronJob's arguments and of the names of all objects that belong to it."""
    if not choice.sizing.changes:
        return {}
    name, moved = name_of(choice), _moved(choice)
    if name == NAMES["order"] and not moved:
        return {"CronJob": _cron(choice)}
    own = f"{name}{SUFFIX}"
    named = [_replace("/metadata/name", own), *moved]
    subject = [_replace("/subjects/0/name", own), _replace("/subjects/0/namespace", choice.namespace)]
    bound = [*subject, _replace("/roleRef/name", own)]
    changes = {
        "ServiceAccount": named,
        "Role": [
            *named,
            *(_replace(f"/rules/{at}/resourceNames", [name]) for at in range(1 + choice.sizing.proportional)),
        ],
        "RoleBinding": [*named, *bound],
        "CronJob": [*named, _replace(f"{_CRON_SPEC}/serviceAccountName", own), *_cron(choice)],
    }
    if choice.sizing.proportional:  # the right to count nodes; names of the whole cluster's objects differ between sets
        paths = ("/metadata/name", "/roleRef/name")
        counting, bound_to = (_replace(path, f"evenload-{choice.namespace}-{own}") for path in paths)
        changes |= {"ClusterRole": [counting], "ClusterRoleBinding": [counting, *subject, bound_to]}
    return changes


def _cron(choice: Choice) -> Operations:
    """All arguments of the job, with the shipped number where none is given."""
    sizing, kind = choice.sizing, "deployment" if choice.form == "pods" else "buffer"
    if not sizing.proportional and sizing.replicas is None:
        sizing = dataclasses.replace(sizing, replicas=REPLICAS)
    labels = [f"--node-selector={key}={value}" for key, value in choice.node_selectors if sizing.proportional]
    places = [f"--namespace={choice.namespace}", f"--{kind}={name_of(choice)}"]
    image = [_replace(f"{_CRON}/image", choice.evenload_image)] if choice.evenload_image else []
    return [_replace(f"{_CRON}/args", [*places, *labels, *sizing.arguments()]), *image]
