"""The version of Evenload, spelt once.

The wheel's metadata, /version, the user agent of both doors and the metrics take it from here. Manifests, the chart and
pages repeat it: `python -m lab.release version NUMBER` writes all of them, and a test compares them.
"""

VERSION = "0.2.0"
