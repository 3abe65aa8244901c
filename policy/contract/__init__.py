"""Texts on the wire between the services: annotations, the heartbeat, ConfigMaps, timestamps."""
