"""`evenload doctor`: what is wrong with a cluster and how to put it right, one check at a time.

`gathering` and `measuring` read the cluster, the services and Prometheus once into `facts.Facts`; the judges in
`sources`, `metrics_server`, `rights`, `services` and `rules` are pure functions from there to a
`findings.Finding`; `command` lists them and prints. A new check is one judge, one line in `command` and a test.
"""
