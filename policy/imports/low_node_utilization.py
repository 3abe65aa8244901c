"""descheduler's policy as Evenload's: LowNodeUtilization of a `DeschedulerPolicy` v1alpha2 -> the descheduler section.

`evenload policy import` reads the file and prints the sections and remarks. The fields are those of
kubernetes-sigs/descheduler v0.36 (pkg/api/v1alpha2, nodeutilization and defaultevictor). Its other plugins have no
equal, and are named.

| descheduler | here |
|---|---|
| targetThresholds, percent | evictAbove; evictUntil lies 10 points lower, and not under thresholds |
| the same with useDeviationThresholds | overMean: evictAbove; evictUntil 10 points lower, and not under the mean |
| numberOfNodes n: acts above n | coolNodes n + 1 |
| gracePeriodSeconds | gracePeriod |
| maxNoOfPodsToEvict..., evictionLimits.node | limits |
| evictableNamespaces.exclude, DefaultEvictor | protect |
"""

import collections.abc
from typing import Final

from policy.imports import converting
from policy.schema import load_policy, units

API_VERSION: Final = "descheduler/v1alpha2"
KIND: Final = "DeschedulerPolicy"
PLUGIN: Final = "LowNodeUtilization"
EVICTOR: Final = "DefaultEvictor"
GAP_RATIO: Final = 0.10  # between the line at which descheduler begins and stops, and the one at which Evenload stops
_METRICS: Final = {"memory": "memory_avg_5m", "cpu": "cpu_avg_5m"}
_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_INVERTED: Final = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
_TOP: Final = (
    "apiVersion",
    "kind",
    "profiles",
    "nodeSelector",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
    "evictionFailureEventNotification",
    "metricsCollector",
    "metricsProviders",
    "gracePeriodSeconds",
)
_ARGUMENTS: Final = (
    "apiVersion",
    "kind",
    "useDeviationThresholds",
    "thresholds",
    "targetThresholds",
    "numberOfNodes",
    "metricsUtilization",
    "evictableNamespaces",
    "evictionLimits",
)
# Keys that are read and have no equal, with what holds instead.
_NONE: Final = {
    "nodeSelector": "nodes cannot be left out: all are looked at",
    "evictionFailureEventNotification": "failures are always Events and rows of the ledger",
    "metricsCollector": "usage comes from Prometheus: give the services --prometheus URL",
    "metricsProviders": "usage comes from Prometheus: give the services --prometheus URL",
    "noEvictionPolicy": "protect.markers.preferNoEviction says what the annotation does",
    "evictDaemonSetPods": "pods of DaemonSets are never evicted",
    "evictFailedBarePods": "pods without a controller stay (protect.bare)",
    "evictSystemCriticalPods": "pods of protect.priorityAtLeast or more stay: raise it to evict them",
}
_PROTECTIONS: Final = {  # defaultDisabled and extraEnabled, each as the key of old that meant the same
    "PodsWithLocalStorage": "evictLocalStoragePods",
    "DaemonSetPods": "evictDaemonSetPods",
    "SystemCriticalPods": "evictSystemCriticalPods",
    "FailedBarePods": "evictFailedBarePods",
    "PodsWithPVC": "ignorePvcPods",
    "PodsWithoutPDB": "ignorePodsWithoutPDB",
}
_EVICTOR: Final = (
    "apiVersion",
    "kind",
    "nodeSelector",
    "labelSelector",
    "namespaceLabelSelector",
    "priorityThreshold",
    "nodeFit",
    "minReplicas",
    "minPodAge",
    "noEvictionPolicy",
    "podProtections",
    *_PROTECTIONS.values(),
)
_Section = dict[str, object]


def convert(tree: object) -> converting.ImportedPolicy:
    """The sections of a parsed file. Raises ImportRefused with all that is wrong with it."""
    reading = _Reading("descheduler")
    whole = reading.mapping(tree, "file")
    reading.kind(whole, API_VERSION, KIND)
    reading.unknown(whole, "", _TOP)
    reading.without_equal(whole, "")
    path, configs = reading.profile(whole)
    arguments_path, arguments = configs.get(PLUGIN, (f"{path}.pluginConfig", {}))
    evictor_path, evictor = configs.get(EVICTOR, ("", {}))
    section: _Section = {
        "mode": "Observe",
        **reading.lines(arguments_path, arguments),
        **reading.grace_period(whole),
    }
    reading.source(arguments_path, arguments)
    limits = reading.limits(whole, arguments_path, arguments)
    protect = {**reading.protect(evictor_path, evictor), **reading.namespaces(arguments_path, arguments)}
    section |= {key: value for key, value in (("limits", limits), ("protect", protect)) if value}
    return reading.finished({"filter": {"thresholds": {}}, "descheduler": section})


class _EvictorReading(converting.Findings):
    """The arguments of DefaultEvictor being converted."""

    def without_equal(self, mapping: converting.Mapping, prefix: str) -> None:
        """Remark on keys that are set and have no equal."""
        for key in mapping:
            if key in _NONE and mapping[key] is not None and mapping[key] is not False:
                self.remark(f"{prefix}{key}", f"no equal: {_NONE[key]}")

    def protect(self, path: str, evictor: converting.Mapping) -> _Section:
        """The protections of DefaultEvictor."""
        prefix = f"{path}."
        self.unknown(evictor, prefix, _EVICTOR)
        protections = self._protections(path, evictor)
        self.without_equal({**evictor, **dict.fromkeys(protections, True)}, prefix)
        section = self._selectors(path, evictor) | self._floors(path, evictor)
        if "evictLocalStoragePods" in protections:
            section["localStorage"] = "none"
        if "ignorePodsWithoutPDB" in protections:
            section["withoutBudget"] = True
        if "ignorePvcPods" in protections:
            if classes := self._storage_classes(path, evictor):
                section["storageClasses"] = classes
            else:
                self.remark(
                    f"{prefix}podProtections", "PodsWithPVC: only pods with volumes of one node stay (nodeBoundVolumes)"
                )
        if evictor.get("nodeFit") is False:
            self.remark(f"{prefix}nodeFit", "always on: a pod leaves only for a node that fits it")
        return section

    def _protections(self, path: str, evictor: converting.Mapping) -> set[str]:
        """The keys of old that are set, by themselves or under `podProtections`."""
        mapping = self.mapping(evictor.get("podProtections"), f"{path}.podProtections")
        switches = {key for key in _PROTECTIONS.values() if evictor.get(key)}
        for key in ("defaultDisabled", "extraEnabled"):
            names = mapping.get(key)
            for name in names if isinstance(names, list) else ():
                if name in _PROTECTIONS:
                    switches.add(_PROTECTIONS[str(name)])
                else:
                    self.remark(f"{path}.podProtections.{key}", f"no equal: {units.quoted(name)}; it is left out")
        return switches

    def _storage_classes(self, path: str, evictor: converting.Mapping) -> list[str]:
        at = f"{path}.podProtections.config.PodsWithPVC"
        protections = self.mapping(evictor.get("podProtections"), f"{path}.podProtections")
        config = self.mapping(protections.get("config"), f"{path}.podProtections.config")
        claims = self.mapping(config.get("PodsWithPVC"), at)
        entries = self.entries(claims.get("protectedStorageClasses"), f"{at}.protectedStorageClasses", "name")
        return [str(entry["name"]) for _, entry in entries if entry.get("name")]

    def _selectors(self, path: str, evictor: converting.Mapping) -> _Section:
        section: _Section = {}
        if evictor.get("labelSelector"):
            section["labelSelector"] = self.mapping(evictor["labelSelector"], f"{path}.labelSelector")
        selector = self.mapping(evictor.get("namespaceLabelSelector"), f"{path}.namespaceLabelSelector")
        if (inverted := _inverted(selector)) is not None:
            section["namespaceSelector"] = {"matchExpressions": [inverted]}
        elif selector:
            self.remark(
                f"{path}.namespaceLabelSelector",
                "left out: descheduler's selects namespaces whose pods may leave, protect.namespaceSelector those "
                "whose pods stay, and more than one condition cannot be turned round",
            )
        return section

    def _floors(self, path: str, evictor: converting.Mapping) -> _Section:
        section: _Section = {}
        threshold = self.mapping(evictor.get("priorityThreshold"), f"{path}.priorityThreshold")
        name, value = threshold.get("name"), threshold.get("value")
        if name and name not in _CLASSES:
            self.remark(f"{path}.priorityThreshold.name", "left out: protect.priorityAtLeast takes the class's number")
        elif name or value is not None:
            section["priorityAtLeast"] = _CLASSES[str(name)] if name else value
        if replicas := self.value(path, evictor, "minReplicas", _whole, absent=None):
            section["minReplicas"] = int(replicas)
        if age_seconds := self.value(path, evictor, "minPodAge", units.duration_seconds, absent=None):
            section["minPodAge"] = units.duration_text(age_seconds)
        return section


class _Reading(_EvictorReading):
    """One file being converted."""

    def profile(self, whole: converting.Mapping) -> tuple[str, dict[str, tuple[str, converting.Mapping]]]:
        """The path of the profile that has the plugin, and the arguments of its plugins by name, with their paths."""
        profiles: list[tuple[str, converting.Mapping]] = []
        for path, profile in self.entries(whole.get("profiles"), "profiles", "name, pluginConfig and plugins"):
            plugins = self.mapping(profile.get("plugins"), f"{path}.plugins")
            sets = (self.mapping(one, f"{path}.plugins.{point}").get("enabled") for point, one in plugins.items())
            enabled = {str(name) for names in sets if isinstance(names, list) for name in names}
            others = sorted(enabled - {PLUGIN, EVICTOR})
            if others:
                self.remark(f"{path}.plugins", f"no equal: {', '.join(others)}; keep descheduler for them")
            if PLUGIN in enabled:
                profiles.append((path, profile))
        if not profiles:
            self.problem("profiles", f"no profile enables {PLUGIN}, the one plugin that can be imported")
            return "profiles", {}
        for path, _ in profiles[1:]:
            self.remark(path, f"a second {PLUGIN} has no equal: there is one policy, that of {profiles[0][0]}")
        path, profile = profiles[0]
        configs = self.entries(profile.get("pluginConfig"), f"{path}.pluginConfig", "name and args")
        return path, {str(one.get("name")): (f"{at}.args", self.mapping(one.get("args"), at)) for at, one in configs}

    def lines(self, path: str, arguments: converting.Mapping) -> _Section:
        """The bands and the number of cool nodes."""
        self.unknown(arguments, f"{path}.", _ARGUMENTS)
        nodes = self.value(path, arguments, "numberOfNodes", _whole, absent=None)
        cool: _Section = {"coolNodes": int(nodes) + 1} if nodes else {}
        if arguments.get("useDeviationThresholds"):
            return self._over_mean(path, arguments) | cool
        under, over = (self._percentages(path, arguments, key) for key in ("thresholds", "targetThresholds"))
        if under.keys() != over.keys():
            self.problem(path, "thresholds and targetThresholds must name the same resources")
        bands = {
            _METRICS[name]: {
                "evictAbove": over[name],
                "evictUntil": round(max(under.get(name, 0.0), over[name] - GAP_RATIO), 6),
            }
            for name in _METRICS
            if name in over
        }
        if not bands:
            self.problem(f"{path}.targetThresholds", "cpu or memory expected: Evenload has no other lines")
        self.remark(
            f"{path}.targetThresholds",
            "descheduler begins and stops at this line; here relief stops at evictUntil, "
            f"{100 * GAP_RATIO:g} points lower, so that it does not begin again at once",
        )
        return {"thresholds": bands, **cool}

    def _over_mean(self, path: str, arguments: converting.Mapping) -> _Section:
        """The bands of lines that follow the mean."""
        over = self._percentages(path, arguments, "targetThresholds")
        fixed = load_policy.defaults().descheduler.thresholds
        bands: _Section = {}
        for name, metric in _METRICS.items():
            band = fixed[metric].model_dump(by_alias=True, exclude_none=True)
            if name in over and over[name] < fixed[metric].evict_above_ratio:
                until = round(max(0.0, over[name] - GAP_RATIO), 6)
                bands[metric] = {**band, "overMean": {"evictAbove": over[name], "evictUntil": until}}
            elif name in over:
                bands[metric] = band
        if not bands:
            self.problem(f"{path}.targetThresholds", "cpu or memory expected: Evenload has no other lines")
        self.remark(
            f"{path}.useDeviationThresholds",
            "the lines follow the mean here, too (overMean); beside them the fixed default lines hold, and a node at "
            "or under overMean.floor (40 %) is never overloaded by its distance to the mean",
        )
        return {"thresholds": bands}

    def _percentages(self, path: str, arguments: converting.Mapping, key: str) -> dict[str, float]:
        ratios: dict[str, float] = {}
        lines = self.mapping(arguments.get(key), f"{path}.{key}")
        for name in lines:
            share = self.value(f"{path}.{key}", lines, name, _percentage, absent=None)
            if name not in _METRICS:
                self.remark(f"{path}.{key}.{name}", "no equal: only cpu and memory have lines; it is left out")
            elif share is not None:
                ratios[name] = share
        return ratios

    def source(self, path: str, arguments: converting.Mapping) -> None:
        """Remark on where usage comes from."""
        used = self.mapping(arguments.get("metricsUtilization"), f"{path}.metricsUtilization")
        if used.get("prometheus"):
            self.remark(
                f"{path}.metricsUtilization.prometheus",
                "left out: add the query under metrics:, as a ratio of cpu or memory for each node",
            )
        elif used:
            self.remark(f"{path}.metricsUtilization", "usage is the mean of 5 minutes from Prometheus here")
        else:
            self.remark(
                path, "without metricsUtilization descheduler compares requests; here the lines are of measured use"
            )

    def limits(self, whole: converting.Mapping, path: str, arguments: converting.Mapping) -> _Section:
        """The caps; where the file has none, Evenload's defaults hold."""
        of_plugin = self.mapping(arguments.get("evictionLimits"), f"{path}.evictionLimits")
        of_any = self._count("", whole, "maxNoOfPodsToEvictPerNode")
        of_node = self._count(f"{path}.evictionLimits", of_plugin, "node")
        counts = {
            "perNode": min(filter(None, (of_any, of_node)), default=None),
            "perNamespace": self._count("", whole, "maxNoOfPodsToEvictPerNamespace"),
            "perRun": self._count("", whole, "maxNoOfPodsToEvictTotal"),
        }
        return {key: count for key, count in counts.items() if count is not None}

    def grace_period(self, whole: converting.Mapping) -> _Section:
        """The grace period of evicted pods, if it is not 0, by which the apiserver removes a pod that still runs."""
        seconds = self.value("", whole, "gracePeriodSeconds", _whole, absent=None)
        if seconds == 0:
            self.remark("gracePeriodSeconds", "0 has no equal: the pod's own grace period holds")
        return {"gracePeriod": units.duration_text(seconds)} if seconds else {}

    def _count(self, path: str, mapping: converting.Mapping, key: str) -> int | None:
        count = self.value(path, mapping, key, _whole, absent=None)
        if count == 0:
            self.remark(f"{path}.{key}".lstrip("."), "0 has no equal: mode Observe evicts nothing; the default holds")
        return int(count) if count else None

    def namespaces(self, path: str, arguments: converting.Mapping) -> _Section:
        """The namespaces whose pods stay, beside the default one."""
        selection = self.mapping(arguments.get("evictableNamespaces"), f"{path}.evictableNamespaces")
        if selection.get("include"):
            self.remark(f"{path}.evictableNamespaces.include", "no equal: name those that stay in protect.namespaces")
        excluded = selection.get("exclude")
        names = [str(name) for name in excluded] if isinstance(excluded, list) else []
        return {"namespaces": list(dict.fromkeys(("kube-system", *names)))} if names else {}


def _inverted(selector: converting.Mapping) -> _Section | None:
    """The condition that holds where the only one of a selector does not; None if it has several."""
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, dict) or not isinstance(expressions, list) or len(labels) + len(expressions) != 1:
        return None
    if labels:
        ((key, value),) = labels.items()
        return {"key": key, "operator": "NotIn", "values": [value]}
    (expression,) = expressions
    if not isinstance(expression, collections.abc.Mapping) or expression.get("operator") not in _INVERTED:
        return None
    return {**expression, "operator": _INVERTED[str(expression["operator"])]}


def _percentage(value: object) -> float:
    """A number from 0 to 100 as a ratio."""
    number = units.number(value)
    if number > 100:
        raise ValueError(f"a percentage from 0 to 100 expected, got {units.quoted(value)}")
    return number / 100


def _whole(value: object) -> float:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise ValueError(f"a whole number from 0 expected, got {units.quoted(value)}")
    return float(value)
