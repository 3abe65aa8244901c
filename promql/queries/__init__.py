"""PromQL expressions for node and pod windows, and the nodes their series belong to."""
