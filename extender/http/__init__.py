"""HTTP server of the extender: connections, request framing, TLS, the fast path, the Flask application."""
