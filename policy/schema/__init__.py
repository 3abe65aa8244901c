"""Policy file sections as frozen models with defaults, units and cross-field checks."""
