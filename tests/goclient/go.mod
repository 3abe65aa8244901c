// Asks an extender the way kube-scheduler does, for a while, and counts what fails.
module evenload.io/tests/goclient

go 1.26.0
