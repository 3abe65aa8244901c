"""HTTP client of the apiserver: requests, watch streams, decoding, and objects that fail to decode."""
