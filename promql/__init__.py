"""The only door to Prometheus: queries out, plain samples in, and the questions that both readers of it ask.

The annotator and the descheduler come here. `door` names what passes through, `client` is the real implementation over
prometheus-api-client, `errors` its error tree; `node_queries` and `pod_queries` are the PromQL texts, `identity` finds
the node behind a series and `readings` turns an answer into one value per node or pod, refusing what cannot be trusted.
Nothing of the HTTP library or of the client library leaves this package.
"""
