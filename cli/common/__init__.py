"""Parts that several commands share: output, HTTP clients of the services, plots, policy files."""
