"""HTTP client of Prometheus: credentials, response limits, JSON decoding, circuit breaker."""
