// Asks extenders the way kube-scheduler does and measures the answers.
module evenload.io/bench/client

go 1.26.0
