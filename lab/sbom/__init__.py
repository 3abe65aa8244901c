"""The bill of materials: `make -C lab sbom` writes what Evenload is made of, as CycloneDX JSON.

`pins` reads requirements*.txt, go.mod and go.sum, `document` makes the CycloneDX document of them, `__main__` writes
it. Nothing is asked of a network or of what happens to be installed: the pinned files are the truth, and what is
installed is installed from them with --require-hashes.
"""
