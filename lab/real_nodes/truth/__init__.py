"""How true readings, predictions and decisions are on real nodes: a table and a picture of one run."""
