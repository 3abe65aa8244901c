"""The image, built, described and run without Docker and without a registry: `make -C lab image`.

`engine` builds it with Debian's buildah on a base of Debian's Python that mmdebstrap makes; `archive` reads the OCI
archive, `container` runs it under runc as the manifests do, `provenance` states of what it was built; `__main__` prints
size, contents and start times. `root` and `imports` run inside the build: the Dockerfile's last step.
tests/contract/test_image.py holds the image to what the pages promise.
"""
