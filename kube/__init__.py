"""The only door to the Kubernetes API.

`kube.config.connect` gives a `kube.http.client.Client`, which is a `kube.door.KubeDoor`; services read through
`kube.cache.reflector`, write through the door, and see only the frozen structs of `kube.objects` and the errors of
`kube.errors`. The official client does authentication and transport and stays inside: nothing of it leaves this
package.
"""
