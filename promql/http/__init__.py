"""HTTP client of Prometheus: credentials, response limits, JSON decoding, circuit breaker."""

from typing import Final

DEFAULT_TIMEOUT_SECONDS: Final = 10.0  # of one query, unless an option says otherwise
