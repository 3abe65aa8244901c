"""One PromQL expression per metric of the policy, for all nodes at once.

Pure text. `annotator.collect.collector` asks them; the texts themselves live in `promql.queries.node_queries`, because
the descheduler measures the same windows. A metric with a `query` of its own is asked as it stands.
"""

from policy.metrics import Metric
from promql.queries import node_queries


def expression(metric: Metric, *, selector: str = "") -> str:
    """The query of a metric; `selector` is further matchers for the built-in ones, e.g. `job="node-exporter"`.

    Raises ValueError for a statistic that the policy's checks let pass only together with a `query`.
    """
    if metric.query is not None:
        return metric.query
    window = node_queries.Window(metric.resource, metric.statistic, metric.window_seconds, metric.averaging_seconds)
    return node_queries.expression(window, selector=selector)
