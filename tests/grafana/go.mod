// Reads a dashboard by Grafana's own published schema, strictly, and says what is wrong with it.
module evenload.io/tests/grafana

go 1.24.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
