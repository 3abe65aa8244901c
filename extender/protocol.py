"""The kube-scheduler extender protocol, version 1: JSON bodies <-> small structs.

`app` hands bodies in and sends the bytes out; `verbs` works with the types between. Only the needed fields are decoded:
of a pod its identity, requests and owner, of a full Node its name, while the rest is skipped or passed on untouched.
Go's field names are upper-case; the tags of schedulers before 1.17 and names that are lower-case throughout are read
too, as Go would. Replies use Go's names, which every Go client reads.

A body that is not the request that the verb expects raises the HTTP error that answers it, as kube-scheduler takes any
status but 200 as an error: 400 (unreadable), 413 (more values than a request has), 422 (readable, but no pod in it).
"""

import collections.abc
import functools
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from werkzeug import exceptions

from kube import objects
from policy.rules import scoring

BODY_LIMIT_BYTES: Final = 16 * 2**20  # whole Node objects of 1,700 nodes
# What decoding costs goes by values, not bytes: `[{},{},...]` of 15.6 MB makes 5 million of them, and takes seconds and
# more memory than the pod has. In whole Nodes and Pods there are 40 to 60 bytes to a value; names are short, but few.
VALUES_MOST: Final = 2**17  # the largest pods have 80,000: of 13,000 ports, each again in managedFields
BYTES_OF_A_VALUE: Final = 32
NAMES_MOST: Final = 50_000  # ten times the nodes that Kubernetes supports

T = TypeVar("T")
C = TypeVar("C", bound=collections.abc.Sized)
RawMap = dict[str, msgspec.Raw]


class _NodeList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _NamedNode(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Args(msgspec.Struct, frozen=True):
    pod_upper: objects.Pod | None = msgspec.field(name="Pod", default=None)
    pod_lower: objects.Pod | None = msgspec.field(name="pod", default=None)
    names_upper: list[str] | None = msgspec.field(name="NodeNames", default=None)
    names_camel: list[str] | None = msgspec.field(name="nodeNames", default=None)
    names_lower: list[str] | None = msgspec.field(name="nodenames", default=None)
    nodes_upper: _NodeList | None = msgspec.field(name="Nodes", default=None)
    nodes_lower: _NodeList | None = msgspec.field(name="nodes", default=None)


class _Victim(msgspec.Struct, frozen=True):
    """A MetaPod ({"UID"}) or a whole pod ({"metadata": {"uid"}}); the reply names both by UID."""

    uid_upper: str = msgspec.field(name="UID", default="")
    uid_lower: str = msgspec.field(name="uid", default="")
    metadata: _Metadata = _Metadata()

    @property
    def uid(self) -> str:
        return self.uid_upper or self.uid_lower or self.metadata.uid


class _Victims(msgspec.Struct, frozen=True):
    pods_upper: list[_Victim] | None = msgspec.field(name="Pods", default=None)
    pods_lower: list[_Victim] | None = msgspec.field(name="pods", default=None)
    violations_upper: int = msgspec.field(name="NumPDBViolations", default=0)
    violations_camel: int = msgspec.field(name="numPDBViolations", default=0)
    violations_lower: int = msgspec.field(name="numpdbviolations", default=0)


_VictimsMap = dict[str, _Victims | None] | None


class _PreemptionArgs(msgspec.Struct, frozen=True):
    pod_upper: objects.Pod | None = msgspec.field(name="Pod", default=None)
    pod_lower: objects.Pod | None = msgspec.field(name="pod", default=None)
    meta_upper: _VictimsMap = msgspec.field(name="NodeNameToMetaVictims", default=None)
    meta_camel: _VictimsMap = msgspec.field(name="nodeNameToMetaVictims", default=None)
    meta_lower: _VictimsMap = msgspec.field(name="nodenametometavictims", default=None)
    whole_upper: _VictimsMap = msgspec.field(name="NodeNameToVictims", default=None)
    whole_camel: _VictimsMap = msgspec.field(name="nodeNameToVictims", default=None)
    whole_lower: _VictimsMap = msgspec.field(name="nodenametovictims", default=None)
    whole_old: _VictimsMap = msgspec.field(name="nodeToVictims", default=None)

    @property
    def victims(self) -> "dict[str, _Victims | None]":
        """The map that the scheduler filled, whatever it calls it."""
        meta = self.meta_upper or self.meta_camel or self.meta_lower
        return meta or self.whole_upper or self.whole_camel or self.whole_lower or self.whole_old or {}


class Args(msgspec.Struct, frozen=True):
    """A filter, prioritize or explain request: the pod and the candidate nodes, each name once, in the order asked.

    `nodes` holds the raw Node objects by name when the scheduler sent them whole (nodeCacheCapable: false), else it
    is None.
    """

    pod: objects.Pod
    names: tuple[str, ...]
    nodes: RawMap | None = None


class Victims(msgspec.Struct, frozen=True):
    """The pods that preemption would delete on one node, by uid, and how many budgets that would violate."""

    uids: tuple[str, ...]
    violations: int


class PreemptionArgs(msgspec.Struct, frozen=True):
    """A preempt request: the pod that wants room and the victims per node, whichever of the two maps the scheduler
    filled.
    """

    pod: objects.Pod
    victims: dict[str, Victims]

    @property
    def names(self) -> tuple[str, ...]:
        """The candidate nodes."""
        return tuple(self.victims)


AnyArgs = Args | PreemptionArgs


class HostPriority(msgspec.Struct, frozen=True):
    """One element of the prioritize reply; the score is an integer of 0..10."""

    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


_ARGS: Final = msgspec.json.Decoder(_Args)
_PREEMPTION_ARGS: Final = msgspec.json.Decoder(_PreemptionArgs)
_PODS: Final = msgspec.json.Decoder(objects.Pod)
_pod_seen: Final = functools.lru_cache(maxsize=8)(_PODS.decode)  # a few schedulers, two questions about each pod
REMEMBERED_BYTES: Final = 2**16  # a pod of a megabyte is not worth the memory
_POD: Final = b'{"Pod":'
_NO_NODES: Final = b',"Nodes":null'
_NAMED_NODE: Final = msgspec.json.Decoder(_NamedNode)
_DECISIONS: Final = "decisions"
_LONG_LISTS: Final = frozenset({_DECISIONS, "nodes"})
encode: Final = msgspec.json.Encoder().encode  # also of answers outside the scheduler's protocol, such as /nodes
_CLOSINGS: Final = np.array([b"%d}," % score for score in range(scoring.MAX_SCORE + 1)], dtype=np.object_)


def decode_args(body: bytes) -> Args:
    """The request in an ExtenderArgs body; HTTPException otherwise. No names at all, or null, are no candidates."""
    wire = _decode(_ARGS, body)
    pod = _pod(wire.pod_upper, wire.pod_lower)
    node_list = wire.nodes_upper or wire.nodes_lower
    items = None if node_list is None else _few(node_list.items or ())
    nodes = None if items is None else {_decode(_NAMED_NODE, bytes(one)).metadata.name: one for one in items}
    names = wire.names_upper or wire.names_camel or wire.names_lower or nodes or ()
    return Args(pod, tuple(dict.fromkeys(_few(names))), nodes)


def pod_before_names(head: bytes) -> objects.Pod | None:
    """The pod of a request whose body was cut off before `,"NodeNames":`, if that head is `{"Pod":{...},"Nodes":null`.

    None for any other: it is for `decode_args` to say what that is. Equal heads of a usual size give the same pod for a
    while: prioritize asks about the pod of the filter before.
    """
    if not head.startswith(_POD) or not head.endswith(_NO_NODES):
        return None
    text = head[len(_POD) : -len(_NO_NODES)]
    if _excessive(text):
        return None
    try:
        return _pod_seen(text) if len(text) <= REMEMBERED_BYTES else _PODS.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode_preemption(body: bytes) -> PreemptionArgs:
    """The request in an ExtenderPreemptionArgs body; HTTPException otherwise."""
    wire = _decode(_PREEMPTION_ARGS, body)
    pod = _pod(wire.pod_upper, wire.pod_lower)
    return PreemptionArgs(pod, {node: _victims(victims) for node, victims in _few(wire.victims).items()})


def encode_filter(
    args: Args, passed: collections.abc.Sequence[str], rejected: collections.abc.Mapping[str, str]
) -> bytes:
    """The filter reply: who passed, in the form asked for, and why the rest did not.

    Rejected nodes go to FailedAndUnresolvableNodes: in FailedNodes the scheduler would kill victims on a node that
    stays hot all the same (kubernetes/kubernetes#92866). A null NodeNames would mean that no node fits, so it is a
    list or the request came with whole nodes.
    """
    nodes = None
    if args.nodes is not None:
        nodes = {"items": [args.nodes[name] for name in passed if name in args.nodes]}
    names = list(passed) if nodes is None else None
    failed = {"FailedNodes": {}, "FailedAndUnresolvableNodes": rejected}
    return encode({"NodeNames": names, "Nodes": nodes, **failed, "Error": ""})


def encode_scores(names: collections.abc.Sequence[str], scores: collections.abc.Sequence[int]) -> bytes:
    """The prioritize reply, a HostPriorityList; a float in it would make the scheduler drop every score."""
    return encode([HostPriority(name, score) for name, score in zip(names, scores, strict=True)])


def encode_preemption(victims: collections.abc.Mapping[str, Victims]) -> bytes:
    """The preempt reply: the nodes that may be preempted on. It is the map of uids, whichever map the request held."""
    nodes = {
        node: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.violations}
        for node, one in victims.items()
    }
    return encode({"NodeNameToMetaVictims": nodes})


def encode_neutral(verb: str, args: AnyArgs, score: int) -> bytes:
    """The reply that prefers and rejects no node: all pass, score the same, or stay in the map of victims."""
    if isinstance(args, PreemptionArgs):
        return encode_preemption(args.victims)
    if verb == "filter":
        return encode_filter(args, args.names, {})
    return encode_scores(args.names, [score] * len(args.names))


def refusal(quoted_name: bytes, reason: str) -> bytes:
    """Returns the entry of a rejected node in the filter reply."""
    return quoted_name + b":" + encode(reason)


def score_opening(quoted_name: bytes) -> bytes:
    """Returns the entry of a node in the prioritize reply, up to its score."""
    return b'{"Host":%b,"Score":' % quoted_name


def joined_filter(passed: bytes, refusals: collections.abc.Iterable[bytes]) -> bytes:
    """The filter reply from the JSON array of the names that passed and the parts of those that did not."""
    middle = b',"Nodes":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{'
    return b"".join((b'{"NodeNames":', passed, middle, b",".join(refusals), b'},"Error":""}'))


def joined_scores(openings: list[bytes], scores: npt.NDArray[np.int64]) -> bytes:
    """The prioritize reply from its openings and the scores that belong to them, 0..10."""
    parts = [b""] * (2 * len(openings))
    parts[::2], parts[1::2] = openings, _CLOSINGS[scores].tolist()
    return b"[%b]" % b"".join(parts)[:-1]


def encode_by_parts(document: dict[str, object] | msgspec.Struct) -> bytes:
    """Encodes a long reply piece by piece: each element of `nodes` and `decisions` is encoded and released by itself.
    Encoding or freeing thousands of them in one step holds the interpreter for 0.1 s, and no other thread runs.
    """
    fields = msgspec.structs.asdict(document) if isinstance(document, msgspec.Struct) else document
    members = []
    for name in [name for name, value in fields.items() if value is not msgspec.UNSET]:
        value = fields.pop(name)
        if isinstance(value, list) and name in _LONG_LISTS:
            encode_one = encode_by_parts if name == _DECISIONS else encode  # a decision has a list of nodes of its own
            value.reverse()
            text = b"[%b]" % b",".join([encode_one(value.pop()) for _ in range(len(value))])
        else:
            text = encode(value)
        members.append(b"%b:%b" % (encode(name), text))
    return b"{%b}" % b",".join(members)


def _excessive(body: bytes) -> bool:
    """Whether a body has more values than a request of its size; commas are counted, of which text has some, too."""
    return len(body) > VALUES_MOST and body.count(b",") > max(VALUES_MOST, len(body) // BYTES_OF_A_VALUE)


def _few(names: C) -> C:
    """The nodes of a request; HTTPException for more than any cluster has."""
    if len(names) > NAMES_MOST:
        message = f"{len(names)} nodes in the request, expected at most {NAMES_MOST}"
        raise exceptions.RequestEntityTooLarge(message)
    return names


def _decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    if _excessive(body):
        what = f"{len(body)} bytes of JSON with {body.count(b',')} commas: expected at most {VALUES_MOST} values,"
        raise exceptions.RequestEntityTooLarge(f"{what} or one in {BYTES_OF_A_VALUE} bytes")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise exceptions.BadRequest(f"cannot read the request: {error}; expected the v1 extender JSON") from error


def _pod(upper: objects.Pod | None, lower: objects.Pod | None) -> objects.Pod:
    pod = upper or lower
    if pod is None:
        raise exceptions.UnprocessableEntity('the request has no pod: expected the pod to schedule under "Pod"')
    return pod


def _victims(victims: _Victims | None) -> Victims:
    if victims is None:
        return Victims((), 0)
    pods = victims.pods_upper or victims.pods_lower or ()
    violations = victims.violations_upper or victims.violations_camel or victims.violations_lower
    return Victims(tuple(pod.uid for pod in pods), violations)
