"""A choice of options as a kustomization over deploy/: which parts of it, and patches for what is not as shipped.

`render` prints it as it is (--kustomization), or what becomes of it (`kustomizing`). So there is one description of the
manifests, the files of deploy/placeholder, and one language for changing them, kustomize's own.
"""

from typing import Any, Final

from cli.common import output
from cli.placeholder.choice import NAMESPACE, SUFFIX, Choice

Document = dict[str, Any]
Operations = list[Document]
NAMES: Final = {"order": "placeholder", "soak": "placeholder-soak"}  # as deploy/placeholder has them
CLASSES: Final = {"order": "evenload-placeholder", "soak": "evenload-placeholder-soak"}
_SET: Final = "evenload.io~1placeholder-set"
_POD: Final = "/spec/template/spec"
_SPREAD: Final = f"{_POD}/topologySpreadConstraints"
_PRESET: Final = "/spec/template/metadata/annotations/evenload.io~1placeholder-preset"
_CRON_SPEC: Final = "/spec/jobTemplate/spec/template/spec"
_CRON: Final = f"{_CRON_SPEC}/containers/0"


def kustomization(choice: Choice, deploy: str) -> Document:
    """The kustomization of a choice; `deploy` is the path or URL of deploy/ as kustomize is to find it."""
    by_target = [  # of all kinds but PriorityClass a set has at most one object
        ({"kind": "PriorityClass", "name": CLASSES[choice.preset]}, _priority_class(choice)),
        ({"kind": "Deployment"}, _deployment(choice)),
        *(({"kind": kind}, operations) for kind, operations in _size(choice).items()),
    ]
    patches = [
        {"target": target, "patch": output.as_yaml(operations, block=True) + "\n"}
        for target, operations in by_target
        if operations
    ]
    # Another namespace than the default has labels of its own, and must not go with `kubectl delete -k`.
    resources = ["namespace"] * (choice.namespace == NAMESPACE) + ["placeholder/base"]
    parts = (
        (not choice.existing_priority_class, choice.preset),  # it brings its PriorityClass
        (choice.burst_class, "burst"),
        (choice.sizing.changes, "sizing"),
        (choice.sizing.proportional, "proportional"),
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


def _priority_class(choice: Choice) -> Operations:
    if choice.existing_priority_class:
        return []
    fields = (("/metadata/name", choice.priority_class), ("/value", choice.priority))
    return [_replace(path, value) for path, value in fields if value is not None]


def _replace(path: str, value: object) -> Document:
    return {"op": "replace", "path": path, "value": value}


def _deployment(choice: Choice) -> Operations:
    resources = None if choice.requests is None else {"requests": choice.requests, "limits": dict(choice.requests)}
    simple = (
        ("/spec/replicas", None if choice.sizing.changes else choice.sizing.replicas),
        (f"{_POD}/priorityClassName", choice.priority_class),
        (f"{_POD}/containers/0/image", choice.image),
        (f"{_POD}/containers/0/resources", resources),
    )
    added = (
        ("nodeSelector", dict(choice.node_selectors)),
        ("tolerations", list(choice.tolerations)),
        ("affinity", choice.affinity),
    )
    return [
        *_named(choice),
        *(_replace(path, value) for path, value in simple if value is not None),
        *({"op": "add", "path": f"{_POD}/{name}", "value": value} for name, value in added if value),
        *_spread(choice),
    ]


def _named(choice: Choice) -> Operations:
    """Another name is another set: its pods select and spread among themselves."""
    bare = choice.existing_priority_class  # of the preset's component only the class is left out
    shipped = NAMES["order"] if bare else NAMES[choice.preset]
    preset = [_replace(_PRESET, choice.preset)] if bare and choice.preset != "order" else []
    if name_of(choice) == shipped:
        return preset + _moved(choice)
    places = ("/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels")
    spread = tuple(f"{_SPREAD}/{index}/labelSelector/matchLabels" for index in (0, 1))
    return [
        _replace("/metadata/name", name_of(choice)),
        *_moved(choice),
        *preset,
        *(_replace(f"{place}/{_SET}", name_of(choice)) for place in places + spread),
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
    """The arguments as shipped are namespace, Deployment and replicas; proportion has others throughout."""
    places = [f"--namespace={choice.namespace}", f"--deployment={name_of(choice)}"]
    image = [_replace(f"{_CRON}/image", choice.evenload_image)] if choice.evenload_image else []
    arguments = choice.sizing.arguments()
    if choice.sizing.proportional:
        labels = [f"--node-selector={key}={value}" for key, value in choice.node_selectors]
        return [_replace(f"{_CRON}/args", [*places, *labels, *arguments]), *image]
    first = 0 if choice.sizing.replicas is None else 1
    replaced = [*places, *arguments[:first]]
    return [
        *(_replace(f"{_CRON}/args/{at}", text) for at, text in enumerate(replaced)),
        *({"op": "add", "path": f"{_CRON}/args/-", "value": text} for text in arguments[first:]),
        *image,
    ]
