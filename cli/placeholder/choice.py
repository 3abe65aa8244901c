"""Options of a set of placeholders: their values, how each is read, and which exclude each other.

`render` gathers the options into a `Choice`; `layers` makes patches of it. Readers take the text of one option and
raise ValueError with what is expected; `refusals` names everything that is wrong between options at once.
"""

import collections
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import yaml

from cli.placeholder import sizing as sizes
from cli.placeholder.sizing import Sizing
from kube.api import quantities
from runtime import files, options

NAMESPACE: Final = options.DEFAULT_NAMESPACE
Preset = Literal["order", "soak"]
PRESETS: Final[tuple[Preset, ...]] = ("order", "soak")
Spread = Literal["soft", "hard", "off"]
SPREADS: Final[tuple[Spread, ...]] = ("soft", "hard", "off")
CUTOFF: Final = -10  # cluster-autoscaler's default of expendable-pods-priority-cutoff
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
SUFFIX: Final = "-size"
LONGEST_NAME: Final = 52 - len(SUFFIX)  # of a CronJob: its Jobs' names add eleven characters to 63 at most
_LOWEST: Final = -(2**31)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CLASS: Final = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
_LABEL_NAME: Final = rf"({_CLASS.pattern}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
_LABEL_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_LABEL: Final = re.compile(rf"(?P<key>{_LABEL_NAME})=(?P<value>{_LABEL_VALUE})")
_TAINT: Final = re.compile(rf"(?P<key>{_LABEL_NAME})(=(?P<value>{_LABEL_VALUE}))?(:(?P<effect>[A-Za-z]+))?|(?P<all>\*)")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:]*(@sha256:[0-9a-f]{64})?")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Every option of `render`; None and () where it was not given, so that the shipped manifest's own value stays."""

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
        yield (
            f"--evenload-image {choice.evenload_image} has no effect without --during, --nodes-per-replica or "
            "--cores-per-replica: without them no sizing job runs"
        )
    for key, times in collections.Counter(key for key, _ in choice.node_selectors).items():
        if times > 1:
            yield f"--node-selector {key}: given {times} times, and a node has one value of it"
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
        if _amount(amount, f"{name} in {text!r}") <= 0:
            raise ValueError(f"{name} in {text!r} is {amount}: more than 0 expected, or it holds no room")
        amounts[name] = amount
    missing = [name for name in ("cpu", "memory") if name not in amounts]
    if missing:
        raise ValueError(f"{text!r} says nothing of {' and '.join(missing)}: both expected, as cpu=1,memory=2Gi")
    return amounts


def _amount(text: str, where: str) -> float:
    try:
        return quantities.amount(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


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


def name(text: str) -> str:
    """The name of a set: of its Deployment, and with an ending of what belongs to it."""
    if not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        expected = f"at most {LONGEST_NAME} small letters, digits and -, beginning and ending with no -"
        raise ValueError(f"{text!r} is not a Deployment name: {expected}")
    return text


def namespace(text: str) -> str:
    """The name of a namespace."""
    if not _NAME.fullmatch(text) or len(text) > 63:
        raise ValueError(f"{text!r} is not a namespace name: at most 63 small letters, digits and - expected")
    return text


def priority_class(text: str) -> str:
    """The name of a PriorityClass that is not one of Kubernetes' own."""
    if not _CLASS.fullmatch(text) or len(text) > 253:
        raise ValueError(f"{text!r} is not a PriorityClass name: small letters, digits, - and . expected")
    if text.startswith("system-"):
        raise ValueError(f"{text!r}: names with system- are Kubernetes' own, and placeholders would preempt every pod")
    return text


def image(text: str) -> str:
    """An image as in a pod."""
    if not _IMAGE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not an image reference: write such as registry.k8s.io/pause:3.10 or NAME@sha256:..."
        )
    return text
