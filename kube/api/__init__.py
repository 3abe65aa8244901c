"""Kubernetes API objects as frozen structs, and pure predicates on them: selectors, quantities, resources."""
