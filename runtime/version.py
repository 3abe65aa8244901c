"""The version of Evenload, spelt once.

pyproject.toml states the same number (a test compares them); /version, the user agent of both doors and the metrics
read it here.
"""

VERSION = "0.1.0"
