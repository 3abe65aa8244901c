"""Requests about pods and known nodes, read from the bytes that kube-scheduler writes, for `http.fast_path`.

A list of names is mostly one of the last requests, or found in the labels by its bytes (`state.name_table`). Any other
body, unknown names, lower-case keys and whole nodes are `Declined`: the slow path reads them.
"""

import collections
from typing import Final, NamedTuple

import numpy as np

from extender import metrics, protocol
from extender.state import cluster_view, name_table, node_cache, score_cache
from extender.state.candidates import Candidates
from kube import objects
from policy.contract import owner_usage
from policy.rules import scoring

_NAMES: Final = b',"NodeNames":["'
_END: Final = b'"]}'
LISTS_MOST: Final = 8  # a few schedulers, each asking prioritize about what filter passed


class Declined(Exception):
    """The slow path must answer; its text is one of metrics.SLOW_PATH_REASONS."""


class ParsedRequest(NamedTuple):
    """A request that the score table can answer: the pod, its candidates as they are at this moment, the JSON list of
    their names, and what the replicas of the pod's owner are known to use.
    """

    pod: objects.Pod
    candidates: score_cache.CandidateScores
    text: bytes
    mean: owner_usage.Mean | None

    @property
    def every(self) -> Candidates:
        """All nodes at that moment."""
        return self.candidates.table.standing

    def names_text(self, passed: node_cache.Rows) -> bytes:
        """Returns the JSON list of the names that passed."""
        if len(passed) == len(self.candidates.rows):
            return self.text
        names: list[bytes] = self.candidates.table.labels.directory.names[passed].tolist()
        return name_table.written(names) if names else b"[]"

    def ranking(self, candidates: score_cache.CandidateScores) -> scoring.Ranking:
        """Returns the ranking of these candidates, with the pod's load where the policy adds it to the score."""
        adds: bool = self.every.in_force.weighing.incoming_pod
        return candidates.ranking(self.every.estimate(self.pod, self.mean).load if adds else None)


class _NameList(NamedTuple):
    """A list of names as it stood in a request or reply, and where its nodes stand under these labels."""

    text: bytes
    labels: name_table.NodeLabels
    rows: node_cache.Rows


class RequestReader:
    """Reads requests, and remembers the last lists of names. A list is compared byte by byte, which ends at the first
    difference.

    A deque with a limit, read as a copy: threads may add at the same time, and a missed one is parsed again.
    """

    def __init__(self, view: cluster_view.ClusterView, tables: score_cache.ScoreCache) -> None:
        self._view, self._tables = view, tables
        self._lists: collections.deque[_NameList] = collections.deque(maxlen=LISTS_MOST)

    def remember(self, text: bytes, labels: name_table.NodeLabels, rows: node_cache.Rows) -> None:
        """Remember a list."""
        self._lists.append(_NameList(text, labels, rows))

    def read(self, body: bytes, now_seconds: float) -> ParsedRequest:
        """The request in a body as Go writes it, with known names; Declined for any other.

        A pod that counts somewhere already (it is asked about again within seconds, or another scheduler has placed it)
        is judged as if it did not.
        """
        begin, end = body.rfind(_NAMES), body.rfind(_END)
        if begin < 0 or body[end:].rstrip(b" \t\r\n") != _END:
            raise Declined(metrics.BODY)
        pod = protocol.pod_before_names(body[:begin])
        if pod is None:
            raise Declined(metrics.BODY)
        text = body[begin + len(_NAMES) - 2 : end + 2]
        labels = self._tables.labels(now_seconds)
        rows = self._rows(text, labels)
        if rows is None:
            raise Declined(metrics.UNKNOWN_NODE)
        candidates = self._tables.candidates(now_seconds, rows, pod)
        if candidates is None or candidates.table.labels is not labels:
            raise Declined(metrics.NODES_CHANGED)
        return ParsedRequest(pod, candidates, text, self._view.mean(pod, now_seconds))

    def _rows(self, text: bytes, labels: name_table.NodeLabels) -> node_cache.Rows | None:
        """The rows of a JSON list of known names, each once; None if it holds anything else.

        Only the exact bytes of a known name are looked up, so a text that means something else in JSON is not found.
        """
        last = next((one for one in self._lists.copy() if one.labels is labels and one.text == text), None)
        if last is not None:
            return last.rows
        if len(text) > labels.longest_bytes:
            return None
        rows = labels.directory.rows(text)
        if rows is None:
            places = list(map(labels.rows.get, text[2:-2].split(b'","')))
            if None in places:
                return None
            rows = np.array(places, dtype=np.intp)
        return rows if np.bincount(rows).max() == 1 else None
