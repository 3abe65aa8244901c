// The yardstick of bench/: an extender that decodes, looks up and encodes, and nothing else.
module evenload.io/bench/reference

go 1.26.0
