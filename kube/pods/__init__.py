"""Forms of a pod: full, compact for cluster-wide watches, interned for lists, and the view they share."""
