"""Parts that several commands share: output, HTTP clients of the services, policy files."""
